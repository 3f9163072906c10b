"""Write recipes/messages/ENGINE.json.xz: facts about the statements that print, of releases on PyPI.

    python3 -m bootstrap scripts/engine_messages.py [ENGINE ...]

Each release's source archive is downloaded, checked by the sha256 that the index names, and read; nothing of it is
imported or kept. The result has hashes of words, files, lines, exceptions, names of options: no sentence, no code.
"""

import hashlib
import io
import json
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import requests
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.serving.doctor.message_index import IndexBuilder, Source
from gb10.serving.doctor.printed_statements import Statement, python_statements

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "recipes/messages"
JSON = {"Accept": "application/vnd.pypi.simple.v1+json"}
ENGINES = {
    "vllm": ("vllm", "0.25.0", "vllm"),
    "sglang": ("sglang", "0.5.10", "sglang"),
    "flashinfer": ("flashinfer-python", "0.6.7", "flashinfer"),
}
"""Project, first release, package."""
SKIPPED = ("/tests/", "/test/", "/benchmarks/", "/examples/", "/docs/", "/3rdparty/")


def archives(project: str, first: str) -> list[tuple[Version, dict[str, object]]]:
    """The final releases from the first one on, each with its smallest archive that has its Python files."""
    files = requests.get(f"https://pypi.org/simple/{project}/", headers=JSON, timeout=60).json()["files"]
    best: dict[Version, dict[str, object]] = {}
    for one in files:
        name = one["filename"]
        try:
            version = parse_wheel_filename(name)[1] if name.endswith(".whl") else parse_sdist_filename(name)[1]
        except ValueError:
            continue
        if version.is_prerelease or version < Version(first) or one.get("yanked"):
            continue
        if version not in best or one["size"] < best[version]["size"]:
            best[version] = one
    return sorted(best.items())


def python_files(name: str, content: bytes, package: str) -> Iterator[tuple[str, str, str]]:
    """Prefix, path in site-packages, and text of each Python file of an archive."""
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for info in archive.infolist():
                if info.filename.startswith(f"{package}/") and info.filename.endswith(".py"):
                    yield "", info.filename, archive.read(info).decode("utf-8", "replace")
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            head, found, rest = member.name.partition(f"/{package}/")
            if (
                not found
                or not member.isfile()
                or not rest.endswith(".py")
                or "/" in head.partition("/")[2].replace("python", "")
            ):
                continue
            stream = archive.extractfile(member)
            if stream is not None:
                yield f"{head}/", f"{package}/{rest}", stream.read().decode("utf-8", "replace")


def options(engine: str) -> frozenset[str]:
    """The options of an engine that recipes/flags knows, as Python spells them."""
    found: set[str] = set()
    for path in sorted((ROOT / "recipes/flags").glob(f"{engine}-*.json")):
        for name in json.loads(path.read_text(encoding="utf-8"))["options"]:
            found.add(name.lstrip("-").replace("-", "_"))
    return frozenset(found)


def main() -> None:
    """Read releases, write one file for each engine."""
    parsed: dict[str, tuple[Statement, ...]] = {}
    for engine in sys.argv[1:] or ENGINES:
        project, first, package = ENGINES[engine]
        builder = IndexBuilder(engine, options(engine))
        for version, one in archives(project, first):
            content = requests.get(str(one["url"]), timeout=600).content
            digest = hashlib.sha256(content).hexdigest()
            if digest != one["hashes"]["sha256"]:  # type: ignore[index]
                raise SystemExit(f"{one['filename']} has another sha256 than the index says")
            statements: list[Statement] = []
            prefix = ""
            for head, file, text in python_files(str(one["filename"]), content, package):
                prefix = head
                if any(part in f"/{file}" for part in SKIPPED):
                    continue
                key = f"{file} {hashlib.sha256(text.encode()).hexdigest()}"
                if key not in parsed:
                    parsed[key] = python_statements(text, file)
                statements += parsed[key]
            source = Source(url=str(one["url"]), sha256=digest, size=len(content), prefix=prefix)
            builder.add(str(version), source, statements)
            print(engine, version, one["filename"], len(statements), "statements", file=sys.stderr, flush=True)
        OUT.mkdir(exist_ok=True)
        text = json.dumps(builder.document(), separators=(",", ":"), sort_keys=True)
        (OUT / f"{engine}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()
