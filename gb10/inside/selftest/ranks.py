"""Starts allreduce.py once for each GPU of this machine; when one rank ends badly, the others are ended."""

import os
import subprocess
import sys
import time
from pathlib import Path

LOOK = 0.1


def main() -> int:
    """The first exit code that is not 0."""
    world = int(sys.argv[1])
    program = Path(__file__).with_name("allreduce.py")
    shared = {**os.environ, "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531"}
    children = [
        subprocess.Popen(
            [sys.executable, str(program), *sys.argv[2:]], env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(world)
    ]
    try:
        while True:
            codes = [child.poll() for child in children]
            bad = next((code for code in codes if code), 0)
            if bad or None not in codes:
                return abs(bad)
            time.sleep(LOOK)
    finally:
        for child in children:
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
