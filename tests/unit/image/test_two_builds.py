"""Two builds that share a store, as the benchmark runs them."""

import subprocess
import sys
from pathlib import Path

import pytest

from benches import two_builds
from gb10.core.store import Store

BUILD = """\
import os, sys, time
from pathlib import Path
place = Path(sys.argv[1])
(place / "pid.part").write_text(str(os.getpid()))
(place / "pid.part").rename(place / "pid")
while place.name == "bad" and not (place.parent / "good/pid").exists():
    time.sleep(0.01)
if place.name == "bad":
    sys.exit(3)
time.sleep(60)
"""


def test_a_build_does_not_outlive_the_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store is given back next."""
    places = [tmp_path / name for name in ("bad", "good")]
    for place in places:
        place.mkdir()
    commands = [(sys.executable, "-c", BUILD, str(place)) for place in places]
    monkeypatch.setattr(two_builds, "INTERVAL", 0.05)
    monkeypatch.setattr(two_builds, "up", lambda store, env: None)  # these builds need no engine
    with pytest.raises(subprocess.CalledProcessError) as caught:
        two_builds.built(Store(tmp_path / "store"), commands, {}, at_once=True)
    assert caught.value.returncode == 3
    assert not Path("/proc", (tmp_path / "good/pid").read_text(encoding="ascii")).exists()
