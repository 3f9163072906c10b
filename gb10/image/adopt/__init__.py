"""Dockerfiles and folders of patches of others become image recipes; each line is accounted for, none is run."""
