;; Deep recursion.
;; reason: StackOverflow
;; == fields
(func $deep (param i32) (result i32)
  (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
;; == evaluate
(drop (call $deep (i32.const 0)))
