"""The command line: ``python -m gb10``, and the command ``gb10`` of an installed package."""

import sys

from gb10.cli import main
from gb10.host.ending import end_as_by_ctrl_c


def run() -> int:
    """The exit code of this process's command line."""
    end_as_by_ctrl_c()
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
