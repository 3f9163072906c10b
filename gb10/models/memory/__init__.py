"""What a served model takes of each node's memory, and whether it fits. Pure, but for the data of ``recipes/``."""
