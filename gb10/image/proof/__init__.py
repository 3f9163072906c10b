"""The proof: the GPU code of every ELF, compared with the code that it must hold."""
