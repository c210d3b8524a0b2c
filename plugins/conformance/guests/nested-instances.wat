;; Instances in instances, 2^14 of them.
;; Refused before it is compiled.
;; reason: CompileFailed MemoryLimit
;; == component
(component $c14
(component $c13
(component $c12
(component $c11
(component $c10
(component $c9
(component $c8
(component $c7
(component $c6
(component $c5
(component $c4
(component $c3
(component $c2
(component $c1
(component $c0 (core module $m) (core instance (instantiate $m)))
(instance (instantiate $c0)) (instance (instantiate $c0)))
(instance (instantiate $c1)) (instance (instantiate $c1)))
(instance (instantiate $c2)) (instance (instantiate $c2)))
(instance (instantiate $c3)) (instance (instantiate $c3)))
(instance (instantiate $c4)) (instance (instantiate $c4)))
(instance (instantiate $c5)) (instance (instantiate $c5)))
(instance (instantiate $c6)) (instance (instantiate $c6)))
(instance (instantiate $c7)) (instance (instantiate $c7)))
(instance (instantiate $c8)) (instance (instantiate $c8)))
(instance (instantiate $c9)) (instance (instantiate $c9)))
(instance (instantiate $c10)) (instance (instantiate $c10)))
(instance (instantiate $c11)) (instance (instantiate $c11)))
(instance (instantiate $c12)) (instance (instantiate $c12)))
(instance (instantiate $c13)) (instance (instantiate $c13)))
(instance (instantiate $c14))
