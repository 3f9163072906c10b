"""Modules that SGLang compiles with nvcc at first use, compiled for the image under the names that it looks up there.

SGLang finds a module by two keys: one of its build file, sources, compilers and packages, one of each file that the
compiler read. SGLang's own code computes both, over the image's files below another root. Nothing is loaded.
"""

import importlib.metadata
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gb10.image.explain.child.shared.kernel_calls import Noted
from gb10.image.explain.child.shared.values import Row

REQUESTED: dict[Path, Any] = {}
"""SGLang's specification of each module that it would build, by the folder of the cache."""
MADE: list[Row] = []
LEFT: list[Row] = []
MACHINE = "aarch64-linux-gnu"
WALL = 4 * 3600
"""Seconds for one module, waiting included."""


def listen(image: dict[str, Any]) -> None:
    """Note each module that SGLang looks up. ``image``: where its files lie; what its compilers print, or why not."""
    from sglang.kernels.jit.utils.compile import loader, ninja

    ninja._NINJA_TIMEOUT_S = WALL  # SGLang's own is short for compilers that wait for memory
    loader._find_prebuilt = _note
    loader._load = lambda name: Noted(f"SGLang {name}")
    if "unknown" not in image:
        _answer_keys(image)


def _answer_keys(image: dict[str, Any]) -> None:
    """Let SGLang's keys be made of the image's files, under the names that they have there."""
    from sglang.kernels.jit.utils.compile import cache, toolchain

    site = Path(image["site"])
    cache._package_dir = lambda name: site / name if (site / name).is_dir() else None
    toolchain.toolkit_home = lambda: Path(image["toolkit"])
    anchors = [(token, Path(image_names(image, str(path)))) for token, path in cache._anchor_roots()]
    anchors.sort(key=lambda one: len(str(one[1])), reverse=True)
    cache._anchor_roots = lambda: anchors
    own_path, own_text = cache._normalize_path, cache._normalize_text
    cache._normalize_path = lambda path: own_path(Path(image_names(image, str(path))))
    cache._normalize_text = lambda text: own_text(image_names(image, text))
    cache.dist_version = lambda name: _version(name, site)
    cache.subprocess = SimpleNamespace(
        check_output=lambda argv, **_: image["printed"][Path(argv[0]).name], SubprocessError=OSError
    )


def image_names(image: dict[str, Any], text: str) -> str:
    """A text that names the image's files as the image itself does."""
    return text.replace(f"{image['root']}/usr", "/usr")


def _version(name: str, site: Path) -> str:
    found = next(iter(importlib.metadata.distributions(name=name, path=[str(site)])), None)
    if found is None:
        raise importlib.metadata.PackageNotFoundError(name)
    return found.version


def _note(*, spec: Any, scope: Path) -> str:
    REQUESTED[scope] = spec
    return str(spec.module_name)


def make(image: dict[str, Any]) -> None:
    """Compile what was looked up, as many at once as there are cores and, by compile_slots.py, memory."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for row, why in pool.map(lambda one: _made(image, *one), sorted(REQUESTED.items())):
            if why:
                LEFT.append({"what": row["kernel"], "why": why})
            else:
                MADE.append(row)


def _made(image: dict[str, Any], scope: Path, spec: Any) -> tuple[Row, str | None]:
    """The row of the report; why there is no module, else None."""
    row = {"compiler": "nvcc", "kernel": f"SGLang {spec.module_name}"}
    if "unknown" in image:
        return row, image["unknown"]
    work = scope / ".work"
    try:
        leaf = _compiled(image, scope, spec, work)
    except Exception as error:
        print(f"{row['kernel']}: {error}", flush=True)  # whole, in the log of the stage
        return row, _first_error(error)
    finally:
        shutil.rmtree(work, ignore_errors=True)  # gone when it became the module's folder
    return {**row, **leaf}, None


def _first_error(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "error" in line]
    return f"{type(error).__name__}: {(lines or [str(error).strip()])[0][:300]}"


def _compiled(image: dict[str, Any], scope: Path, spec: Any, work: Path) -> Row:
    """The folder that SGLang finds, with the module and the list of what its compiler read; what SGLang looks up."""
    import msgspec
    from sglang.kernels.jit.utils.compile import cache, ninja

    library = ninja.build(spec=spec, build_dir=work, build_file=crossed(image, ninja.generate(spec), work))
    read = [twin(image, path) for path in ninja.scan_dependencies(work) if path.is_absolute()]
    for path in work.iterdir():
        if path != library:
            path.unlink()
    found = cache.commit_build(spec, scope=scope, staging=work, dependencies=read)
    if found is None:
        raise ValueError("SGLang takes the list of what its compiler read for incomplete")
    lookup = msgspec.json.decode(image_names(image, msgspec.json.encode(spec).decode()))
    return {"folder": str(found.parent.relative_to(cache.cache_root())), "lookup": lookup}


def crossed(image: dict[str, Any], text: str, work: Path) -> str:
    """SGLang's build file for the image's machine: this machine's compilers, the image's headers and ``-L`` folders.

    The library is stripped. An object is named below ``work``, a folder of its module, which tells its memory.
    """
    flags = system_flags(Path(image["root"]))
    launched = f"{sys.executable} -IS {image['launch']} {image['home']}/bin/nvcc -objtemp -ccbin {image['cxx']}"
    replaced = {
        "cxx": f"cxx = {image['cxx']} {' '.join(flags)}",
        "nvcc": f"nvcc = {launched} {' '.join(f'-Xcompiler={one}' for one in flags)}",
    }
    lines = text.replace("/usr/local/cuda", image["toolkit"]).splitlines()
    moved = [line.replace("-I/usr/", f"-I{image['root']}/usr/") for line in lines]
    moved = [line.replace("-L/usr/", f"-L{image['root']}/usr/") for line in moved]
    moved = [f"{line} -Wl,--strip-all" if line.startswith("ldflags = ") else line for line in moved]
    moved = [line.replace('-o "$out"', f'-o "{work}/$out"') for line in moved]
    return "\n".join(replaced.get(line.partition(" = ")[0], line) for line in moved) + "\n"


def system_flags(root: Path) -> list[str]:
    """Flags for the image's headers, in the order of its compiler's search, and for no trace of where they lie here."""
    (release,) = sorted(path.name for path in (root / f"usr/lib/gcc/{MACHINE}").iterdir())
    folders = (
        f"include/c++/{release}",
        f"include/{MACHINE}/c++/{release}",
        f"include/c++/{release}/backward",
        f"lib/gcc/{MACHINE}/{release}/include",
        "local/include",
        f"include/{MACHINE}",
        "include",
    )
    own = [f"-isystem{root}/usr/{folder}" for folder in folders]
    traces = [f"-ffile-prefix-map={root}/usr=/usr", "-fno-ident"]
    return ["-nostdinc", "-nostdinc++", *own, f"-include{root}/usr/include/stdc-predef.h", *traces]


def twin(image: dict[str, Any], path: Path) -> Path:
    """The image's file for one that the compiler read; they have to be equal."""
    path = path.resolve()
    if path.is_relative_to(image["root"]):
        return path
    other = Path(f"{image['root']}{path}")
    if not other.is_file() or other.read_bytes() != path.read_bytes():
        raise ValueError(f"the compiler read {path}, and the image's is another")
    return other
