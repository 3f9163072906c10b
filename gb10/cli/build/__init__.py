"""Verbs that build: image, wheels, plan, lock, rebuild."""
