;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "numo:host/log@0.9.0" (instance)))
