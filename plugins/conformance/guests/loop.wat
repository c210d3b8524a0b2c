;; Infinite loop.
;; reason: EvaluationTimeout
;; == evaluate
(loop $again (br $again))
