"""Let the kernel run the programs of another architecture, by Debian's qemu of gb10's store. Root.

python3 -m bootstrap scripts/emulator.py arm64
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.containers.emulation import PROGRAMS, emulated, held_version, register
from gb10.core.config import with_settings
from gb10.core.store import open_store
from gb10.image.context import build_architecture


def main() -> None:
    """Register it unless one that is new enough is there; say which one runs then."""
    (architecture,) = sys.argv[1:]
    if architecture not in PROGRAMS:
        sys.exit(f"error: no emulator is known for {architecture}: {', '.join(PROGRAMS)}")
    if architecture == build_architecture():
        return
    settings = with_settings(os.environ)
    store = open_store(settings)
    if not emulated(store, architecture):
        register(store, settings, architecture, "what you start next")
    print(f"programs of {architecture} run by qemu {held_version(store, architecture)}")


if __name__ == "__main__":
    main()
