"""Wheels with other bytes, most of them near their headers: each is read or refused, by all of ZIP's compressions."""

import random
import zipfile
from pathlib import Path

import pytest

from gb10.errors import Gb10Error
from gb10.image.proof.reading import read_manifests, scan_path
from tests.fuzz.test_hostile_wheel import LIBRARY, manifest, wheel_of

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
MUTANTS = 400


@pytest.mark.parametrize("method", METHODS)
def test_a_mutated_wheel_is_read_or_refused(method: int, tmp_path: Path) -> None:
    module = {"file": "k/k.so", "cubins": ["12.1f"]}
    whole = wheel_of(
        tmp_path / "k.whl", {"k/k.so": LIBRARY, "k/manifest.json": manifest(k=module)}, method
    ).read_bytes()
    chance, refused = random.Random(method), 0  # noqa: S311 - the same mutants every time
    for _ in range(MUTANTS):
        mutant = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            near = chance.choice((30, len(mutant) - 1, 300, len(mutant) - 300))
            at = min(max(0, near + chance.randint(-60, 60)), len(mutant) - 1)
            mutant[chance.choice((at, chance.randrange(len(mutant))))] = chance.choice(
                (0, 1, 0xFF, chance.randrange(256))
            )
        (tmp_path / "m.whl").write_bytes(mutant[: chance.choice((len(mutant), chance.randrange(len(mutant))))])
        try:
            scan_path(tmp_path / "m.whl")
            read_manifests(tmp_path / "m.whl")
        except Gb10Error:
            refused += 1
    assert refused > MUTANTS / 4
