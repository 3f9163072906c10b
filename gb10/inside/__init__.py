"""Programs that run inside a build stage: stdlib only, each file a script by itself."""
