;; Work in the start function.
;; reason: EvaluationTimeout
;; == fields
(func $s (loop $again (br $again)))
(start $s)
