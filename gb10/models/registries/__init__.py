"""Registries of recipes: git repositories and folders of others, each pinned, kept in the store, trusted or not."""
