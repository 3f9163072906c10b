"""Launches as others write them: `docker run` in scripts, compose files, objects of Kubernetes. Read, never run."""
