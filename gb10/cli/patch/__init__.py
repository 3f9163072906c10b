"""Verbs about patches and mods."""
