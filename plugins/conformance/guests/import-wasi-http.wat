;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "wasi:http/outgoing-handler@0.2.6" (instance)))
