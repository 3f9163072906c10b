"""The proof: what GPU code every ELF holds, compared with what it must hold."""
