"""In an image of SGLang, without a GPU: SGLang's own loader finds and loads the modules that the image brings.

It may not compile: SGLANG_CRASH_ON_JIT_COMPILE is its own word for that.
"""

import os
from pathlib import Path
from typing import Any

LOADED: list[Path] = []


def check(rows: list[dict[str, Any]], root: Path) -> dict[str, object]:
    """Load every module by the arguments that SGLang gave; then one of another name, which is not there.

    ``rows``: of the image's report; ``root``: where its modules lie.
    """
    os.environ |= {"SGLANG_CRASH_ON_JIT_COMPILE": "1", "SGLANG_JIT_PREPARED_DIR": str(root)}
    from sglang.kernels.jit.utils.compile import loader

    own = loader._load
    loader._load = lambda library: LOADED.append(library) or own(library)
    wrong = []
    for row in rows:
        try:
            module = load(row["lookup"])
        except RuntimeError as error:
            wrong.append(f"{row['kernel']}: {str(error)[:200]}")
            continue
        exports = [*row["lookup"]["cpp_wrappers"], *row["lookup"]["cuda_wrappers"]]
        absent = [name for name, _ in exports if getattr(module, name, None) is None]
        if absent or LOADED[-1].parent != root / row["folder"]:
            wrong.append(f"{row['kernel']}: {LOADED[-1]} lacks {absent}")
    return {"modules": len(rows), "loaded": len(set(LOADED)), "wrong": wrong, "refused": refused(rows[0]["lookup"])}


def load(spec: dict[str, Any], *other: str) -> Any:
    """SGLang's ``load_jit`` with the arguments that led to this build."""
    from sglang.kernels.jit.utils.arch import get_default_target_flags
    from sglang.kernels.jit.utils.compile import DEFAULT_CFLAGS, DEFAULT_INCLUDE, DEFAULT_LDFLAGS, load_jit

    return load_jit(
        *spec["module_args"],
        *other,
        cpp_files=spec["cpp_files"],
        cuda_files=spec["cuda_files"],
        cpp_wrappers=[tuple(one) for one in spec["cpp_wrappers"]],
        cuda_wrappers=[tuple(one) for one in spec["cuda_wrappers"]],
        extra_cflags=spec["cflags"][len(DEFAULT_CFLAGS) :],
        extra_cuda_cflags=spec["cuda_cflags"][len(get_default_target_flags()) :],
        extra_ldflags=spec["ldflags"][len(DEFAULT_LDFLAGS) :],
        extra_include_paths=spec["include_paths"][len(DEFAULT_INCLUDE) :],
        header_only=spec["header_only"],
    )


def refused(spec: dict[str, Any]) -> str:
    """What SGLang says to a module that the image has not."""
    try:
        load(spec, "other")
    except RuntimeError as error:
        return "forbids compiling" if "forbids compiling at" in str(error) else str(error)
    return ""
