module numo.example/argocd

go 1.26

require (
	github.com/itchyny/gojq v0.12.19
	github.com/yuin/gopher-lua v1.1.1
)

require github.com/itchyny/timefmt-go v0.1.8 // indirect
