"""How the tool starts itself: a virtual environment made once from hash-locked requirements, then handed over to."""
