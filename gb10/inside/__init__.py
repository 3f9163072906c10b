"""Programs that run inside a build stage: the standard library and each other, nothing else."""
