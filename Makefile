# `make` alone lists what can be done. The two commands to begin with are
# `make demo` and `make test`; both do all of their set-up.

SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS     += --no-print-directory
.NOTPARALLEL:

TOOL       = go tool -modfile=tools/go.mod
LAB        = go -C lab run .
E2E_TIMEOUT ?= 90m

# The benchmarks to run: a regular expression for their name or that of a RESULT.
BENCH     ?= .
BENCHTIME ?= 1s
FUZZTIME  ?= 10s
SOAK      ?= 60
export VULNDB VEX UPGRADE_FROM
SEED      ?= $(shell git rev-parse --short=12 HEAD)

# How many labs share the scenes (empty: one more than there are CPUs).
LABS     ?=
# Programs and tests without C: they link fast, and share what is compiled.
export CGO_ENABLED ?= 0

##@ The two commands

.PHONY: demo
demo: deps ## a real cluster on this machine, PureLB in it, eight addresses of four kinds of groups reached from outside
	$(LAB) demo

.PHONY: test
test: ## an answer: all packages in their short form, and one scene in the lab for each promise (root; README says how long)
	@$(call timed,packages that the lab needs,$(MAKE) deps)
	@$(call timed,Kubernetes and etcd,$(MAKE) kubebox)
	@$(call timed,packages in their short form,$(MAKE) test-module SHORT=-short)
	@$(call timed,the lab,$(MAKE) test-lab)
	@$(call timed,a scene for each promise,$(MAKE) e2e SCENES=promises)

.PHONY: test-all
test-all: ## everything: all packages, releases, the allocator's model, and all scenes in the lab (root)
	@$(call timed,packages that the lab needs,$(MAKE) deps)
	@$(call timed,Kubernetes and etcd,$(MAKE) kubebox)
	@$(call timed,all packages,$(MAKE) test-module)
	@$(call timed,the agent on a kernel without marks,$(MAKE) test-markless)
	@$(call timed,the lab,$(MAKE) test-lab)
	@$(call timed,a release,$(MAKE) test-release)
	@$(call timed,the model of the allocator for $(SOAK) s,$(MAKE) soak)
	@$(call timed,all scenes,CHURN=2m $(MAKE) e2e)

##@ Rings of tests

# What needs neither root nor a cluster: words, decisions, and the rules of the house.
UNIT = ./internal ./internal/addr ./internal/service ./internal/config ./internal/groups ./internal/allocate/ipam ./internal/announce \
       ./internal/nodes/election ./internal/nodes/ending ./internal/bgp/peering

.PHONY: test-unit
test-unit: ## the decisions and the house: seconds, no root, no cluster
	go test $(UNIT)

# These packages take longest, most of it in waiting for routers, timers and API servers. They begin first.
LONGEST = ./internal/allocate ./charts/purelb ./internal/bgp/gobgp ./internal/announce/agent ./cmd/kubectl-purelb ./internal/bgp/bfd ./docs

.PHONY: test-module
test-module: kubebox $(if $(SHORT),,routers) ## the house, the decisions, the drivers on this kernel, the loops and the CRDs on a real API server, the chart; SHORT=-short for the short form
	@$(call root)
	go test $(SHORT) -p 4 -timeout 30m $(LONGEST) ./...

# Kernels before 5.18 drop the mark of an address (IFA_PROTO). For this run the mark has a number that this
# kernel does not know either.
.PHONY: test-markless
test-markless: kubebox ## the agent on a kernel that keeps no marks of addresses, as those before 5.18
	@$(call root)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	    file=internal/announce/linux/address.go; \
	    sed 's/ifaProto = 11$$/ifaProto = 4095/' $$file > $$dir/address.go; \
	    ! cmp -s $$file $$dir/address.go; \
	    echo "{\"Replace\": {\"$(CURDIR)/$$file\": \"$$dir/address.go\"}}" > $$dir/overlay.json; \
	    go test $(SHORT) -overlay $$dir/overlay.json -timeout 30m ./internal/announce/agent

.PHONY: test-lab
test-lab: ## the lab's own tests
	@$(call root)
	go -C lab test -timeout 30m $$(go -C lab list ./... | grep -v '/e2e$$')

# The set of scenes: promises, all, "part KEY", or names of tests.
SCENES ?= all

.PHONY: e2e
e2e: deps ## end to end: SCENES in LABS labs beside each other; the first one stays up
	@$(call root)
	$(LAB) scenes $(if $(LABS),--labs $(LABS)) $(SCENES)

.PHONY: e2e-backends
e2e-backends: up ## only the end-to-end tests of NetBox and IPAM servers; KILLS=200 kills the allocator as often
	@$(call root)
	go -C lab test ./e2e -run '^TestBackends$$' -count=1 -v -timeout $(E2E_TIMEOUT)

.PHONY: e2e-install
e2e-install: up ## only releases: installed by the start page, upgraded, rolled back and removed in the lab, by Helm and by kubectl; UPGRADE_FROM=COMMIT instead of the commit before
	@$(call root)
	go -C lab test -tags install ./e2e -run '^(TestAnUpgradeFromTheCommitBeforeLosesNothing|TestManifestsInstall|TestAStranger)' -count=1 -v -timeout $(E2E_TIMEOUT)

.PHONY: e2e-worlds
e2e-worlds: deps ## scenes in all variations of the lab (kube-proxy, IP families, interfaces, replicas), one after the other; writes docs/compatibility.md; WORLDS='bridge ...' only these
	@$(call root)
	go -C lab run . worlds $(WORLDS)

.PHONY: nightly
nightly: ## what a forge runs each night beside test-all: SOAK=600, the race detector, the oldest Kubernetes, installations, worlds
	$(MAKE) soak race e2e-oldest e2e-install e2e-worlds SOAK=600

# What uses the API server: definitions with their rules, policies, the objects of the chart,
# Leases, the allocator's writes of services/status, the watches of all programs, and the plugin.
OLDEST = ./internal/testing/apitest ./api/... ./charts/... ./internal/nodes/lease ./internal/nodes/membership ./internal/nodes/shutdown \
         ./internal/allocate ./internal/announce/agent ./internal/bgp/speaker/... ./cmd/kubectl-purelb

.PHONY: e2e-oldest
e2e-oldest: kubebox ## the tests with an API server, on that of the oldest Kubernetes that is supported (minutes to build, the first time)
	@$(call root)
	box=$$($(LAB) build oldest) && PURELB_APISERVER=$$box go test -count=1 -timeout 30m $(OLDEST)

.PHONY: race
race: kubebox ## the unit tests, the drivers and the loops under Go's race detector (half an hour, and a C compiler)
	@$(call root)
	CGO_ENABLED=1 go test -race -p 2 -timeout 60m ./internal/...

.PHONY: soak
soak: ## the allocator's model against all failures at once, for SOAK seconds (60) from SEED on (that of the commit); a failure prints how to repeat it
	go test -c -o bin/allocator.model ./internal/allocate
	cd internal/allocate && for ((seed = 16#$(SEED), end = SECONDS + $(SOAK); SECONDS < end; seed++)); do \
	    ../../bin/allocator.model -test.run '^Test(NoFailureLosesOrDoublesAnAddress|BackendsLoseAndDoubleNoAddress)$$' -rapid.checks=1000 -rapid.seed=$$seed; \
	done

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@grep -rHo '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' api internal | while IFS=: read -r file func; do \
	    go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" </dev/null; \
	done

.PHONY: bench
bench: deps kubebox ## RESULT lines of the benchmarks that match BENCH (all of them, about an hour)
	@$(call root)
	hack/bench '$(BENCH)' '$(BENCHTIME)'

##@ The lab

.PHONY: deps
deps: ## say what this machine lacks, and install the Debian packages that the lab needs (root)
	@hack/preflight
	$(LAB) deps

.PHONY: kubebox
kubebox: ## build Kubernetes and etcd as one binary, once (minutes), into the user's cache folder
	$(LAB) build kubebox

.PHONY: routers
routers: ## unpack FRR 8.4 and 10.3, BIRD 2.0 and 3.1 from Debian's packages, once, into the user's cache folder (root)
	hack/routers

.PHONY: up
up: deps ## start the cluster (a second time: at once), as the world LAB_WORLD
	$(LAB) up

.PHONY: install
install: up ## build PureLB from this tree and install it into the cluster, by its chart
	$(LAB) install

.PHONY: status
status: ## what runs in the lab
	$(LAB) status

.PHONY: down
down: ## remove the cluster and all that belongs to it
	$(LAB) down

##@ Code

.PHONY: build
build: ## static binaries of the programs, into bin/ (`go version -m` tells their commit)
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...

.PHONY: plugin
plugin: ## the plugin for kubectl alone, as bin/kubectl-purelb (put it into a folder of your PATH), and the link for its completion
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/kubectl-purelb
	ln -sf kubectl-purelb bin/kubectl_complete-purelb

.PHONY: lint
lint: ## golangci-lint on the product, on the lab, on the tools and on what makes releases
	$(TOOL) golangci-lint run ./...
	cd tools && go tool golangci-lint run --config ../.golangci.yml ./...
	cd lab && go tool -modfile=../tools/go.mod golangci-lint run --config ../.golangci.yml ./...
	cd release && go tool -modfile=../tools/go.mod golangci-lint run --config ../.golangci.yml ./...

.PHONY: vulncheck
vulncheck: ## known vulnerabilities that the code calls, by VULNDB (https://vuln.go.dev); VEX=FILE also writes an OpenVEX statement
	hack/vulncheck

.PHONY: generate
generate: ## deep copies, CRDs, the schemas of specs in values, gRPC code and docs/api.md from the types in api/; the README of the chart from its values; docs/flags.md and docs/metrics.md from the programs
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=charts/purelb/crds
	go -C tools run ./crds ../charts/purelb/crds ../charts/purelb/values.schema.json
	$(TOOL) helm-docs --chart-search-root charts --sort-values-order file --log-level warning
	go -C tools run ./protogen .. api/ipam/v1/ipam.proto
	$(TOOL) crd-ref-docs --config tools/api-docs/config.yaml --templates-dir tools/api-docs --renderer markdown --source-path api --output-path docs/api.md --log-level ERROR
	go build -o bin/ $(PROGRAMS)
	{ cat tools/flags.md; for p in $(notdir $(PROGRAMS)); do printf '\n## %s\n\n```\n' $$p; env -i bin/$$p --help 2>&1; printf '```\n'; done; } > docs/flags.md
	go test ./docs -run '^TestTheManualListsEveryMetric$$' -update

PROGRAMS  = ./cmd/allocator ./cmd/lbnodeagent ./cmd/k8gobgp
GENERATED = api/bgp/*/zz_generated.deepcopy.go api/purelb/*/zz_generated.deepcopy.go charts/purelb/crds/*.yaml charts/purelb/values.schema.json charts/purelb/README.md api/ipam/v1/*.pb.go docs/api.md docs/flags.md docs/metrics.md

.PHONY: verify-generated
verify-generated: ## fail when what is generated is not up to date
	@before=$$(sha256sum $(GENERATED)); \
	$(MAKE) generate; \
	diff <(echo "$$before") <(sha256sum $(GENERATED)) || \
	    { echo "the files above were stale; 'make generate' has just renewed them: commit them"; exit 1; }

##@ Manual

SITE_VERSION ?= main

.PHONY: site
site: ## the manual as a site, into dist/site/SITE_VERSION (main), with a search; fails if a link is broken
	go -C tools/hugo tool hugo build --source ../site --destination '$(CURDIR)/dist/site/$(SITE_VERSION)' --cleanDestinationDir --noBuildLock --quiet
	go -C tools run ./site '$(CURDIR)/dist/site/$(SITE_VERSION)'

site: export HUGO_PARAMS_VERSION = $(SITE_VERSION)

##@ Release

REGISTRY ?= ghcr.io/purelb/purelb
CHANGELOG ?= CHANGELOG.md
RELEASE   = dist/purelb-$(VERSION:v%=%)

.PHONY: release
release: ## VERSION=1.2.3: images, chart, manifests, plugin, SBOMs and provenance, into dist/ (REGISTRY=where the images will be; DIRTY=1 for a trial with changes)
	@$(version)
	@mkdir -p dist
	go -C release run . build -tree .. -version '$(VERSION)' -registry '$(REGISTRY)' -out '../$(RELEASE)' $(if $(DIRTY),-dirty) $(RELEASE_ARGS)

.PHONY: publish
publish: ## VERSION=1.2.3: push that release to REGISTRY (SIGNING_KEY=a key of cosign; INSECURE=1 for HTTP)
	@$(version)
	go -C release run . publish -dir '../$(RELEASE)' -registry '$(REGISTRY)' $(if $(SIGNING_KEY),-key '$(abspath $(SIGNING_KEY))') $(if $(INSECURE),-insecure)

.PHONY: notes
notes: ## VERSION=1.2.3: the section of that version in CHANGELOG.md
	@$(version)
	@awk -v head='[$(VERSION:v%=%)]' '/^## / {on = $$2 == head} on' $(CHANGELOG) | grep . || { echo "$(CHANGELOG) has no section of $(VERSION): rename [Unreleased]" >&2; exit 1; }

.PHONY: test-release
test-release: ## a release for this platform, made twice, and published to a registry of the test; the plugin compiles for other systems
	for os in darwin windows; do GOOS=$$os go build -o /dev/null ./cmd/kubectl-purelb; done
	go -C release test -timeout 15m ./...

.PHONY: manifests
manifests: ## plain YAML of the chart, into dist/ (HELM_ARGS='--set ...' for other values)
	@mkdir -p dist
	cat charts/purelb/crds/*.yaml > dist/crds.yaml
	printf 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: purelb-system\n  labels:\n    pod-security.kubernetes.io/enforce: privileged\n' > dist/purelb.yaml
	$(TOOL) helm template purelb charts/purelb --namespace purelb-system --kube-version 1.36.0 --no-hooks $(HELM_ARGS) >> dist/purelb.yaml

.PHONY: clean
clean: ## remove bin/ and dist/ (the lab: make down)
	rm -rf bin dist

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

comma   := ,
version  = [ -n '$(VERSION)' ] || { echo "say which version: make $@ VERSION=1.2.3"; exit 1; }
timed    = printf '\n== %s\n' '$(1)'; began=$$SECONDS; $(2); printf '== %s: %d s\n' '$(1)' $$((SECONDS - began))
root     = [ "$$(id -u)" = 0 ] || { echo "this makes network namespaces and needs root: run make $@ as root"; exit 1; }
