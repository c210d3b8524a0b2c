;; Many memories.
;; reason: MemoryLimit
;; == fields
(memory 0)
(memory 0)
(memory 0)
(memory 0)
(memory 0)
(memory 0)
(memory 0)
(memory 0)
