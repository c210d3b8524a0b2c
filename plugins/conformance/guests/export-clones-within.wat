;; reason: WrongWorld CompileFailed
;; made: export-clones 9000 250
;; The same, as far as the first look lets it: what it takes is taken from the compiler's process.
