"""Write recipes/flags/ENGINE-RELEASE.json from an engine's wheel: its options, their values, its environment names.

    python3 -m bootstrap scripts/engine_flags.py WHEEL [OUT]

Nothing of the wheel is imported.
"""

import sys
import zipfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.models.lint.engine_words import FLAGS, document, read_engine

LARGEST = 8 << 20
"""Bytes of one Python file."""


def texts_of(wheel: Path) -> dict[str, str]:
    """The Python files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        infos = [info for info in archive.infolist() if info.filename.endswith(".py") and info.file_size <= LARGEST]
        return {info.filename: archive.read(info).decode("utf-8", "replace") for info in infos}


def main() -> None:
    """Read one wheel, write one file."""
    wheel = Path(sys.argv[1])
    name, version, _, _ = parse_wheel_filename(wheel.name)
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else FLAGS
    text = document(name, str(version), read_engine(name, texts_of(wheel)))
    (folder / f"{name}-{version}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
