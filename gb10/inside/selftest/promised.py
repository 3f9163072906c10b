"""What the image's own report says of kernels that were compiled for a model when it was built."""

import json
from pathlib import Path

from gb10.inside.selftest.common import say

REPORT = Path("/usr/share/gb10/caches/report.json")


def main() -> None:
    """One line: how many kernels are ready, and the names of those that are left to the device."""
    if not REPORT.is_file():
        say("promised", made=None, left=[])
        return
    found = json.loads(REPORT.read_text(encoding="utf-8"))
    left = [str(one.get("name", one))[:120] if isinstance(one, dict) else str(one)[:120] for one in found["left"]]
    say("promised", made=len(found["made"]), left=left)


if __name__ == "__main__":
    main()
