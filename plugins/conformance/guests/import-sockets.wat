;; Unknown import.
;; reason: UnknownImport
;; == whole
(component (import "wasi:sockets/tcp@0.2.6" (instance)))
