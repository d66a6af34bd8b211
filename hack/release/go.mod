module github.com/flux-elastic/flux-elastic/hack/release

go 1.26.0

require (
	sigs.k8s.io/kustomize/api v0.21.1
	sigs.k8s.io/kustomize/kyaml v0.21.1
)
