"""Model recipes: load, check, render."""
