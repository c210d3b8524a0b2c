;; A pass after a refused memory.grow.
;; It looks at no answer and goes on to its pass: that is not used.
;; reason: MemoryLimit
;; == evaluate
(drop (memory.grow (i32.const 30000)))
