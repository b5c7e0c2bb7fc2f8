# udfgate: `make demo` and `make test` are the two commands to know. Everything
# a target needs is made inside the checkout (bin/, .venv/, .data/).

PYTHON ?= python3
GO     ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
GOLANGCI_VERSION := v2.15.0
RUFF_VERSION := 0.17.0

export GOFLAGS := -buildvcs=false

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/udfgate, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/udfgate ./cmd/udfgate

.PHONY: cross
cross: ## bin/cross/ for the other platforms; for macOS, which has files of its own, the tests are compiled too
	@set -e; for p in linux/arm64 darwin/arm64 darwin/amd64; do \
		echo "cross $$p"; export GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0; \
		$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/cross/udfgate-$$GOOS-$$GOARCH ./cmd/udfgate; \
	done
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...

.PHONY: demo
demo: build .venv/demo/ready .data/flights.csv ## the main job on real data: command line, then SQL in DuckDB
	@UDFGATE_BINARY=bin/udfgate .venv/demo/bin/python examples/demo.py .data/flights.csv

.venv/demo/ready: examples/requirements.txt
	$(PYTHON) -m venv --clear .venv/demo
	.venv/demo/bin/python -m pip install -q --disable-pip-version-check --prefer-binary -r examples/requirements.txt
	touch $@

.data/flights.csv: .venv/demo/ready examples/fetch_flights.py
	.venv/demo/bin/python examples/fetch_flights.py $@

.PHONY: test
test: build .venv/test/ready ## all tests
	$(GO) vet ./...
	UDFGATE_BINARY=$(CURDIR)/bin/udfgate $(GO) test ./...
	@if command -v $${CC:-cc} >/dev/null; then \
		echo "$(GO) test -race"; $(GO) test -race . ./codec ./internal/... ./pool ./sandbox ./server ./clients/go; \
	else echo "skipped: go test -race needs a C compiler, and there is none (CC)"; fi
	$(PYTHON) -m unittest discover -s pool/runtime/python/tests
	.venv/test/bin/python -m unittest discover -s pool/runtime/python/tests -p 'test_vector*.py'
	UDFGATE_BINARY=$(CURDIR)/bin/udfgate .venv/test/bin/python -m pytest -q -p no:cacheprovider clients/conformance

.PHONY: test-values
test-values: build .venv/test/ready ## every Arrow type in every mode, and files of other packages, through a Flight client; UDFGATE_RANDOM=1 draws new values
	UDFGATE_BINARY=$(CURDIR)/bin/udfgate .venv/test/bin/python -m pytest -q -p no:cacheprovider clients/conformance/values clients/conformance/compat

.venv/test/ready: clients/conformance/requirements.txt
	$(PYTHON) -m venv --clear .venv/test
	.venv/test/bin/python -m pip install -q --disable-pip-version-check --prefer-binary -r clients/conformance/requirements.txt
	touch $@

.PHONY: reproducible
reproducible: build ## a build in another folder, with an empty cache, is the same bytes
	@d=$$(mktemp -d) && trap 'chmod -R u+w $$d; rm -rf $$d' EXIT && mkdir $$d/src && \
	tar --exclude=./.git --exclude=./.venv --exclude=./.data --exclude=./bin -cf - . | tar -xf - -C $$d/src && cd $$d/src && \
	GOCACHE=$$d/cache CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $$d/udfgate ./cmd/udfgate && \
	cmp $$d/udfgate $(CURDIR)/bin/udfgate && echo "reproducible: $$(wc -c <$$d/udfgate) bytes"

.PHONY: image
image: ## container images udfgate and udfgate:static (needs docker)
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t udfgate .
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --target static -t udfgate:static .

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (30s)
	@for t in $$(grep -rhoE '^func Fuzz[A-Za-z]+' --include=*_test.go . | cut -c6- | sort -u); do \
		d=$$(dirname $$(grep -rlE "^func $$t\(" --include=*_test.go . | head -1)); \
		$(GO) test $$d -run '^$$' -fuzz "^$$t\$$" -fuzztime $(or $(FUZZTIME),30s) || exit 1; done

.PHONY: bench
bench: build ## the tables of BENCHMARKS.md that need no rivals
	sh bench/run.sh

.PHONY: bench-peers
bench-peers: build ## the same beside the rival servers
	sh bench/run.sh peers

.PHONY: bench-smoke
bench-smoke: build ## proves in seconds that the benchmarks work
	sh bench/run.sh smoke

.PHONY: lint
lint: bin/golangci-lint .venv/lint/ready ## linters for Go and Python
	bin/golangci-lint run ./...
	.venv/lint/bin/ruff check .
	.venv/lint/bin/ruff format --check .

bin/golangci-lint:
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.venv/lint/ready:
	$(PYTHON) -m venv --clear .venv/lint
	.venv/lint/bin/python -m pip install -q --disable-pip-version-check ruff==$(RUFF_VERSION)
	touch $@

.PHONY: clean
clean: ## removes everything that make made
	rm -rf bin .venv .data
