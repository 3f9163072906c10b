"""Starts allreduce.py once for each GPU of this machine, and ends them together."""

import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """The worst exit code."""
    world = int(sys.argv[1])
    program = Path(__file__).with_name("allreduce.py")
    shared = {**os.environ, "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531"}
    children = [
        subprocess.Popen([sys.executable, str(program)], env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(world)
    ]
    try:
        return max(child.wait() for child in children)
    finally:
        for child in children:
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
