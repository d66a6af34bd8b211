# Builds, runs and tests flux-elastic. `make help` explains every target.

SHELL := /bin/bash -o pipefail
# As in a release, and as bin/localcluster builds the control plane: what both have is compiled once.
export CGO_ENABLED ?= 0
.DEFAULT_GOAL := help

# Settings of the local cluster: see `make cluster-up`.
MODE        ?= simulated
NODES       ?= $(if $(filter real kind,$(MODE)),3,$(if $(AUTOSCALER),0,149))
NODE_CPU    ?= 8
NODE_MEMORY ?= 32Gi
# The port of the cluster in LOCAL_DIR, or that of a new cluster. The manager listens on two ports beside it.
PORT        ?= $(or $(shell cat $(LOCAL_DIR)/port 2>/dev/null),6550)
MPI         ?= false
KUEUE       ?= false
AUTOSCALER  ?=
HOLD        ?= false
LOCAL_DIR   ?= .local
# The minor version of Kubernetes' control plane: 1.37, or one with a module hack/controlplane/v*.
KUBERNETES  ?= 1.37
export KUBERNETES
DEMO_NODES  ?= $(if $(filter real,$(MODE)),3,24)

# Packages to test, and arguments of go test: make test TEST=./pkg/... TEST_ARGS='-run Gang -v'
TEST      ?= ./...
TEST_ARGS ?=
# Arguments of make bench-queue.
BENCH_ARGS ?=
# The directory of test results: NAME.xml (JUnit), and NAME.md (a table).
RESULTS   ?= $(LOCAL_DIR)/results

# Tests that need a cluster of their own, since they kill parts of it, such as the manager, keep it busy, or use any
# node. Tests wait most of the time, so these two groups run in parallel with the other tests.
KILLED := ^Test(KilledAtEvery|KilledWhile|Binder|LeaderElection|ExternalJobSet|ControlPlaneAway|RefusedStorm|NoisyNeighbor|DefaultTTL)
FAULTS := ^Test(KilledAtRandom|NothingIsLeftOver|Examples|ForeignJobSet|ForeignPods|RunsBesideNoOther|UpgradesJobSet|MiniClusterOfTheFluxOperator|MigrateCheck|Components|ScaleWithRuntimeClass)
# The test of make e2e-upgrade.
UPGRADE := ^TestUpgrade$$
# The older Kubernetes that is tested, and the tests that run there: what the API server is asked and does.
OLDER       := 1.36
OLDER_TESTS := ^Test(Lives|Binder|Schema|Scale|Roles|Rights|HorizontalPodAutoscaler|ExternalJobSet|DocumentedObjects|Immovable)
# What make e2e-kueue-facts tests of Kueue itself.
FACTS := ^Test(Fact|DocumentedObjects)
# Tests with real nodes that need a cluster of their own.
REAL_FAULTS := ^TestMiniClusters$$/^(Again|Back|Away|Trouble|Halted|DNS|Killed)$$

# Random faults: how long, and the seed that chooses them. See `make e2e-faults`.
FAULTS_FOR  ?= 10m
FAULTS_SEED ?= 1

# How many MiniClusters live in `make world`. SEED is the first seed.
LIVES ?= 2000

# The revision from which to upgrade: see `make e2e-upgrade`.
UPGRADE_FROM ?=

# Settings of the clogging experiment: see `make bench-clog`.
SIZES  ?= 64x6,32x10,16x20,8x20,4x20
SEED   ?= 1
MIN    ?= rigid
RUN    ?= 10s
LIMIT  ?= 180s
BINDER ?= auto
OUT    ?= $(LOCAL_DIR)/clog

# Settings of the comparison of schedulers: see `make bench`. Empty ones take all.
SCENARIOS  ?=
PEERS_ONLY ?=
SEEDS      ?=
PEERS      ?=
BENCH_OUT  ?= $(LOCAL_DIR)/bench

# How long each reader is fuzzed, and the readers: PACKAGE:TARGET
FUZZTIME ?= 30s
FUZZ     ?= pkg/fluxion/hostlist:FuzzDecode pkg/fluxion/hostlist:FuzzParse pkg/fluxion/idset:FuzzParse pkg/fluxion/idset:FuzzEncode \
            fluxion/jobspec:FuzzParse fluxion/jobspec:FuzzParseConstraint \
            $(addprefix fluxion/traverser:,FuzzReadJGF FuzzReadGRUG FuzzReadRv1Exec FuzzFind FuzzPartialCancel FuzzUpdate FuzzSession) \
            internal/broker:FuzzSettings internal/broker:FuzzFiles internal/protocol:FuzzRead internal/story:FuzzOf internal/chart:FuzzFile \
            $(addprefix internal/experiment:,FuzzRead FuzzExtract FuzzParseLines) test/abuse:FuzzArithmetic test/abuse:FuzzSpec \
            cmd/manager/options:FuzzFile cmd/kubectl-minicluster/access:FuzzPlain \
            $(addprefix cmd/kubectl-minicluster/verbs:,FuzzJoin FuzzScript FuzzLimit)

# The Python of the tests of sdk/python: that for which Debian has packages.
PYTHON ?= /usr/bin/python3

# The name of the manager's image in a release, and the version, which is also the image's tag: see `make release`.
IMAGE   ?= flux-elastic
VERSION ?= $(shell git describe --tags --always --dirty)

# The database of known vulnerabilities: see `make vulncheck`.
VULNDB ?= https://vuln.go.dev

# $(call suite,NAME,ARGS) runs go test with ARGS, and writes its results.
define suite
mkdir -p $(RESULTS)
code=0; $(if $(filter unit,$1),nice $(TOOL),$(TOOL)) gotestsum --hide-summary=skipped --format=$(if $(findstring e2e,$1),testname,pkgname) --jsonfile=$(RESULTS)/$1.json --junitfile=$(RESULTS)/$1.xml -- $2 || code=$$?; \
$(TOOL) tparse -all -format=markdown -file=$(RESULTS)/$1.json >$(RESULTS)/$1.md; exit $$code
endef

# $(call begin,NAME) and $(call passed,NAME) leave a record of a suite that passed: see dev/suites. A part of a suite leaves none.
begin  = $(if $(TEST_ARGS),,@go run ./dev/suites begin $1)
passed = $(if $(TEST_ARGS),,@go run ./dev/suites passed $1)

TOOL   := go tool -modfile=hack/tools/go.mod
SHELLS := $(shell git ls-files '*.sh' .ci/run)
YAMLS  := $(shell git ls-files '*.yaml' '*.yml' ':!config/crd/*' ':!config/rbac/role.yaml' ':!config/rbac/kueue_role.yaml' ':!config/rbac/scaleup_role.yaml' ':!internal/jobset/crd/*' ':!dev/localcluster/stages/*' ':!charts/*/files/*' ':!charts/*/templates/*')

##@ Use

.PHONY: demo
demo: build ## Run the examples on a new local cluster, show their progress, and end the cluster: [MODE=simulated|real] [DEMO_NODES=24 or 3] [HOLD=false|true]
	bin/localcluster demo --mode=$(MODE) --dir=$(LOCAL_DIR)/demo --port=0 --nodes=$(DEMO_NODES) --hold=$(HOLD)

.PHONY: cluster-up
cluster-up: build ## Start a local cluster: [MODE=simulated|real|kind] [NODES=149 or 3] [MPI=false|true] [KUEUE=false|true] [AUTOSCALER=karpenter] [NODE_CPU=8] [NODE_MEMORY=32Gi] [PORT=6550; make run then knows it] [LOCAL_DIR=.local]
	bin/localcluster up --mode=$(MODE) --mpi=$(MPI) --kueue=$(KUEUE) --autoscaler=$(AUTOSCALER) --dir=$(LOCAL_DIR) --port=$(PORT) --nodes=$(NODES) --node-cpu=$(NODE_CPU) --node-memory=$(NODE_MEMORY)

.PHONY: cluster-down
cluster-down: build ## End the local cluster of LOCAL_DIR, and all programs that were started with it
	bin/localcluster down --dir=$(LOCAL_DIR)

.PHONY: cluster-status
cluster-status: build ## Show the status and the processes of the local cluster of LOCAL_DIR
	bin/localcluster status --dir=$(LOCAL_DIR)

.PHONY: images
images: build ## Make the images for real nodes, in LOCAL_DIR (needs root and mmdebstrap): [MPI=false|true]
	bin/localcluster images --mpi=$(MPI) --dir=$(LOCAL_DIR)

.PHONY: run
run: build ## Install the API in the local cluster of LOCAL_DIR, and run the manager in the foreground
	bin/localcluster install --dir=$(LOCAL_DIR)
	bin/manager --kubeconfig=$(LOCAL_DIR)/manager.kubeconfig --jobset=embedded --leader-elect --leader-election-namespace=flux-elastic-system --metrics-bind-address=127.0.0.1:$$(($(PORT)+6)) --health-probe-bind-address=127.0.0.1:$$(($(PORT)+7)) --zap-encoder=console --zap-time-encoding=iso8601

##@ Build and test

.PHONY: build
build: ## Build bin/manager, bin/localcluster and bin/kubectl-minicluster
	go build -o bin/ ./cmd/...
	ln -sf kubectl-minicluster bin/kubectl_complete-minicluster

.PHONY: build-fluxion
build-fluxion: ## Build bin/manager-fluxion, a manager that can use Fluxion's own library (--matcher=fluxion), and bin/resource-query
	go -C fluxion build -ldflags=-X=github.com/flux-elastic/flux-elastic/internal/version.version=$(VERSION) -o $(abspath bin)/ ./cmd/...

.PHONY: release
release: ## Make the files of a release in dist, of a commit: [IMAGE=flux-elastic] [VERSION=v0.1.0] [SIGN_KEY=]
	@test -z "$$(git status --porcelain)" || { echo "make release: a release is made of a commit, and files of this checkout differ from it:" >&2; git status --short >&2; exit 1; }
	rm -rf dist
	go -C hack/release run . manifests --image=$(IMAGE) --version=$(VERSION)
	go -C hack/release run . chart --image=$(IMAGE) --version=$(VERSION)
	go -C hack/release run . wheel --version=$(VERSION)
	@$(MAKE) --no-print-directory release-images
	go -C hack/release run . sums --version=$(VERSION)
	$(if $(SIGN_KEY),go -C hack/release tool minisign -S -s $(abspath $(SIGN_KEY)) -m $(abspath dist/SHA256SUMS))

.PHONY: release-images
release-images: ## Make the manager's image and kubectl-minicluster in dist, with lists of what is in them: [IMAGE=flux-elastic] [VERSION=v0.1.0]
	go -C hack/release run . image --image=$(IMAGE) --version=$(VERSION)
	go -C hack/release run . plugin --version=$(VERSION) --platforms=linux/amd64,linux/arm64,darwin/amd64,darwin/arm64

.PHONY: test
test: control-plane ## Run the tests; the first run builds the control plane (some minutes): [TEST=./...] [TEST_ARGS=]
ifneq ($(TEST),./...)
	@$(MAKE) --no-print-directory unit
else ifneq ($(TEST_ARGS),)
	@$(MAKE) --no-print-directory unit e2e-sim
else # the unit tests compute while the others wait, and give way to these
	@$(MAKE) --no-print-directory -j4 e2e-sim-killed e2e-sim-lives e2e-sim-faults unit
endif

.PHONY: unit
unit: control-plane ## Run the tests that need no cluster, or that start a part of one: [TEST=./...] [TEST_ARGS=]
	@$(call suite,unit,-timeout=45m $(TEST_ARGS) $(shell go list $(TEST) | grep -v /test/e2e))
	$(if $(filter ./...,$(TEST)),go -C hack/release test -count=1 $(TEST_ARGS) ./...)
	$(if $(filter ./...,$(TEST)),go -C hack/monitoring test -count=1 $(TEST_ARGS) ./...)

.PHONY: e2e-sim
e2e-sim: control-plane ## Run the tests with simulated nodes: [TEST_ARGS=] [KUBERNETES=1.37|1.36]
ifeq ($(TEST_ARGS),)
	@$(MAKE) --no-print-directory -j3 e2e-sim-killed e2e-sim-faults e2e-sim-lives
else
	@$(call suite,e2e-sim,-count=1 -timeout=120m $(TEST_ARGS) ./test/e2e)
endif

.PHONY: e2e-sim-killed e2e-sim-faults e2e-sim-lives
e2e-sim-killed: SELECT = -run='$(KILLED)'
e2e-sim-faults: SELECT = -run='$(FAULTS)'
e2e-sim-lives: SELECT = -skip='$(KILLED)|$(FAULTS)|$(UPGRADE)'
e2e-sim-killed e2e-sim-faults e2e-sim-lives:
	@$(call suite,$@,-count=1 -timeout=120m $(SELECT) ./test/e2e)

.PHONY: control-plane
control-plane: build
	bin/localcluster build

.PHONY: kueue
kueue: build
	bin/localcluster build --kueue

.PHONY: karpenter
karpenter: build
	bin/localcluster build --autoscaler=karpenter

.PHONY: e2e-autoscale
e2e-autoscale: karpenter ## Run the tests with Karpenter, which makes simulated nodes; the first run builds Karpenter (some minutes): [TEST_ARGS=]
	$(call begin,$@)
	@$(call suite,$@,-count=1 -timeout=30m $(TEST_ARGS) ./test/e2e-autoscale)
	$(call passed,$@)

.PHONY: e2e-kueue
e2e-kueue: kueue ## Run the tests with Kueue and simulated nodes; the first run builds Kueue (some minutes): [TEST_ARGS=]
	$(call begin,$@)
	@$(call suite,$@,-count=1 -timeout=60m $(or $(TEST_ARGS),-skip='$(FACTS)') ./test/e2e-kueue)
	$(call passed,$@)

# Beside e2e-real, tests would wait in vain on two cores.
e2e-kueue: | $(filter e2e-real,$(MAKECMDGOALS))

.PHONY: e2e-kueue-facts
e2e-kueue-facts: kueue ## Test what flux-elastic relies on in Kueue itself, and that Kueue accepts the objects of the pages: [TEST_ARGS=]
	$(call begin,$@)
	@$(call suite,$@,-count=1 -timeout=30m $(or $(TEST_ARGS),-run='$(FACTS)') ./test/e2e-kueue)
	$(call passed,$@)

.PHONY: e2e-tools
e2e-tools: control-plane ## Run the programs for development: the demo, bench-clog, and bench: [TEST_ARGS=]
	$(call begin,$@)
	@$(call suite,$@,-count=1 -timeout=60m $(TEST_ARGS) ./test/e2e-tools)
	$(call passed,$@)

.PHONY: test-fluxion
test-fluxion: ## Test the module fluxion, also beside Fluxion's own library and flux-sched's resource-query: [FLUXION_LIBRARY=.../libreapi_cli.so] [RESOURCE_QUERY=] [TEST_ARGS=]
	$(call begin,$@)
	FLUXION_LIBRARY=$(abspath $(FLUXION_LIBRARY)) go -C fluxion test -count=1 $(TEST_ARGS) ./...
	$(call passed,$@)

.PHONY: test-experiment
test-experiment: ## Test the tools that need the API alone: experiments, timelines, and their drawings: [TEST_ARGS=]
	go test $(TEST_ARGS) ./internal/{story,chart,timeline,experiment/...} ./cmd/kubectl-minicluster/{experiment,timeline}

.PHONY: test-browser
test-browser: ## Test the web page in Chromium, and print figures: [SCREENSHOTS=DIR] [TEST_ARGS=]
	@command -v chromium chromium-browser google-chrome >/dev/null || { echo "make test-browser needs Chromium: apt-get install chromium" >&2; exit 1; }
	$(call begin,$@)
	SCREENSHOTS=$(abspath $(SCREENSHOTS)) go -C hack/browser test -count=1 -v $(TEST_ARGS) .
	$(call passed,$@)

.PHONY: test-python
test-python: control-plane ## Test the Python client, alone and with simulated nodes (needs python3-kubernetes and python3-pytest): [PYTHON=/usr/bin/python3] [TEST_ARGS=]
	@$(PYTHON) -c 'import kubernetes, pytest' || { echo "make test-python needs the packages: apt-get install python3-kubernetes python3-pytest" >&2; exit 1; }
	$(call begin,$@)
	cd sdk/python && PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m pytest -q -p no:cacheprovider
	@export PYTHON=$(PYTHON); $(call suite,e2e-python,-count=1 -timeout=60m $(TEST_ARGS) ./test/e2e-python)
	$(call passed,$@)

.PHONY: e2e-real
e2e-real: MPI = true
e2e-real: images ## Run the tests with real nodes (needs root; see docs/testing.md): [TEST_ARGS=]
	bin/localcluster build --mode=real
ifeq ($(TEST_ARGS),)
	$(call begin,$@)
	@$(MAKE) --no-print-directory -j2 e2e-real-faults e2e-real-lives
	$(call passed,$@)
else
	@$(call suite,e2e-real,-count=1 -tags=real -timeout=60m $(TEST_ARGS) ./test/e2e-real)
endif

.PHONY: e2e-real-faults e2e-real-lives
e2e-real-faults: SELECT = -run='$(REAL_FAULTS)'
e2e-real-lives: SELECT = -skip='$(REAL_FAULTS)'
e2e-real-faults e2e-real-lives:
	@$(call suite,$@,-count=1 -tags=real -timeout=60m $(SELECT) ./test/e2e-real)

.PHONY: race
race: export CGO_ENABLED = 1
race: kueue ## Run the tests with the race detector, also in the managers that they start (needs a C compiler)
	GOFLAGS=-race GORACE=halt_on_error=1 go test -timeout=90m $(TEST_ARGS) $(TEST)
	$(if $(filter ./...,$(TEST)),GOFLAGS=-race GORACE=halt_on_error=1 go -C fluxion test -timeout=90m $(TEST_ARGS) ./...)

.PHONY: deflake
deflake: kueue ## Run the tests ten times over, in random order: [TEST=] [TEST_ARGS=]
	go test -count=10 -shuffle=on -timeout=450m $(TEST_ARGS) $(TEST)
	$(if $(filter ./...,$(TEST)),go -C fluxion test -count=10 -shuffle=on -timeout=450m $(TEST_ARGS) ./...)

.PHONY: e2e-faults
e2e-faults: control-plane ## Run many MiniClusters with faults, and kill the manager and remove nodes at random: [FAULTS_FOR=10m] [FAULTS_SEED=1]
	FAULTS_FOR=$(FAULTS_FOR) FAULTS_SEED=$(FAULTS_SEED) go test -count=1 -timeout=120m -v -run='^TestKilledAtRandom$$' ./test/e2e

.PHONY: world
world: ## Run the manager in a cluster in memory and in virtual time, with every fault: [LIVES=2000] [SEED=1, the first one]
	go test -count=1 -timeout=24h -v -run='^TestLives$$' ./test/world -lives=$(LIVES) -first=$(SEED)

.PHONY: e2e-upgrade
e2e-upgrade: control-plane ## Run MiniClusters under an older version, this one, and the older one again: [UPGRADE_FROM=the last tag]
	$(call begin,$@)
	@export UPGRADE_FROM=$(UPGRADE_FROM); $(call suite,$@,-count=1 -timeout=30m -run='$(UPGRADE)' ./test/e2e)
	$(call passed,$@)

.PHONY: e2e-older
e2e-older: build ## Run a part of e2e-sim with an older Kubernetes; the first run builds its programs (some minutes): [TEST_ARGS=]
	$(call begin,$@)
	KUBERNETES=$(OLDER) bin/localcluster build
	@export KUBERNETES=$(OLDER); $(call suite,$@,-count=1 -timeout=60m $(or $(TEST_ARGS),-run='$(OLDER_TESTS)') ./test/e2e)
	$(call passed,$@)

.PHONY: bench
bench: build ## Run schedulers of gangs beside each other, and compare them; goes on where it was interrupted: [SCENARIOS=clog,many] [PEERS_ONLY=ours-gate,volcano] [SEEDS=1,2] [PEERS=DIR] [BENCH_OUT=.local/bench]
	bin/localcluster bench --dir=$(BENCH_OUT) --scenarios=$(SCENARIOS) --only="$(PEERS_ONLY)" --seeds=$(SEEDS) --peers=$(PEERS)

.PHONY: bench-go
bench-go: ## Run the benchmarks of packages
	go test -run='^$$' -bench=. -benchmem ./pkg/...

.PHONY: bench-fluxion
bench-fluxion: ## Run the benchmarks of the matcher, also with Fluxion's own library: [FLUXION_LIBRARY=.../libreapi_cli.so]
	go test -run='^$$' -bench='Gang|Match' -benchtime=200x -benchmem ./pkg/fluxion
	go test -run='^$$' -bench='New|Read' -benchtime=3x -benchmem ./pkg/fluxion
	go -C fluxion test -run='^$$' -bench='Match' -benchtime=200x -benchmem ./traverser
	go -C fluxion test -run='^$$' -bench='New|Read' -benchtime=3x -benchmem ./traverser
	go -C fluxion test -run='^$$' -bench=. -benchtime=5x ./reapi
	go -C fluxion test -run='^$$' -bench=. -benchtime=20x ./reapigraph

.PHONY: bench-clog
bench-clog: build ## Run the clogging experiment, many gangs at once on a new cluster: [SIZES=64x6,32x10,..] [SEED=1] [NODES=149] [MIN=rigid|half] [RUN=10s] [LIMIT=180s] [BINDER=auto|gate] [KUEUE=false|true] [OUT=.local/clog]
	bin/localcluster clog --dir=$(OUT) --port=0 --nodes=$(NODES) --node-cpu=$(NODE_CPU) --sizes=$(SIZES) --seed=$(SEED) --min=$(MIN) --run=$(RUN) --limit=$(LIMIT) --binder=$(BINDER) --kueue=$(KUEUE)

.PHONY: bench-autoscale
bench-autoscale: karpenter ## Measure gangs on nodes that Karpenter makes, beside plain JobSets (20 minutes): [SEED=1|2|3]
	go test -run='^$$' -bench='Scaling/.*/seed=$(SEED)' -benchtime=1x -timeout=1h ./test/e2e-autoscale

.PHONY: bench-queue
bench-queue: ## Compare the queue with textbook schedulers, in virtual time, and with dev/bench/queue.md: [BENCH_ARGS='-workloads=rigid -write']
	go run ./test/bench-queue -record=dev/bench/queue.md $(BENCH_ARGS)

.PHONY: conformance
conformance: ## Run the test scripts of a flux-sched checkout against resource-query: FLUX_SCHED_SRC=
	@test -n "$(FLUX_SCHED_SRC)" || { echo "set FLUX_SCHED_SRC: make conformance FLUX_SCHED_SRC=DIR" >&2; exit 1; }
	FLUX_SCHED_SRC=$(abspath $(FLUX_SCHED_SRC)) go -C fluxion test -count=1 -v ./conformance

.PHONY: fuzz
fuzz: ## Fuzz every reader for FUZZTIME: [FUZZTIME=30s]
	set -e; for target in $(FUZZ); do go -C $${target%:*} test -run='^$$' -fuzz="^$${target#*:}$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s .; done

##@ Develop

.PHONY: generate
generate: ## Generate deep copies, CRDs, the manager's roles, what the chart has of config, docs/reference, the classes of the Python client, and the page and schema of flags
	go run ./dev/configuration
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	$(TOOL) controller-gen rbac:roleName=flux-elastic $(addprefix paths=,$(filter-out ./controllers/kueue ./controllers/scaleup,$(wildcard ./controllers/*))) output:rbac:dir=config/rbac
	$(TOOL) controller-gen rbac:roleName=flux-elastic-kueue,fileName=kueue_role.yaml paths=./controllers/kueue output:rbac:dir=config/rbac
	$(TOOL) controller-gen rbac:roleName=flux-elastic-scaleup,fileName=scaleup_role.yaml paths=./controllers/scaleup output:rbac:dir=config/rbac
	$(TOOL) controller-gen crd:maxDescLen=0,generateEmbeddedObjectMeta=true paths=sigs.k8s.io/jobset/api/jobset/v1alpha2 output:crd:dir=internal/jobset/crd

	@# The parser of quantities needs minutes, or all memory, for 1E99999999: exponents have two digits, and numbers thirty.
	perl -pi -e 's/^( *pattern: ).*numkMGTPE.*$$/$$1^(\\+|-)?(([0-9]{1,30}(\\.[0-9]{0,30})?)|(\\.[0-9]{1,30}))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]{1,2}))?\$$/' config/crd/flux-framework.org_*.yaml internal/jobset/crd/*.yaml
	@# kubectl explain fills lines itself.
	perl -0pi -e 's{^( *)description: \|-\n((?:\1  .*\n|\n)+)}{my ($$in, $$text) = ($$1, $$2); $$text =~ s/(\S)\n$$in  (?=[^\s*-])/$$1 /g; "$${in}description: |-\n$$text"}gme' config/crd/flux-framework.org_*.yaml
	go run ./dev/reference

	@# Helm reads no file outside of the chart, so the chart has copies of the objects in config.
	rm -rf charts/flux-elastic/files
	cp -R config charts/flux-elastic/files
	find charts/flux-elastic/files -type f '(' -name kustomization.yaml -o -name '*.go' -o -name '*.schema.json' -o -path '*/default/*' ')' -delete

.PHONY: format
format: ## Format Go, shell and YAML
	$(TOOL) golangci-lint fmt
	$(TOOL) shfmt -w $(SHELLS)
	$(TOOL) yamlfmt $(YAMLS)

.PHONY: lint
lint: ## Lint Go (with the layers of docs/architecture.md), shell and YAML
	$(TOOL) golangci-lint run
	$(TOOL) golangci-lint run --build-tags=real ./test/e2e-real
	go -C fluxion tool -modfile=../hack/tools/go.mod golangci-lint run
	go -C hack/release tool -modfile=../tools/go.mod golangci-lint run
	$(TOOL) shfmt -d $(SHELLS)
	@command -v shellcheck >/dev/null || { echo "make lint needs shellcheck: apt-get install shellcheck, brew install shellcheck" >&2; exit 1; }
	shellcheck -x -P internal/broker/scripts $(SHELLS)
	$(TOOL) yamlfmt -lint $(YAMLS)

.PHONY: verify
verify: generate lint ## Check that generated files are up to date, and lint; fails on a diff, so commit first
	go vet ./...
	go vet -tags=real ./test/e2e-real
	go -C fluxion vet ./...
	go -C hack/release vet ./...
	go -C hack/browser vet ./...
	go -C hack/monitoring vet ./...
	for dir in . fluxion hack/browser hack/controlplane hack/controlplane/coredns hack/controlplane/karpenter hack/controlplane/kueue hack/controlplane/v1.36 hack/monitoring hack/release hack/tools; do (cd $$dir && GOTOOLCHAIN=auto go mod tidy -diff) || exit; done
	git diff --exit-code
	@test -z "$$(git status --porcelain)" || { git status --short; echo "verify: files are not committed, or were generated and are new" >&2; exit 1; }

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities that the programs reach; needs a database: [VULNDB=https://vuln.go.dev|file:///DIR]
	$(TOOL) govulncheck -db=$(VULNDB) ./...
	go -C fluxion tool -modfile=../hack/tools/go.mod govulncheck -db=$(VULNDB) ./...

.PHONY: presubmit
presubmit: verify test test-fluxion test-browser test-python e2e-tools e2e-upgrade e2e-older e2e-kueue-facts e2e-kueue e2e-autoscale e2e-real ## Run all that CI may run, whatever has changed

.PHONY: due
due: ## Print the suites that CI would run, and why: those whose sources, versions or programs changed since they passed here
	@go run ./dev/suites due

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-z0-9-]+:.*##/ {printf "  \033[36m%-15s\033[0m%s\n", $$1, $$2}' $(MAKEFILE_LIST)
