"""Slimming: files, symbol tables and GPU code that rules name leave a layer."""
