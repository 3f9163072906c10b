"""A base's root file system, as the store keeps it."""

import gzip
from pathlib import Path
from random import Random

import pytest

from gb10.image.build import bases


def test_a_compressed_base_is_the_same_base_and_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "MEMBER", 1000)
    data = Random(1).randbytes(5_500) + bytes(100_000)  # noqa: S311 - no secret
    made = []
    for threads in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda count=threads: count)
        (tmp_path / "plain").write_bytes(data)
        bases.compress(tmp_path / "plain", tmp_path / f"{threads}.tar")
        made.append((tmp_path / f"{threads}.tar").read_bytes())
    assert made[0] == made[1]
    assert gzip.decompress(made[0]) == data
    assert len(made[0]) < len(data) / 5
    assert not (tmp_path / "plain").exists()
