;; table.grow without end.
;; reason: MemoryLimit
;; == fields
(table $t 0 funcref)
;; == evaluate
(loop $again (drop (table.grow $t (ref.null func) (i32.const 1000))) (br $again))
