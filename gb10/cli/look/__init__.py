"""Verbs that look inside: explain, moe, verify, show, report."""
