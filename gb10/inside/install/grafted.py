"""Inside a build stage: write the changed files of a patched wheel as a layer above the one of upstream's wheel.

    grafted.py --below ROOT --wheel DIR --out ROOT --epoch SECONDS

DIR has the changed files under their names in the wheel, METADATA among them. Their bytecode is compiled again, and
the installed RECORD lists them. The dist-info folder keeps upstream's name: a layer can replace a file of the layer
below, but not rename its folder, and a second folder would be a second distribution.
"""

import argparse
import base64
import csv
import hashlib
import io
import os
import py_compile
import shutil
import sys
from importlib.util import cache_from_source
from pathlib import Path

SITE = Path(f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}/dist-packages")


def main() -> None:
    """Copy, compile, list, clamp."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("below", "wheel", "out"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    below, out = options.below / SITE, options.out / SITE
    files = sorted(path.relative_to(options.wheel) for path in options.wheel.rglob("*") if path.is_file())
    metadata = next(name for name in files if name.name == "METADATA")
    info = installed_info(below, metadata.parts[0])
    placed = {info / "METADATA" if name == metadata else name: options.wheel / name for name in files}
    for name, source in placed.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, out / name)
        (out / name).chmod(mode_of(below / name))
    compiled = [compile_file(options.out, SITE / name) for name in placed if name.suffix == ".py"]
    bytecode = [path.relative_to(SITE) for path in compiled]
    record = (below / info / "RECORD").read_text(encoding="utf-8")
    (out / info / "RECORD").write_text(updated_record(record, out, [*placed, *bytecode]), encoding="utf-8")
    clamp(options.out, options.epoch)


def mode_of(path: Path) -> int:
    """The mode of the file in the layer below; 0644 for a new file."""
    return path.stat().st_mode & 0o777 if path.exists() else 0o644


def installed_info(site: Path, wheel_info: str) -> Path:
    """The dist-info folder of the same project below; raises SystemExit unless there is exactly one."""
    project = wheel_info.split("-", maxsplit=1)[0]
    found = sorted(site.glob(f"{project}-*.dist-info"))
    if len(found) != 1:
        raise SystemExit(f"{len(found)} installed releases of {project} in the layer below, not one")
    return found[0].relative_to(site)


def compile_file(root: Path, name: Path) -> Path:
    """Bytecode as install.py makes it; raises SystemExit with Python's error when the patched file is no Python."""
    cached = Path(cache_from_source(str(name)))
    try:
        py_compile.compile(
            str(root / name),
            str(root / cached),
            f"/{name}",
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )
    except py_compile.PyCompileError as error:
        raise SystemExit(f"a patched file is no Python: {error.msg}") from None
    return cached


def updated_record(record: str, site: Path, names: list[Path]) -> str:
    """RECORD with new lines for these files; a file that it lists without a hash stays without."""
    rows = {row[0]: row for row in csv.reader(io.StringIO(record)) if row}
    for name in names:
        known = rows.get(str(name))
        if known is None and name.suffix == ".pyc":
            continue
        content = (site / name).read_bytes()
        value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        listed = [f"sha256={value}", str(len(content))] if known is None or known[1] else ["", ""]
        rows[str(name)] = [str(name), *listed]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows.values())
    return text.getvalue()


def clamp(root: Path, epoch: int) -> None:
    """Every time stamp becomes the lock's date."""
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            os.utime(Path(folder) / name, (epoch, epoch), follow_symlinks=False)


if __name__ == "__main__":
    main()
