# Every target makes what it needs first: a bare machine with Python 3.11 or newer is enough.
# Slow words (bench, chaos) run outside CI.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WITH_SPARK := $(VENV)/.with-spark
SEEDS ?= 200
SEED ?=
ROUNDS ?= 50
MINUTES ?= 10
SUBJECT ?= ottla
PARALLEL := -n 2 --dist loadfile
SPARK_ON_CLUSTER := tests/spark_slow/test_crash_points_cluster.py

.PHONY: help install demo test again fuzz check format sim mutations conformance conformance-suites conformance-spark conformance-spark-kafka bench bench-cluster bench-metadata bench-spark chaos chaos-eos chaos-spark chaos-cluster wheel clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 25

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fast]'
	$(BIN)/python -m compileall -q src  # Where bytecode is not written by itself, every start would compile anew.
	@touch $@

$(WITH_SPARK): $(INSTALLED)  # Half a gigabyte: only for those who test or check the pipeline.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'
	@touch $@

install: $(WITH_SPARK)  ## Make .venv with Ottla and everything for working on it

demo: $(WITH_SPARK)  ## A broker at full speed, then orders through two pipelines on Spark (needs Java 17)
	@$(BIN)/python examples/demo.py

test: $(WITH_SPARK)  ## Unit tests, simulations, and the data pipeline on Spark (needs Java 17)
	$(BIN)/python -m pytest tests/unit tests/simulation tests/spark $(PARALLEL)

again: $(WITH_SPARK)  ## The tests that failed last, one after the other
	$(BIN)/python -m pytest tests --last-failed --last-failed-no-failures none

fuzz: $(WITH_SPARK)  ## The property tests with values never drawn before (long)
	$(BIN)/python -m pytest tests/unit tests/simulation $(PARALLEL) --hypothesis-profile fuzz --timeout 1800

check: $(WITH_SPARK)  ## ruff, mypy, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(INSTALLED)  ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sim: $(INSTALLED)  ## Simulated worlds: make sim SEEDS=1000 (goes on where it was stopped), or one again: make sim SEED=42
	$(BIN)/python -m sim --seeds $(SEEDS) --resume .sim-done $(if $(SEED),--seed $(SEED))

mutations: $(INSTALLED)  ## Bugs planted one at a time, each found by the simulator (long): docs/SIMULATION.md has the seeds
	$(BIN)/python -m tests.simulation.raft_mutations
	$(BIN)/python -m tests.simulation.cluster_mutations

conformance: $(INSTALLED)  ## Unmodified real clients against a real broker, and against three
	$(BIN)/python tools/conformance_clients.py
	$(BIN)/python -m pytest tests/conformance tests/cluster --ignore tests/cluster/chaos $(PARALLEL)

conformance-suites: $(INSTALLED)  ## librdkafka's and kafka-python's own tests against Ottla (long): SUITE='librdkafka 0012'
	$(BIN)/python tools/conformance_clients.py kafka
	$(BIN)/python -m tools.conformance_suites $(SUITE)

conformance-spark: $(INSTALLED)  ## Spark's official Kafka connector against Ottla, batch and streaming (fetches 500 MB)
	$(BIN)/python tools/conformance_spark.py
	$(BIN)/python -m pytest tests/conformance_spark --timeout 300

conformance-spark-kafka: $(WITH_SPARK)  ## Our source, sink and pipelines against Apache Kafka: they are plain Kafka clients
	$(BIN)/python tools/conformance_clients.py kafka
	OTTLA_SPARK_BOOTSTRAP=apache-kafka $(BIN)/python -m pytest tests/spark tests/spark_kafka --timeout 300

chaos: $(INSTALLED)  ## kill -9, full disks, hostile peers: make chaos ROUNDS=50 (long)
	OTTLA_CHAOS_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/chaos --timeout 3600

chaos-eos: $(INSTALLED)  ## Exactly-once and groups, brokers and clients killed at random: make chaos-eos MINUTES=10 SUBJECT=cluster
	OTTLA_CHAOS_MINUTES=$(MINUTES) OTTLA_CHAOS_SUBJECT=$(SUBJECT) $(BIN)/python -m pytest tests/chaos/test_exactly_once.py tests/chaos/test_group_chaos.py

chaos-spark: $(WITH_SPARK)  ## Exactly-once on Spark: tasks, driver and broker killed at every point, five times each (long): make chaos-spark SUBJECT=cluster
	$(BIN)/python -m pytest $(if $(filter cluster,$(SUBJECT)),$(SPARK_ON_CLUSTER),tests/spark_slow --ignore $(SPARK_ON_CLUSTER)) --timeout 3600

chaos-cluster: ROUNDS = 1
chaos-cluster: $(INSTALLED)  ## Every fault on every role of a cluster: make chaos-cluster ROUNDS=3 (long; cut links need root)
	OTTLA_CHAOS_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/cluster/chaos --timeout 7200

bench: $(INSTALLED)  ## Ottla beside Apache Kafka in one run (long; nothing else should run)
	$(BIN)/python tools/conformance_clients.py kafka
	$(BIN)/python -m benchmarks $(BENCH)

bench-cluster: $(INSTALLED)  ## Three nodes of Ottla beside three of Apache Kafka in one run (long; nothing else should run)
	$(BIN)/python tools/conformance_clients.py kafka
	$(BIN)/python -m benchmarks.cluster $(BENCH)

bench-metadata: $(INSTALLED)  ## The controller with 500,000 partitions: memory, snapshot, replay, a broker's death (needs 2 GB)
	$(BIN)/python -m benchmarks.metadata_scale $(BENCH)

bench-spark: $(INSTALLED)  ## Ottla on Spark beside Spark's official connector in one run (long; nothing else should run)
	$(BIN)/python tools/conformance_spark.py
	$(BIN)/python -m benchmarks.spark $(BENCH)

wheel: $(INSTALLED)  ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

clean:  ## Remove what make made, but for .tools
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
