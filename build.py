#!/usr/bin/env python3
"""gb10: container images for NVIDIA GB10. It needs Python 3.11 only; ``./build.py`` shows how to start."""

import os
import sys


def main() -> int:
    if sys.version_info < (3, 11):
        sys.stderr.write("error: gb10 needs Python 3.11 or newer, this is Python %d.%d\n" % sys.version_info[:2])
        sys.stderr.write("hint: run it with a newer one, for example: python3.12 build.py\n")
        return 2
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
    try:
        from bootstrap.handover import run

        return run(os.path.abspath(__file__), sys.argv[1:])
    except KeyboardInterrupt:  # before a verb runs: verbs catch it themselves
        sys.stderr.write("interrupted; run the same command again to continue\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
