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

from gb10.serving.doctor.engine_statements import statements_of
from gb10.serving.doctor.message_index import IndexBuilder, Source
from gb10.serving.doctor.printed_statements import CPP, Statement

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "recipes/messages"
JSON = {"Accept": "application/vnd.pypi.simple.v1+json"}
ENGINES = {
    "vllm": ("vllm", "0.25.0", "vllm"),
    "sglang": ("sglang", "0.5.10", "sglang"),
    "flashinfer": ("flashinfer-python", "0.6.7", "flashinfer"),
    "transformers": ("transformers", "4.57", "transformers"),
    "compressed_tensors": ("compressed-tensors", "0.12", "compressed_tensors"),
    "huggingface_hub": ("huggingface-hub", "0.36", "huggingface_hub"),
}
"""Project, first release, package."""
NATIVE = ("csrc/", "include/")
"""Folders of an sdist with C++ and CUDA."""
SKIPPED = ("/tests/", "/test/", "/benchmarks/", "/examples/", "/docs/", "/3rdparty/", "/cutlass/", "/cccl/")


def archives(project: str, first: str) -> list[tuple[Version, dict[str, object]]]:
    """The final releases from the first one on, each with its smallest archive."""
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


def engine_files(name: str, content: bytes, package: str) -> Iterator[tuple[str, str, str]]:
    """Prefix, path below it, and text of each file of an archive that is Python, C++ or CUDA of the package."""
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for info in archive.infolist():
                if info.filename.startswith(f"{package}/") and info.filename.endswith((".py", *CPP)):
                    yield "", info.filename, archive.read(info).decode("utf-8", "replace")
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            _head, _, rest = member.name.partition("/")
            inside = rest.removeprefix("python/").removeprefix("src/")
            python = inside.startswith(f"{package}/") and inside.endswith(".py")
            cpp = rest.startswith(NATIVE) and rest.endswith(CPP)
            if not member.isfile() or not (python or cpp):
                continue
            stream = archive.extractfile(member)
            if stream is not None:
                yield member.name.removesuffix(inside), inside, stream.read().decode("utf-8", "replace")


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
            for head, file, text in engine_files(str(one["filename"]), content, package):
                prefix = head
                if any(part in f"/{file}" for part in SKIPPED):
                    continue
                key = f"{file} {hashlib.sha256(text.encode()).hexdigest()}"
                if key not in parsed:
                    parsed[key] = statements_of(text, file)
                statements += parsed[key]
            source = Source(url=str(one["url"]), sha256=digest, size=len(content), prefix=prefix)
            builder.add(str(version), source, statements)
            print(engine, version, one["filename"], len(statements), "statements", file=sys.stderr, flush=True)
        OUT.mkdir(exist_ok=True)
        text = json.dumps(builder.document(), separators=(",", ":"), sort_keys=True)
        (OUT / f"{engine}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()
