;; reason: TooLarge
;; says: export more than
;; made: export-clones 20000 900
;; A component of many exports with many instances: the validator copies all exports for each of them.
