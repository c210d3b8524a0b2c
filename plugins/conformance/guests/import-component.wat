;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "component" (component)))
