"""Move results: push and pull proven images, share compiled wheels."""
