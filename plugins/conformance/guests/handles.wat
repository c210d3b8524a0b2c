;; Handle spam: handles of the host.
;; reason: HandleLimit
;; world: chatty
;; == imports
(import "wasi:cli/stdout@0.2.6" "get-stdout" (func $stdout (result i32)))
;; == evaluate
(loop $again (drop (call $stdout)) (br $again))
