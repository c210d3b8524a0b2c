;; reason: CompileFailed
;; says: nested deeper than
;; made: deep-component-types 1000000
;; The same of component types.
