"""Write recipes/flags/ENGINE-RELEASE.json from engines' wheels: options, their values, what reads each variable.

    pip download --no-deps --only-binary=:all: --platform manylinux_2_28_x86_64 --python-version 3.12 vllm==0.33.0
    python3 -m bootstrap scripts/engine_flags.py WHEEL...
    python3 -m bootstrap scripts/engine_flags.py --out FOLDER WHEEL...

Nothing of a wheel is imported. A release whose registries are not found is an error: their place has moved, and
gb10/models/lint/engine_registries.py must learn the new one. recipes/flags/wheels.sha256 names the wheels that were
read; another platform's wheel of a release has the same Python files.
"""

import argparse
import hashlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import parse_wheel_filename

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.models.lint.engine_registries import REGISTRIES
from gb10.models.lint.engine_words import FLAGS, EngineWords, document, read_engine

LARGEST = 8 << 20
"""Bytes of one Python file."""
WHEELS = "wheels.sha256"


def texts_of(wheel: Path) -> dict[str, str]:
    """The Python files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        infos = [info for info in archive.infolist() if info.filename.endswith(".py") and info.file_size <= LARGEST]
        return {info.filename: archive.read(info).decode("utf-8", "replace") for info in infos}


def empty_registries(engine: str, words: EngineWords) -> Iterator[str]:
    """The options whose registry was not found in a release that has the option."""
    for option in REGISTRIES[engine]:
        known = words.values if "." in option else words.options
        if not known.get(option) and ("." in option or option in words.options):
            yield option


def main() -> None:
    """Read each wheel, write a file each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=FLAGS)
    parser.add_argument("wheels", type=Path, nargs="+")
    given = parser.parse_args()
    for wheel in given.wheels:
        name, version, _, _ = parse_wheel_filename(wheel.name)
        words = read_engine(name, texts_of(wheel))
        lost = list(empty_registries(name, words))
        if lost:
            sys.exit(f"{wheel.name}: no values were found for {', '.join(lost)}")
        (given.out / f"{name}-{version}.json").write_text(document(name, str(version), words), encoding="utf-8")
        _note(given.out / WHEELS, wheel)


def _note(listed: Path, wheel: Path) -> None:
    """Add a wheel to the list, in the form of sha256sum."""
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    kept = [line for line in lines if not line.endswith(f"  {wheel.name}")]
    with wheel.open("rb") as file:
        kept.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {wheel.name}")
    listed.write_text("".join(f"{line}\n" for line in sorted(kept, key=lambda one: one.split("  ")[1])), "utf-8")


if __name__ == "__main__":
    main()
