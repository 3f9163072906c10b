"""Mods: folders with a run.sh that change an installed engine; read, checked and digested before they run."""
