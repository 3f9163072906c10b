"""The container engine: the only room that knows Docker."""
