"""Debian packages become one root file system, for either architecture; nothing of them is executed."""
