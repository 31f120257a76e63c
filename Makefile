# `make setup` after `git clone` gives a broker; `make run` shows it with Spark, `make test` tests it. Each target installs
# what it needs on the way: the broker wants Python and Rust, Spark a Java runtime besides, the tests their clients.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROWS ?= all
ROUNDS ?= 2
CONNECTIONS ?= 100
TURNS ?= 6
FUZZ_SECONDS ?= 120
KILLS ?= 200
RACES_SECONDS ?= 60
RACES_SEED ?= 1
SCHEDULES ?= 1000000
SECONDS ?= 60
BROKERS ?= 1
WITHOUT_SPARK := --ignore tests/unit/pyspark_ottla --ignore tests/unit/pipelines
WORKERS ?= 4
STAMP := $(VENV)/.ottla
# Hundreds of processes would each compile what they import.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run cluster jobs test cluster-test pipeline-test demo-test sink-rounds test-fast explore conformance redis-scripts redis-py-tests hostile interleavings chaos races simulate check fuzz bench bench-turns bench-parts docs clean

setup: $(STAMP)/kernel ## Make the virtual environment, build the kernel, install the broker: no Java, no Spark
	@echo "ready: $(BIN)/ottla serve"

run: $(STAMP)/demo ## Run the demo: a pipeline over a million flight events, its broker killed on the way, everything checked
	@$(BIN)/python -m examples.flights

cluster: $(STAMP)/failover ## Run the cluster's demo: three brokers, the leader killed under load, a picture of what clients saw
	@$(BIN)/python -m examples.failover

jobs: $(STAMP)/jobs ## Run the demo of queues: Kafka and NSQ workers, some killed, jobs that are bad or delayed, each done once
	@$(BIN)/python -m examples.jobs

test: $(STAMP)/dev ## Run the tests in four processes (WORKERS=8 for more): those of single parts, then those of whole systems
	@WORKERS=$(WORKERS) tools/test

test-fast: $(STAMP)/test ## Run the tests of single parts: no Spark, no Java, no root, less than a minute
	@$(BIN)/python -m pytest -n 2 tests/unit tests/scenarios $(WITHOUT_SPARK) -m "not peer and not long and not slow"

explore: $(STAMP)/test ## Try the properties of single parts with examples that nobody has tried yet
	@$(BIN)/python -m pytest -n 2 tests/unit tests/scenarios $(WITHOUT_SPARK) --hypothesis-profile explore -m "not peer"

cluster-test: $(STAMP)/dev $(STAMP)/failover ## Run the long tests of several brokers: each of them killed again and again, under transactions, Kafka Streams and Spark too
	@$(BIN)/python -m pytest tests/system -k cluster -m long

sink-rounds: $(if $(SPARK),$(STAMP)/dev,$(STAMP)/test) ## Kill driver, executor and broker at every request of exactly-once batches; each row is read once (SPARK=1: those of Spark)
	@$(BIN)/python -m pytest tests/system/test_exactly_once_$(if $(SPARK),spark_)rounds.py -m long -s

pipeline-test: $(STAMP)/dev ## Run the long tests of pipelines: drivers stopped, killed and paused, without brokers and room, a cluster of Spark that loses parts (root, for a small disk)
	@$(BIN)/python -m pytest tests/system -k "pipeline or spark" -m long

demo-test: $(STAMP)/dev ## Run the long tests of the demo: Ctrl-C in the middle of it leaves nothing running
	@$(BIN)/python -m pytest tests/system/test_demo.py tests/system/test_jobs_demo.py -m long

conformance: $(STAMP)/dev ## Put every client against the broker: Kafka's Java tools and client, Go, JavaScript, Spark's connector, Python (BROKERS=3 for a cluster, PROCESSES=2 on two cores, without the table)
	@OTTLA_BROKERS=$(BROKERS) $(BIN)/python -m pytest tests/conformance $(if $(PROCESSES),-n $(PROCESSES) --dist loadfile) $(if $(MARKED),-m "$(MARKED)")

redis-scripts: COMMANDS = 200000
redis-scripts: BROKERS = 1
redis-scripts: ORACLE = redis
redis-scripts: CLIENTS = 1
redis-scripts: $(STAMP)/test ## Run random scripts of stream commands against a broker, or one of a cluster (BROKERS=3), and a Redis server (ORACLE=valkey for that one), and compare every reply (CLIENTS=2 for two that take turns)
	@$(BIN)/python -m tools.redis_server --commands $(COMMANDS) --brokers $(BROKERS) --oracle $(ORACLE) --clients $(CLIENTS)

redis-py-tests: BROKERS = 1
redis-py-tests: $(STAMP)/test ## Run redis-py's own stream tests against a broker, with both protocols (BROKERS=3 for one of a cluster)
	@$(BIN)/python -m tools.redis_py_tests --brokers $(BROKERS)

fuzz: $(STAMP)/test ## Fuzz the kernel and what reads a stranger's bytes in Python (FUZZ_SECONDS=3600 for longer)
	@$(BIN)/python -m tools.fuzz --seconds $(FUZZ_SECONDS)

chaos: ROUNDS = 16
chaos: $(STAMP)/test ## Kill brokers, alone and in a cluster, break their disks, and check that nothing acknowledged is lost (KILLS=500 ROUNDS=100)
	@$(BIN)/python -m chaos --kills $(KILLS) --rounds $(ROUNDS) --json build/chaos.json

races: $(STAMP)/test ## Do what people do to one broker at the same time, and check every answer (RACES_SECONDS=3600 RACES_SEED=7 for more)
	@$(BIN)/python -m races --seconds $(RACES_SECONDS) --seed $(RACES_SEED) --json build/races.json

simulate: $(STAMP)/kernel ## Simulate a cluster under every fault and look for a schedule that breaks a rule (SECONDS=600 SCHEDULES=10000; SEED=7 draws one; WHOLE=1 for whole brokers, DELAYS=1 for a delay topic)
	@$(BIN)/python -m ottla.simulation $(if $(WHOLE),--whole) $(if $(DELAYS),--delays) $(if $(SEED),--seed $(SEED),--schedules $(SCHEDULES) --seconds $(SECONDS))

hostile: $(STAMP)/test ## Send the broker bad input of every kind: lying requests, bombs, floods, 10,000 connections (3 minutes)
	@$(BIN)/python -m pytest tests/hostile $(if $(MARKED),-m "$(MARKED)")

interleavings: $(STAMP)/test ## Let the peers of connections do as they please 100,000 times: no answer lost, doubled or another's (half an hour; two under AddressSanitizer with ASAN=1)
	@$(BIN)/python -m $(if $(ASAN),tools.sanitized,pytest) tests/unit/network/test_interleavings.py

check: $(STAMP)/dev ## Lint, types, layers, generated code, the kernel's format and lints
	@tools/check

bench: $(STAMP)/dev ## Measure Ottla beside Apache Kafka (ROWS=produce,latency ROUNDS=1 OTTLA_ONLY=1 for less)
	@$(BIN)/python -m benchmarks.beside_kafka --rows $(ROWS) --rounds $(ROUNDS) $(if $(OTTLA_ONLY),--ottla-only)

bench-turns: $(STAMP)/dev ## Measure many connections by turns, both brokers up at once, beside a server that only answers (CONNECTIONS=1000 TURNS=10)
	@$(BIN)/python -m benchmarks.beside_kafka.by_turns --connections $(CONNECTIONS) --turns $(TURNS)

bench-parts: $(STAMP)/dev ## Measure the protocol codec, the kernel, the log and the network, each alone
	@tools/bench

docs: $(STAMP)/dev ## Say where the documents are and check that their commands and links hold
	@$(BIN)/python -m tools.check_docs

clean: ## Remove what was built
	rm -rf build target $(VENV)

$(STAMP)/tools:
	@tools/require
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMP)
	@echo "installing the build tools"
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --constraint requirements.lock maturin
	@touch $@

rust/Cargo.lock: rust/crates.lock $(STAMP)/tools
	@$(BIN)/python tools/lock_crates.py restore

KERNEL := $(wildcard rust/src/*.rs rust/src/*/*.rs) rust/Cargo.toml

$(STAMP)/kernel: $(STAMP)/tools $(KERNEL) rust/Cargo.lock
	@echo "building the kernel (one to two minutes the first time)"
	@PIP_QUIET=1 PIP_CONSTRAINT=requirements.lock $(BIN)/maturin develop --release --locked --quiet
	@touch $@

$(STAMP)/demo: $(STAMP)/kernel pyproject.toml requirements.lock
	@tools/require java
	@echo "installing Spark and what the demo needs (a few minutes the first time)"
	@tools/install demo
	@touch $@

$(STAMP)/failover: $(STAMP)/kernel pyproject.toml requirements.lock
	@echo "installing what the cluster's demo needs"
	@tools/install failover
	@touch $@

$(STAMP)/jobs: $(STAMP)/kernel pyproject.toml requirements.lock
	@echo "installing what the demo of queues needs"
	@tools/install jobs
	@touch $@

$(STAMP)/test: $(STAMP)/kernel pyproject.toml requirements.lock
	@echo "installing what the tests of single parts need"
	@tools/install test
	@touch $@

$(STAMP)/dev: $(STAMP)/demo $(STAMP)/test
	@echo "installing what the other tests and the checks need"
	@tools/install dev
	@touch $@
