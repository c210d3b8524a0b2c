;; Infinite loop, before anybody asks it.
;; reason: EvaluationTimeout
;; == describe
(loop $again (br $again))
