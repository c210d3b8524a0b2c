;; reason: MemoryLimit
;; says: the state of its instances
;; made: wide-imports 50000 60
;; The same of functions that are imported.
