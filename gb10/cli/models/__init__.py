"""Verbs about models: recipe, run, stop, status, logs, cluster."""
