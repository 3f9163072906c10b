"""One command on a real GB10: ordered steps, each with a budget, a result and its evidence."""
