"""Builds through docker buildx: its command line, its progress events, its log."""
