"""The command line: ``python -m gb10``, and the command ``gb10`` of an installed package."""

import sys

from gb10.errors import interrupted
from gb10.host.ending import end_as_by_ctrl_c


def run() -> int:
    """The exit code of this process's command line."""
    end_as_by_ctrl_c()
    try:
        from gb10.cli import main  # noqa: PLC0415 - Ctrl-C may come while it is loaded

        return main(sys.argv[1:])
    except KeyboardInterrupt:
        return interrupted()


if __name__ == "__main__":
    sys.exit(run())
