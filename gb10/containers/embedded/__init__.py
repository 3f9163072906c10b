"""The embedded engine: a private dockerd from Debian's packages, with all its data in the store."""
