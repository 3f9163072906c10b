"""The command line: ``python -m gb10``, and the command ``gb10`` of an installed package."""

import sys


def run() -> int:
    """The exit code of this process's command line."""
    try:
        from gb10.core.signals import end_as_by_ctrl_c  # noqa: PLC0415 - Ctrl-C may come while it is loaded

        end_as_by_ctrl_c()
        from gb10.cli import main  # noqa: PLC0415

        return main(sys.argv[1:])
    except KeyboardInterrupt:  # before a verb runs: verbs catch it themselves
        sys.stderr.write("interrupted; run the same command again to continue\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
