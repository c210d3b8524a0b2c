;; Handle spam: handles of its own.
;; A component that defines a resource makes them without any function of the host.
;; reason: HandleLimit
;; == component
(type $mine (resource (rep i32)))
(core func $new (canon resource.new $mine))
(core module $spam
  (import "" "new" (func $new (param i32) (result i32)))
  (func $start (loop $again (drop (call $new (i32.const 0))) (br $again)))
  (start $start))
(core instance $with (export "new" (func $new)))
(core instance (instantiate $spam (with "" (instance $with))))
