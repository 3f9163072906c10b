"""Model recipes run: containers on one node or several, watched until they end, and ended together."""
