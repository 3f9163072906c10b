"""Disk that a command takes: its peak and what stays, by the file system that holds the store.

    python3 -m bootstrap benches/disk.py [COMMAND...]        # default: ./build.py image

Nothing else may write to that file system: set GB10_CACHE_DIR to one of its own, such as a file mounted by `mount -o
loop`. Prints GB (10^9 bytes) above the start, the second of the peak, and what each room of the store has at the end.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.core.config import store_root
from gb10.core.store_gc import disk
from gb10.image.plan.catalog import ROOT

EVERY = 0.5
"""Seconds between two samples."""


def main() -> None:
    """Run the command, sample, print one document; exit with the command's status."""
    command = sys.argv[1:] or [str(ROOT / "build.py"), "image"]
    root = store_root(os.environ)
    root.mkdir(parents=True, exist_ok=True)
    before, began = shutil.disk_usage(root).used, time.monotonic()
    peak, at = 0, 0.0
    with subprocess.Popen(command) as child:  # its output is the user's to see
        while child.poll() is None:
            used = shutil.disk_usage(root).used - before
            if used > peak:
                peak, at = used, time.monotonic() - began
            time.sleep(EVERY)
    rooms = {path.name: disk(path) / 1e9 for path in sorted(root.iterdir()) if path.is_dir()}
    document = {
        "peak_gb": peak / 1e9,
        "peak_at_s": at,
        "seconds": time.monotonic() - began,
        "left_gb": (shutil.disk_usage(root).used - before) / 1e9,
        "rooms_gb": rooms,
    }
    print(json.dumps(document, indent=1))
    raise SystemExit(child.returncode)


if __name__ == "__main__":
    main()
