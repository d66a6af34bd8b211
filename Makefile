# What one does with flux-elastic. `make help` explains every target.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help

# The local cluster: see `make cluster-up`.
NODES       ?= 149
NODE_CPU    ?= 8
NODE_MEMORY ?= 32Gi
PORT        ?= 6550
LOCAL_DIR   ?= .local
DEMO_NODES  ?= 24

# Tests to run, and how: make test TEST=./pkg/... TEST_ARGS='-run Gang -v'
TEST      ?= ./...
TEST_ARGS ?=

# The clogging experiment: see `make bench-clog`.
SIZES  ?= 64x6,32x10,16x20,8x20,4x20
SEED   ?= 1
MIN    ?= rigid
RUN    ?= 10s
LIMIT  ?= 180s
BINDER ?= gate
OUT    ?= $(LOCAL_DIR)/clog

# Readers to fuzz, and how long each: PACKAGE:TARGET
FUZZTIME ?= 30s
FUZZ     ?= pkg/fluxion/hostlist:FuzzDecode pkg/fluxion/idset:FuzzParse pkg/fluxion/idset:FuzzEncode \
            pkg/fluxion/jobspec:FuzzParse pkg/fluxion/jobspec:FuzzParseConstraint \
            pkg/fluxion:FuzzReadJGF pkg/fluxion:FuzzReadGRUG pkg/fluxion:FuzzReadRv1Exec pkg/fluxion:FuzzFind \
            pkg/fluxion:FuzzPartialCancel pkg/fluxion:FuzzUpdate pkg/fluxion:FuzzSession internal/broker:FuzzSettings internal/broker:FuzzFiles

TOOL   := go tool -modfile=hack/tools/go.mod
SHELLS := $(shell git ls-files '*.sh' .ci/run)
YAMLS  := $(shell git ls-files '*.yaml' '*.yml' ':!config/crd/*' ':!config/rbac/role.yaml' ':!internal/jobset/crd/*' ':!internal/localcluster/stages/*')

##@ Use

.PHONY: demo
demo: build ## Run the examples on a local cluster with simulated nodes, live, and end it: [DEMO_NODES=24]
	bin/localcluster demo --dir=$(LOCAL_DIR)/demo --port=0 --nodes=$(DEMO_NODES)

.PHONY: cluster-up
cluster-up: build ## Start a local cluster: [NODES=149] [NODE_CPU=8] [NODE_MEMORY=32Gi] [PORT=6550] [LOCAL_DIR=.local]
	bin/localcluster up --dir=$(LOCAL_DIR) --port=$(PORT) --nodes=$(NODES) --node-cpu=$(NODE_CPU) --node-memory=$(NODE_MEMORY)

.PHONY: cluster-down
cluster-down: build ## End the local cluster of LOCAL_DIR, and all that was started with it
	bin/localcluster down --dir=$(LOCAL_DIR)

.PHONY: cluster-status
cluster-status: build ## Show what runs in LOCAL_DIR
	bin/localcluster status --dir=$(LOCAL_DIR)

.PHONY: run
run: build ## Install the API on the local cluster of LOCAL_DIR and run the manager in the foreground
	bin/localcluster install --dir=$(LOCAL_DIR)
	bin/manager --kubeconfig=$(LOCAL_DIR)/kubeconfig --jobset=embedded --metrics-bind-address=127.0.0.1:$$(($(PORT)+6)) --health-probe-bind-address=127.0.0.1:$$(($(PORT)+7)) --zap-encoder=console --zap-time-encoding=iso8601

##@ Build and test

.PHONY: build
build: ## Build bin/manager, bin/localcluster, bin/resource-query and bin/kubectl-minicluster
	go build -o bin/ ./cmd/...

.PHONY: build-fluxion
build-fluxion: ## Build bin/manager-fluxion, which can let Fluxion's own library choose the nodes
	go build -tags=fluxion -o bin/manager-fluxion ./cmd/manager

.PHONY: test
test: build ## Run the tests; the first time the control plane is built (some minutes): [TEST=./...] [TEST_ARGS=]
	bin/localcluster build
	go test -timeout=30m $(TEST_ARGS) $(TEST)

.PHONY: test-fluxion
test-fluxion: ## Test what Fluxion's own library chooses and answers: FLUXION_LIBRARY= [RESOURCE_QUERY=, flux-sched's]
	@test -n "$(FLUXION_LIBRARY)" || { echo "say where it is: make test-fluxion FLUXION_LIBRARY=.../libreapi_cli.so" >&2; exit 1; }
	FLUXION_LIBRARY=$(abspath $(FLUXION_LIBRARY)) go test -count=1 -tags=fluxion $(TEST_ARGS) ./cmd/manager ./cmd/resource-query ./internal/reapigraph ./pkg/fluxion/reapi ./test/conformance

.PHONY: race
race: build ## Run the tests with the race detector, in the manager that they start too (needs a C compiler)
	bin/localcluster build
	GOFLAGS=-race GORACE=halt_on_error=1 go test -timeout=60m $(TEST_ARGS) $(TEST)

.PHONY: deflake
deflake: build ## Run the tests ten times over, in random order: [TEST=] [TEST_ARGS=]
	bin/localcluster build
	go test -count=10 -shuffle=on -timeout=300m $(TEST_ARGS) $(TEST)

.PHONY: bench
bench: ## Run the benchmarks
	go test -run='^$$' -bench=. -benchmem ./pkg/...

.PHONY: bench-fluxion
bench-fluxion: ## Measure the matcher, beside the real Fluxion where FLUXION_LIBRARY names its libreapi_cli.so
	go test -run='^$$' -bench='Gang|Match' -benchtime=200x -benchmem ./pkg/fluxion
	go test -run='^$$' -bench='New|Read' -benchtime=3x -benchmem ./pkg/fluxion
	go test -run='^$$' -bench=. -benchtime=5x ./test/bench
	go test -run='^$$' -bench=. -benchtime=20x ./internal/reapigraph

.PHONY: bench-clog
bench-clog: build ## Run many gangs at once on a cluster of their own: [SIZES=64x6,32x10,..] [SEED=1] [NODES=149] [MIN=rigid|half] [RUN=10s] [LIMIT=180s] [BINDER=gate|direct] [OUT=.local/clog]
	bin/localcluster clog --dir=$(OUT) --port=0 --nodes=$(NODES) --node-cpu=$(NODE_CPU) --sizes=$(SIZES) --seed=$(SEED) --min=$(MIN) --run=$(RUN) --limit=$(LIMIT) --binder=$(BINDER)

.PHONY: conformance
conformance: ## Run the test scripts of a flux-sched checkout against resource-query: FLUX_SCHED_SRC=
	@test -n "$(FLUX_SCHED_SRC)" || { echo "say where flux-sched is: make conformance FLUX_SCHED_SRC=DIR" >&2; exit 1; }
	FLUX_SCHED_SRC=$(abspath $(FLUX_SCHED_SRC)) go test -count=1 -v ./test/conformance

.PHONY: fuzz
fuzz: ## Fuzz every reader for a while: [FUZZTIME=30s]
	set -e; for target in $(FUZZ); do go test -run='^$$' -fuzz="^$${target#*:}$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./$${target%:*}; done

##@ Develop

.PHONY: generate
generate: ## Generate deep copies, CRDs and the manager's role
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	$(TOOL) controller-gen rbac:roleName=flux-elastic paths=./controllers/... output:rbac:dir=config/rbac
	$(TOOL) controller-gen crd:maxDescLen=0,generateEmbeddedObjectMeta=true paths=sigs.k8s.io/jobset/api/jobset/v1alpha2 output:crd:dir=internal/jobset/crd

.PHONY: format
format: ## Format Go, shell and YAML
	$(TOOL) golangci-lint fmt
	$(TOOL) shfmt -w $(SHELLS)
	$(TOOL) yamlfmt $(YAMLS)

.PHONY: lint
lint: ## Check Go (the layers of docs/architecture.md too), shell and YAML
	$(TOOL) golangci-lint run
	$(TOOL) golangci-lint run --build-tags=fluxion ./cmd/manager
	$(TOOL) shfmt -d $(SHELLS)
	@command -v shellcheck >/dev/null || { echo "make lint needs shellcheck: apt-get install shellcheck, brew install shellcheck" >&2; exit 1; }
	shellcheck -x -P internal/broker/scripts $(SHELLS)
	$(TOOL) yamlfmt -lint $(YAMLS)

.PHONY: verify
verify: generate lint ## Check that everything generated is up to date, and lint; fails on a diff: commit first
	go vet ./...
	go vet -tags=fluxion ./cmd/manager
	for dir in . hack/controlplane hack/tools; do (cd $$dir && go mod tidy -diff) || exit; done
	git diff --exit-code
	@test -z "$$(git status --porcelain)" || { git status --short; echo "verify: files are not committed, or were generated and are new" >&2; exit 1; }

.PHONY: presubmit
presubmit: verify test ## What CI runs

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-z-]+:.*##/ {printf "  \033[36m%-15s\033[0m%s\n", $$1, $$2}' $(MAKEFILE_LIST)
