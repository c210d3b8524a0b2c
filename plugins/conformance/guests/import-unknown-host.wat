;; Unknown import.
;; reason: UnknownImport
;; says: numo:host/backdoor
;; == whole
(component (import "numo:host/backdoor@1.0.0" (instance)))
