;; Unknown import.
;; reason: UnknownImport
;; says: wasi:http/outgoing-handler@0.2.6
;; == whole
(component (import "wasi:http/outgoing-handler@0.2.6" (instance)))
