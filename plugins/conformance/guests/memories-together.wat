;; Two memories, each within the limit.
;; reason: MemoryLimit
;; says: together
;; == fields
(memory 640)
(memory 640)
