"""The data pipeline on Spark: topics as a PySpark data source and sink. Needs `pip install ottla[spark]`."""
