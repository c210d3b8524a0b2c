;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "evil:corp/backdoor@1.0.0" (instance)))
