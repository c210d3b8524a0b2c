;; reason: MemoryLimit
;; says: the state of its instances
;; made: many-globals 200000 50
;; The state of instances is no memory, and nobody asks before it is allocated.
