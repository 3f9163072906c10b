"""What an image is: gathered from an engine or a registry, compared with another, drawn."""
