;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "numo:host/backdoor@1.0.0" (instance)))
