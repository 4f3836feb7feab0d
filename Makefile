# Two targets do it all: make run, make test. The rest is the gate in pieces.
.DEFAULT_GOAL := help
SHELL := /bin/bash
TOOL := go tool -modfile=.ci/tools.mod
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 10s
# RERUN is for machines whose speed nobody knows (.ci/run): what fails is run once more, and named.
TESTS := $(TOOL) gotestsum --format pkgname $(RERUN) --packages
TESTED := -- -race -shuffle=on -count=1 -timeout=15m
# Packages that start many processes and want the machine to themselves.
HEAVY := /(cmd/waitroom|cmd/waitroom/load|ticket|waitroom/waitroom|web|web/hub|web/pages)$$

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: run
run: build ## build and serve the demo on http://127.0.0.1:8080, everything embedded
	@exec bin/waitroom serve

.PHONY: test
test: servers widget ## run every test, with the race detector, against private real servers
	@$(TESTS) "$$(go list ./... | grep -Ev '$(HEAVY)' | xargs)" $(TESTED) -p=2
	@$(TESTS) "$$(go list ./... | grep -E '$(HEAVY)' | xargs)" $(TESTED) -p=1

.PHONY: build
build: widget ## the static binary, exactly as the Dockerfile makes it
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/waitroom ./cmd/waitroom

.PHONY: load
load: build ## 2,000 fans against the demo that make run serves
	@bin/waitroom load --target http://127.0.0.1:8080 --event demo --users 2000 --ramp 10s --hold 30s --buy 0.5

.PHONY: load-10k
load-10k: build servers ## 10,000 fans over two instances on a private Redis and PostgreSQL
	@.ci/with-servers .ci/load-servers 2 100 --users 10000 --ramp 20s --hold 3s --buy 0.2

.PHONY: load-50k
load-50k: build servers ## 50,000 fans over four instances on a private Redis and PostgreSQL
	@GATHER=$${GATHER-75} .ci/with-servers .ci/load-servers 4 500 --users 50000 --ramp 60s --hold 3s --buy 0.04

.PHONY: db
db: build servers ## serve on a private Redis and PostgreSQL, for playing by hand
	@.ci/with-servers bin/waitroom serve

.PHONY: bench
bench: ## the bars of the design as ratios, all or BAR=name; BENCH_JSON=file for machines
	@go run ./cmd/bench $(if $(BAR),-bar '$(BAR)')

.PHONY: laws
laws: build ## compare the control laws on the whole grid (minutes), and draw one trial
	@bin/waitroom simulate laws --full --svg admission/law/comparison.svg

.PHONY: soak
soak: servers ## fifteen minutes of law target against a real PostgreSQL pool of 20
	@.ci/with-servers go run ./cmd/soak

.PHONY: race
race: test ## the same as test, which always has the race detector on

.PHONY: test-pool
test-pool: servers ## the tests of the tickets again, each node with a pool of one connection
	@TEST_POOL=1 go test -shuffle=on -count=1 -timeout 5m ./ticket

.PHONY: chaos
chaos: servers ## 20,000 buyers for 5,000 seats while every part is killed in turn, then the audit
	@go test ./cmd/waitroom -run TestChaosBooksBalance -count=1 -timeout 30m -v -chaos-buyers 20000 -chaos-seats 5000 -chaos-turns 3

.PHONY: gate-10k
gate-10k: servers ## 10,000 visitors of a site behind a real nginx, of whom 2,000 may come in
	@go test ./cmd/waitroom -run TestNobodyPassesNginxWhoShouldWait -count=1 -timeout 10m -v -gate-visitors 10000 | grep -v '^{'

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (10s), two at a time
	@go list ./... | while read -r pkg; do go test -list '^Fuzz' "$$pkg" | sed -n "s|^Fuzz.*|$$pkg &|p"; done \
	  | xargs -P 2 -L 1 .ci/fuzz $(FUZZTIME)

.PHONY: bench-once
bench-once: ## each Go benchmark once, so that they live
	@go test -run '^$$' -bench . -benchtime 1x ./... | grep -v '^\(goos\|goarch\|cpu\|pkg\):' 

.PHONY: widget
widget: ## bring ALTCHA's widget for the waiting page from npm, as pinned, where it is missing
	@.ci/widget

.PHONY: servers
servers: ## install what the tests start for themselves, where it may
	@.ci/servers

.PHONY: vet
vet:
	@go vet ./... && test -z "$$(go fix -diff ./... 2>/dev/null)" || { go fix -diff ./...; exit 1; }

.PHONY: tidy
tidy:
	@go mod tidy -diff

.PHONY: lint
lint: ## format check and golangci-lint, pinned
	@$(TOOL) golangci-lint fmt --diff && $(TOOL) golangci-lint run

.PHONY: vulncheck
vulncheck: ## known vulnerabilities that our code reaches; GOVULNDB=file:///path is a local copy
	@.ci/vulncheck

.PHONY: fmt
fmt: ## format everything
	@$(TOOL) golangci-lint fmt

.PHONY: fix
fix: ## let go fix and the linter mend what they can
	@go fix ./... && $(TOOL) golangci-lint run --fix
