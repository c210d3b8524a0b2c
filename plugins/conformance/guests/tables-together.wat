;; Two tables, each within the limit.
;; reason: MemoryLimit
;; == fields
(table 15000 funcref)
(table 15000 funcref)
