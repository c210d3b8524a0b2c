;; A memory of 64-bit addresses.
;; reason: CompileFailed
;; == component
(core module $wide (memory i64 1))
(core instance (instantiate $wide))
