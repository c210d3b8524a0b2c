;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "wasi:cli/stdout@0.3.0" (instance)))
