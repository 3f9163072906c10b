"""Layers: locked wheels, settings, patched files, overlays and mods are installed."""
