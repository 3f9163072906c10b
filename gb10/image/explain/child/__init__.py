"""What runs in an engine's process: ``choose`` for explain, ``rehearse`` in a build stage; a folder for each engine."""
