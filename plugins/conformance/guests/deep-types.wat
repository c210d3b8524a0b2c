;; reason: CompileFailed
;; says: nested deeper than
;; made: deep-types 1000000
;; A million instance types in one another: the validator reads them recursively.
