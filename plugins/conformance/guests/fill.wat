;; One huge memory.fill after the other.
;; No epoch is looked at inside one: the size of a memory bounds it.
;; reason: EvaluationTimeout
;; == fields
(memory $big 1000)
;; == evaluate
(loop $again
  (memory.fill $big (i32.const 0) (i32.const 7) (i32.const 65536000))
  (br $again))
