"""Mods: folders with a ``run.sh`` that change an installed engine; read, judged and digested here, run in a layer."""
