;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "numo:provider/cloud-api@1.0.0" (instance)))
