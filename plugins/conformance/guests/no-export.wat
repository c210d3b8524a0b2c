;; A component without the export.
;; reason: WrongWorld
;; == whole
(component)
