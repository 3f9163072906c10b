"""A Spark is looked at: its machine, containers, logs and endpoint are read, bounded, for the rules of ``doctor``."""
