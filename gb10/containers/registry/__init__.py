"""Images between an engine and a registry: push, pull, credentials, zstd."""
