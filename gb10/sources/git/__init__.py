"""Trees from git: one commit with its submodules as one tar."""
