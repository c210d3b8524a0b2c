;; Unknown import.
;; reason: UnknownImport
;; says: numo:host@0.9.0
;; == whole
(component (import "numo:host/log@0.9.0" (instance)))
