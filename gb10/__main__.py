"""``python -m gb10``: the command line."""

import sys

from gb10.cli import main

sys.exit(main(sys.argv[1:]))
