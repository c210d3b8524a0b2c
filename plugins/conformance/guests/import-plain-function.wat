;; Unknown import.
;; reason: UnknownImport
;; says: plain
;; == whole
(component (import "plain" (func)))
