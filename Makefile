# The two commands of the README are 'make demo' and 'make test'. All others are
# parts of them or help while working.

GO       ?= go
BIN      := $(CURDIR)/bin
FUZZTIME ?= 8s
# UNIT are all packages but those that test the whole system.
UNIT      = $$($(GO) list ./... | grep -vE '/tests/(build|conformance|e2e|vm)$$')
LINT     := $(GO) tool -modfile=tools/go.mod golangci-lint

.PHONY: all build demo test bench tools verify matrix unit fuzz e2e vm-test vm-rdma vm-short vm cover clean

all: build

# build makes both programs in ./bin.
build:
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/ ./cmd/rbd-target ./cmd/rbd-initiator

# demo exports a file, connects to it, copies a file system image there and back
# through the NBD socket, compares, and cleans up.
demo: build
	@scripts/install-tools demo
	@scripts/demo $(BIN)

# test is the whole ladder; it takes about twenty minutes on two cores.
test: tools verify matrix unit fuzz e2e vm-short

# tools installs the real peers that the tests talk to (Debian, Ubuntu).
tools:
	@scripts/install-tools test

# verify finds what needs no running: format, module files, vet, lint.
verify:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out"; exit 1; }
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(LINT) run ./...

# matrix builds the programs with and without cgo and the headers of rdma-core.
matrix:
	$(GO) test -count=1 -timeout 10m ./tests/build

# unit runs every package's tests with the race detector, in random order, and
# once without it: the checks for allocations mean something only then.
unit: build
	$(GO) test -race -shuffle=on -timeout 10m $(UNIT)
	$(GO) test -timeout 10m $(UNIT)

# fuzz runs every fuzz target for FUZZTIME.
fuzz:
	@scripts/fuzz $(FUZZTIME)

# e2e drives both programs, built with the race detector, with real clients: libnbd, qemu, fio.
e2e:
	$(GO) test -race -count=1 -timeout 20m -v ./tests/e2e

# vm-test runs all scenarios with the Linux kernel's own NVMe/RDMA host and target, its
# RDMA devices and its NBD client in virtual machines, and writes the table of
# docs/interop.md; the first run downloads and builds a kernel.
vm-test:
	@scripts/install-tools vm
	RBD_VM=1 $(GO) test -count=1 -timeout 60m -v ./tests/vm

# vm-rdma runs those with the kernel's host and target once more, over rdma:// on the
# kernel's software RDMA devices rxe and siw.
vm-rdma:
	@scripts/install-tools vm
	RBD_VM=rdma $(GO) test -count=1 -timeout 90m -v ./tests/vm

# vm-short runs a few of them, with generous time limits: that the kernel's host and
# target are peers, with all kinds of I/O.
vm-short:
	@scripts/install-tools vm
	RBD_VM=short RBD_VM_PATIENCE=3 $(GO) test -count=1 -timeout 30m -v ./tests/vm

# vm gives a shell in such a machine.
vm:
	@scripts/install-tools vm
	$(GO) run ./tests/vm/cmd/vmshell

# bench compares with nbdkit in one run and prints the table of docs/performance.md.
bench: build
	@scripts/install-tools test
	$(GO) run ./tests/bench -bin $(BIN)

# cover says which statements the tests reach.
cover:
	$(GO) test -coverprofile=/tmp/rbd.cover -coverpkg=./... ./... && $(GO) tool cover -func=/tmp/rbd.cover | tail -1

clean:
	rm -rf $(BIN)
