"""Verbs about the machine: engine, cache, doctor, bench, config."""
