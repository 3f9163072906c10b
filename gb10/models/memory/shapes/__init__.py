"""The tensors of a decoder, from its config.json alone: names as in the model file, rows and columns. Pure."""
