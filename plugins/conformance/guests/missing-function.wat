;; An export without its functions.
;; reason: WrongWorld
;; says: without validate-config
;; == whole
(component
  (core module $m (func (export "f") (result i32) (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $f (result u32) (canon lift (core func $i "f")))
  (instance $e (export "describe" (func $f)))
  (export "numo:rule/evaluation@1.0.0" (instance $e)))
