;; Unknown import.
;; reason: UnknownImport
;; says: wasi:sockets/tcp@0.2.6
;; == whole
(component (import "wasi:sockets/tcp@0.2.6" (instance)))
