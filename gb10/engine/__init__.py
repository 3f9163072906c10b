"""The container engine: the user's own, or one from Debian's packages kept wholly inside the store."""
