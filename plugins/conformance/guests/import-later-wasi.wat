;; Unknown import.
;; reason: UnknownImport
;; says: wasi:cli/stdout@0.3.0
;; == whole
(component (import "wasi:cli/stdout@0.3.0" (instance)))
