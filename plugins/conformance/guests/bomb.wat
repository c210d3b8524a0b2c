;; Compile bomb: megabytes of code, quick to parse, slow or large to compile.
;; Not a guest by itself: the tests repeat the instruction, 400 times in each of 3000 functions for one that runs out of time,
;; 100000 times in one function for one that runs out of memory.
;; reason: CompileTimeout CompileFailed
;; == instruction
(local.set 0 (i64.mul (i64.add (local.get 0) (i64.const 7)) (i64.xor (local.get 0) (i64.const 3))))
