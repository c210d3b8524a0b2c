;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "module" (core module)))
