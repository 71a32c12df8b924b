# `make demo` and `make test` install what they need: Rust (cargo), a C++ compiler and CPython 3.11, 3.12 or 3.13 must exist.
PYTHONS := 3.12 3.11 3.13
FOUND := $(shell for v in $(PYTHONS); do .ci/find-python $$v >/dev/null 2>&1 && echo $$v; done)
DEFAULT := $(firstword $(FOUND))
VENV = .venv/$(1)
BIN = .venv/$(1)/bin/python
export GLOG_minloglevel ?= 2
# Each worker runs whole files of tests.
PYTEST = -m pytest -q -n $(shell n=$$(nproc); echo $$((n < 4 ? n : 4))) --dist loadfile --max-worker-restart=1

.PRECIOUS: .venv/%/ready
.PHONY: demo test test-all test-paddle-3.2 dist site crates bench zoo differential probe-ops snapshots docstrings cpython build lint rust-test clean
.DEFAULT_GOAL := build

check-tools:
	@command -v c++ >/dev/null || { echo "a C++ compiler is missing: install g++ or clang"; exit 1; }
	@command -v cargo >/dev/null || { echo "cargo is missing: install a stable Rust toolchain (rustup)"; exit 1; }
	@test -n "$(DEFAULT)" || { echo "no CPython 3.11, 3.12 or 3.13 found on PATH or in pyenv"; exit 1; }

# One virtualenv and one cargo target directory per Python.
.venv/%/ready: .ci/requirements.txt .ci/find-python | check-tools
	"$$(.ci/find-python $*)" -m venv .venv/$*
	.venv/$*/bin/python -m pip install -q --disable-pip-version-check -r .ci/requirements.txt
	touch $@

build-%: .venv/%/ready
	PATH="$(CURDIR)/.venv/$*/bin:$$PATH" CARGO_TARGET_DIR=target/py$* .venv/$*/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .

build: check-tools
	@$(MAKE) --no-print-directory build-$(DEFAULT)

demo: build
	$(call BIN,$(DEFAULT)) examples/demo.py

bench: build
	$(call BIN,$(DEFAULT)) benches/run.py

zoo: build
	$(call BIN,$(DEFAULT)) benches/zoo.py

# CPython's own tests with every frame translated, compared with plain Python.
cpython: build
	$(call BIN,$(DEFAULT)) -m paddle_sot_rs cpython

# `make differential SEED=7 COUNT=500 NESTS=100 PYTHON=3.13` runs other programs and calls of builtins, on another Python.
SEED ?= 0
COUNT ?= 20000
NESTS ?= 2000
PYTHON ?= $(DEFAULT)
differential: check-tools
	@$(MAKE) --no-print-directory build-$(PYTHON)
	$(call BIN,$(PYTHON)) tests/differential/calls.py --seed $(SEED) --count $(COUNT)
	$(call BIN,$(PYTHON)) tests/differential/run.py --seed $(SEED) --count $(COUNT) --jobs $(shell nproc)
	$(call BIN,$(PYTHON)) tests/differential/run.py --family nests --seed $(SEED) --count $(NESTS) --jobs $(shell nproc)
	$(call BIN,$(PYTHON)) tests/differential/run.py --family between --seed $(SEED) --count $(NESTS) --jobs $(shell nproc)
	$(call BIN,$(PYTHON)) tests/differential/run.py --family containers --seed $(SEED) --count $(NESTS) --jobs $(shell nproc)

# Accepts what translations are made of: `tests/python/codegen/test_snapshots.py`.
snapshots: check-tools
	@for v in $(FOUND); do $(MAKE) --no-print-directory build-$$v && \
	  .venv/$$v/bin/python -m pytest -q --accept tests/python/codegen/test_snapshots.py || exit 1; done

# What the table of operators says, tried on the installed Paddle: rows that are wrong, or name nothing any more.
probe-ops: build
	$(call BIN,$(DEFAULT)) tests/python/backends/probe_ops.py

# The examples in Paddle's docstrings, as bodies of translated functions, and with something changed in each; the
# calls in them, with dims that differ between calls or that only the graph knows.
docstrings: build
	$(call BIN,$(DEFAULT)) tests/differential/docstrings.py
	$(call BIN,$(DEFAULT)) tests/differential/docstrings.py --mutants 1
	$(call BIN,$(DEFAULT)) tests/differential/dims.py

lint: check-tools .venv/$(DEFAULT)/ready
	cargo fmt --all --check
	cargo fmt --check --manifest-path examples/custom-backend-rust/Cargo.toml
	PYO3_PYTHON=$(CURDIR)/$(call BIN,$(DEFAULT)) CARGO_TARGET_DIR=target/py$(DEFAULT) cargo clippy -q --workspace --all-targets -- -D warnings
	$(call BIN,$(DEFAULT)) -m ruff check .
	$(call BIN,$(DEFAULT)) -m ruff format --check .
	$(call BIN,$(DEFAULT)) -m mypy

rust-test: check-tools .venv/$(DEFAULT)/ready
	PYO3_PYTHON=$(CURDIR)/$(call BIN,$(DEFAULT)) CARGO_TARGET_DIR=target/py$(DEFAULT) PYTHONHOME=$$(.ci/find-python $(DEFAULT) --prefix) \
	  LD_LIBRARY_PATH=$$(.ci/find-python $(DEFAULT) --libdir):$$LD_LIBRARY_PATH cargo test -q -p paddle-sot -p paddle-sot-simulator -p paddle-sot-guard -p paddle-sot-reason \
	  -p paddle-sot-backend -p paddle-sot-cpython -p paddle-sot-ops -p paddle-sot-ir --features paddle-sot-cpython/experimental

# The engine is a twentieth of the tests' time, so building it quickly saves more than running it quickly.
QUICK := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
  CARGO_PROFILE_RELEASE_DEBUG=false
# What a version of Python changes: byte code, frames, objects.
VERSIONED := $(addprefix tests/python/,attributes codegen containers guard language process reports runtime semantics)
# Of a test with many cases each commit runs some, and others than the commit before.
MATRIX = --matrix-seed=$(shell git rev-parse HEAD 2>/dev/null)

# Every test on the default Python, on the others what depends on the version.
test: lint rust-test
	@$(QUICK) $(MAKE) --no-print-directory build-$(DEFAULT)
	$(call BIN,$(DEFAULT)) $(PYTEST) $(MATRIX) --matrix=16 tests/python
	@for v in $(filter-out $(DEFAULT),$(FOUND)); do \
	  $(QUICK) $(MAKE) --no-print-directory build-$$v && \
	  .venv/$$v/bin/python $(PYTEST) $(MATRIX) --matrix=6 -m "not default_python" $(VERSIONED) || exit 1; done

# Every case of every test on the default Python as it is released; on the others every test that may depend on them.
test-all: lint rust-test
	@$(MAKE) --no-print-directory build-$(DEFAULT)
	$(call BIN,$(DEFAULT)) $(PYTEST) tests/python
	@for v in $(filter-out $(DEFAULT),$(FOUND)); do \
	  $(QUICK) $(MAKE) --no-print-directory build-$$v && .venv/$$v/bin/python $(PYTEST) -m "not default_python" tests/python || exit 1; done
	@$(MAKE) --no-print-directory test-paddle-3.2

# The same build beside Paddle 3.2; `tests/python/paddle_3_2.txt` says what differs there.
.venv/paddle-3.2/ready: .ci/requirements.txt .ci/find-python | check-tools
	"$$(.ci/find-python $(DEFAULT))" -m venv .venv/paddle-3.2
	.venv/paddle-3.2/bin/python -m pip install -q --disable-pip-version-check "paddlepaddle==3.2.2" -r .ci/requirements.txt
	touch $@

test-paddle-3.2: .venv/paddle-3.2/ready
	PATH="$(CURDIR)/.venv/paddle-3.2/bin:$$PATH" CARGO_TARGET_DIR=target/py$(DEFAULT) $(QUICK) .venv/paddle-3.2/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
	.venv/paddle-3.2/bin/python $(PYTEST) $(MATRIX) --matrix=10 $$(cat .ci/paddle-3.2-tests)

# What is published, in `dist/`: see `.ci/dist.py`.
.venv/dist/ready: .ci/dist-requirements.txt .ci/find-python | check-tools
	"$$(.ci/find-python $(DEFAULT))" -m venv .venv/dist
	.venv/dist/bin/python -m pip install -q --disable-pip-version-check -r .ci/dist-requirements.txt
	touch $@

dist: .venv/dist/ready
	.venv/dist/bin/python .ci/dist.py $(foreach v,$(FOUND),"$$(.ci/find-python $(v))")

# The pages of `docs` and the API reference, in `target/site`.
site: build
	$(call BIN,$(DEFAULT)) -m sphinx -q -W --keep-going docs target/site

# Every crate that is published, packed, unpacked and built in the order of their dependencies.
crates: .venv/$(DEFAULT)/ready
	PYO3_PYTHON=$(CURDIR)/$(call BIN,$(DEFAULT)) cargo publish --dry-run --workspace --exclude paddle-sot-python --exclude paddle-sot-bindings --exclude paddle-sot-bindings-base

clean:
	rm -rf target .venv
