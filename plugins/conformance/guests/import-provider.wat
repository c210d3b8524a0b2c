;; Unknown import.
;; reason: UnknownImport
;; says: numo:provider/cloud-api@1.0.0
;; == whole
(component (import "numo:provider/cloud-api@1.0.0" (instance)))
