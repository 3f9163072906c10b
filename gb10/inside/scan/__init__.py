"""Reading: what lies in a layer or an image, what changed, whether its libraries can be loaded."""
