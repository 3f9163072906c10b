"""Starts the tool: creates a virtual environment once from hash-locked requirements, then runs inside it."""
