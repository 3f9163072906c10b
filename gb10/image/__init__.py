"""The job: a recipe and its lock become an image that is proven, shown and published."""
