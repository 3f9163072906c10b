"""The lock: every byte that goes in. The verb lock resolves it; everything else only reads the file."""
