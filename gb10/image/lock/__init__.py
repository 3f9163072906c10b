"""The lock: every input of a build. The verb lock resolves it; other verbs only read it."""
