"""The package index that the user's own pip settings name."""
