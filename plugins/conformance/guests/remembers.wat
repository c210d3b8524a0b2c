;; Data of one evaluation in the next.
;; It traps if it finds anything; it is asked many times.
;; reason: Pass
;; == fields
(global $ran (mut i32) (i32.const 0))
;; == evaluate
(if (global.get $ran) (then unreachable))
(global.set $ran (i32.const 1))
(if (i32.load (i32.const 70000)) (then unreachable))
(i32.store (i32.const 70000) (i32.const 1))
