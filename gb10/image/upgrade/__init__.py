"""``lock --upgrade engine``: a recipe moves to the engine's next release, with the pins that move with it."""
