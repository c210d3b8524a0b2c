;; Unknown import.
;; reason: UnknownImport
;; says: numo:host/backdoor@1.0.0
;; == whole
(component (import "numo:host/backdoor@1.0.0" (instance)))
