"""Print the entries of recipes/nested.yaml for source archives of vLLM and FlashInfer.

python3 -m bootstrap scripts/nested_sources.py vllm-0.33.0.tar.gz flashinfer_python-0.7.2.post1.tar.gz
"""

import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from packaging.utils import parse_sdist_filename

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.inside.compile.cmake_nested import FOLDER, read

CUTLASS = re.compile(r'set\(CUTLASS_REVISION "([^"]+)"')
URL = "https://github.com/{}"
BUNDLED = {
    "3rdparty/cutlass/include/cutlass/version.h": ("cutlass", "NVIDIA/cutlass", r"#define CUTLASS_{} (\d+)"),
    "3rdparty/spdlog/include/spdlog/version.h": ("spdlog", "gabime/spdlog", r"#define SPDLOG_VER_{} (\d+)"),
}
CCCL = "3rdparty/cccl/libcudacxx/include/cuda/std/__cccl/version.h"


def nested(archive: Path) -> Iterator[tuple[str, str, str]]:
    """Name, git repository and version of each project that an archive bundles, or whose build fetches it."""
    with tarfile.open(archive) as tar, tempfile.TemporaryDirectory() as work:
        for member in tar:
            name = str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))
            content = tar.extractfile(member) if member.isfile() and _wanted(name) else None
            if content is None:
                continue
            text = content.read().decode()
            if name in BUNDLED:
                project, repository, pattern = BUNDLED[name]
                parts = (re.search(pattern.format(part), text) for part in ("MAJOR", "MINOR", "PATCH"))
                yield project, URL.format(repository), ".".join(part[1] for part in parts if part)
            elif name == CCCL:
                number = int(re.findall(r"#define CCCL_VERSION (\d+)", text)[0])
                yield "cccl", URL.format("NVIDIA/cccl"), f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"
            elif name == "CMakeLists.txt":
                for revision in CUTLASS.findall(text):
                    yield "cutlass", URL.format("nvidia/cutlass"), revision
            else:
                path = Path(work) / Path(name).name
                path.write_text(text, encoding="utf-8")
                found = read(path)
                yield found.name.replace("_", "-"), found.url.removesuffix(".git"), found.pin


def _wanted(name: str) -> bool:
    cmake = name.startswith(f"{FOLDER}/") and name.endswith(".cmake")
    return cmake or name == "CMakeLists.txt" or name in BUNDLED or name == CCCL


def entry(archive: Path) -> str:
    """The entry of one archive, below ``releases``."""
    project, version = parse_sdist_filename(archive.name)
    lines = [f"  {project}=={version}:"]
    lines += [f'    {name}: {{git: "{url}", version: "{pin}"}}' for name, url, pin in sorted(nested(archive))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(entry(Path(argument)))
