"""Where locked bytes come from: package index, git, Debian's archive, the Hugging Face Hub."""
