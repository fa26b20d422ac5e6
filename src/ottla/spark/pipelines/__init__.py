"""Pipelines: a YAML file says source, transforms and sink; `ottla pipeline run` makes it a query on Spark."""
