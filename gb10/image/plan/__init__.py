"""Recipe, lock and options become a plan: steps with keys, and the Dockerfiles that run them. Pure."""
