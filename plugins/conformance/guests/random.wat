;; A bomb of random bytes.
;; reason: Trap
;; world: chatty
;; == imports
(import "wasi:random/random@0.2.6" "get-random-bytes" (func $random (param i64 i32)))
;; == evaluate
(call $random (i64.const 1000000000) (i32.const 8))
