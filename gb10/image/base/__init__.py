"""Images of others: what they hold is read from their layers in a registry, never assumed."""
