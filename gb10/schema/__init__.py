"""What an image recipe and its lock may say: frozen, strict models; no I/O."""
