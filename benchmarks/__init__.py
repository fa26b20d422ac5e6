"""Ottla and Apache Kafka side by side, in one run, on one machine: `python -m benchmarks` (see README.md)."""
