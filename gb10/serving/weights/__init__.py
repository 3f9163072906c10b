"""Model files: fetched from the Hub once, checked, locked to a commit, and copied to the other nodes."""
