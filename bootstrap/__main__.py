"""Run a development tool from its own hash-locked environment: ``python3 -m bootstrap -m pytest``."""

import sys

from bootstrap.environment import CHECKOUT
from bootstrap.handover import enter

if __name__ == "__main__":
    sys.exit(enter(CHECKOUT / "requirements-dev.lock", sys.argv[1:]))
