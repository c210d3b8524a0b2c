;; Unknown import.
;; reason: UnknownImport
;; says: component
;; == whole
(component (import "component" (component)))
