;; Unknown import.
;; reason: UnknownImport
;; says: module
;; == whole
(component (import "module" (core module)))
