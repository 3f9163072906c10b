"""A base's root file system, as the store keeps it."""

from pathlib import Path
from random import Random

from gb10.image.base.layer_stream import zstd
from gb10.image.build import bases


def test_a_compressed_base_is_the_same_base_and_the_same_bytes(tmp_path: Path) -> None:
    data = Random(1).randbytes(5_500) + bytes(100_000)  # noqa: S311 - no secret
    made = []
    for name in ("one.tar", "two.tar"):
        (tmp_path / "plain").write_bytes(data)
        bases.compress(tmp_path / "plain", tmp_path / name)
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    assert zstd.decompress(made[0]) == data
    assert len(made[0]) < len(data) / 5
    assert not (tmp_path / "plain").exists()
