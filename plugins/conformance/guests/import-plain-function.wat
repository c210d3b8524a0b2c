;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "plain" (func)))
