;; memory.grow without end.
;; reason: MemoryLimit
;; == evaluate
(loop $again (drop (memory.grow (i32.const 16))) (br $again))
