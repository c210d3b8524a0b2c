;; Unknown import.
;; reason: UnknownImport
;; says: evil:corp/backdoor@1.0.0
;; == whole
(component (import "evil:corp/backdoor@1.0.0" (instance)))
