"""Programs that run in the stages of a build, by what they do; standard library only."""
