# Needs python3 >= 3.11 and make, nothing more; everything else is fetched, hash-locked, into the store.
PYTHON ?= python3
DEV := $(PYTHON) -m bootstrap -m
# Bytecode of the tests is kept between runs: without it, collecting them takes twice as long in each worker.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help image test slow check soak e2e bench gpu-test format requirements

help:
	@echo "make image    the vLLM image for GB10"
	@echo "make test     lint, types, unit, golden and fuzz tests, and what integration tests show in 4 minutes"
	@echo "make slow     the other integration tests; .ci/run runs both"
	@echo "make check    the fast gates: no network, no container engine"
	@echo "make soak     an hour of hostile inputs, then an hour of kills and full disks (SECONDS=60 SEED=x; root)"
	@echo "make e2e      the whole image, by the command that README names, and its kernels under qemu; other CuTe DSLs"
	@echo "make bench    what a no-op and a small change cost, side by side with docker (needs the image)"
	@echo "make gpu-test our kernels against fp64, on a machine with nvcc and a GPU of capability 12.x (or 9.0: see tests/gpu)"
	@echo "make format   rewrite the sources as the linter wants them"
	@echo "make requirements   resolve the tool's own requirements anew (network)"

image:
	./build.py image --engine vllm --arch 12.1f

# A file's tests stay together. Integration tests wait for engines half of the time: three workers for two cores. The
# ten slowest are listed at the end.
WORKERS ?= 3
PYTEST := $(DEV) pytest --dist loadfile --no-loadscope-reorder

test:
	@$(MAKE) --no-print-directory --jobs 2 lint suite

.PHONY: suite
suite:
	$(PYTEST) --numprocesses $(WORKERS) -m "not long and not slow" --durations 10

slow:
	$(PYTEST) --numprocesses $(WORKERS) -m "slow and not long" --durations 10 tests/integration

check:
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint fast

# Making and removing files on a disk takes a tenth of the time and more. TMPDIR=/tmp chooses the disk.
.PHONY: fast
fast:
	$(PYTEST) --numprocesses 2 --quiet --in-memory -m "not integration" tests/unit tests/golden

soak:
	$(PYTHON) -m bootstrap tests/fuzz/soak.py --seconds $(or $(SECONDS),3600) $(if $(SEED),--seed $(SEED))
	$(PYTHON) -m bootstrap tests/bad_days/soak.py --seconds $(or $(SECONDS),3600) $(if $(SEED),--seed $(SEED))

e2e:
	$(DEV) pytest tests/e2e
	$(PYTEST) --numprocesses 2 -m long tests/integration

bench:
	$(PYTHON) -m bootstrap benches/noop.py
	$(PYTHON) -m bootstrap benches/factory.py
	$(PYTHON) -m bootstrap benches/rebuild.py
	$(PYTHON) -m bootstrap benches/cross.py
	$(PYTHON) -m bootstrap benches/via_head.py

.PHONY: lint
lint:
	$(DEV) ruff format --check
	$(DEV) ruff check
	$(DEV) mypy

gpu-test:
	$(PYTHON) -m bootstrap tests/gpu --check memcheck

format:
	$(DEV) ruff format
	$(DEV) ruff check --fix

COMPILE := uv pip compile --universal --generate-hashes --python-version 3.11 --no-build \
	--quiet --no-annotate --custom-compile-command "make requirements" $(UPGRADE)

requirements:
	$(DEV) $(COMPILE) pyproject.toml --output-file requirements.lock
	$(DEV) $(COMPILE) pyproject.toml --group dev --constraint requirements.lock --output-file requirements-dev.lock
	$(DEV) $(COMPILE) recipes/load/llama-benchy.in --overrides recipes/load/llama-benchy.overrides \
		--output-file recipes/load/llama-benchy.lock
