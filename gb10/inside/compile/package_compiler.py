"""Inside a build stage: one call of a compiler by a package's build: the arch put in, ccache before it, measured.

    package_compiler.py COMPILERS.json nvcc|cc|c++ ARGUMENTS...

A package's build chooses GPUs in many ways: a list of its own, a variable, the GPU of the machine. So nvcc's words for
them are replaced by the arch of the image here, where all ways meet. A call whose list has nothing that a GPU of this
arch runs is for other GPUs: it stays as its author wrote it, and FOREIGN notes its code, so that pack_package.py knows
whence it comes. Also replaced: the compiler that nvcc takes for host code, by the target's, and a C++ standard that is
older than the headers of torch need, by theirs. Several threads are left out: ccache gives up, and there is one arch.
"""

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

OF_ANOTHER = (
    *("-Xptxas", "-Xcompiler", "-Xcicc", "-Xlinker", "-Xnvlink", "-Xarchive", "-Xcudafe", "-Xfatbin"),
    *("-o", "-I", "-isystem", "-D", "-MF", "-MT", "--compiler-options"),
)
"""The word behind these is no option of nvcc itself."""
ARCHES = ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code")
HOST = ("-ccbin", "--compiler-bindir")
THREADS = ("-t", "--threads")
EXCHANGED = {
    "--generate-dependencies-with-compile": ["-MD"],
    "-dw": ["-c", "-rdc=false"],
    "--device-w": ["-c", "-rdc=false"],
    "--compiler-options": ["-Xcompiler"],
    "-lineinfo": [],
}
"""ccache gives up on the first three, and takes what follows the fourth for a source; the others say the same. The last
is for profilers, changes no instruction, and doubles ptxas' time."""
TO_PTX = ("-ptx", "--ptx")
COMPILES = ("-c", "--compile", "-dc", "--device-c", "-dw", "--device-w")
NATIVE = re.compile(r"-m(?:arch|cpu|tune)=native")
STANDARD = re.compile(r"(--?std=)?((?:c|gnu)\+\+)(0x|1y|1z|2a|2b|\d\d)")
DRAFTS = {"0x": 11, "1y": 14, "1z": 17, "2a": 20, "2b": 23, "98": 0, "03": 0}
"""C++ standards that do not sort as their numbers do."""
CODE = re.compile(r"\b(sm|compute|lto)_(\d+)(\d)([af]?)")
LINK = ("-Wl,--strip-all", "-Wl,--build-id=none", "-Wl,--as-needed")


def main() -> int:
    """Run the compiler; returns its exit code."""
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    kind, words = sys.argv[2], sys.argv[3:]
    native = next((word for word in words if NATIVE.fullmatch(word)), None)
    if native:
        print(f"error: {native} compiles for the machine that builds, not for the image's", file=sys.stderr)
        return 1
    words = with_standard(words, config["torch"], config["standard"])
    if kind == "nvcc":
        others = foreign(words, config["arch"])
        if others:
            note(Path(config["foreign"]), f"{' '.join(others)}\n")
        words = device_words(words, config, own=bool(others))
    elif "-shared" in words and not set(words) & {*COMPILES}:
        words = [*words, *LINK]
    return run([config[kind], *words], config["environment"])


def with_standard(words: Sequence[str], torch: str, least: int) -> list[str]:
    """The words of a call that reads torch's headers, with no older C++ than these need; it is printed.

    ``torch``: the folder of the headers. 0: they do not say what they need.
    """
    if not least or not any(torch in word for word in words):
        return [*words]
    made = [*words]
    for index, word in enumerate(words):
        found = STANDARD.fullmatch(word)
        if found is None or not (found[1] or words[index - 1 : index] in (["-std"], ["--std"])):
            continue
        if DRAFTS.get(found[3], int(found[3]) if found[3].isdecimal() else 0) < least:
            made[index] = f"{found[1] or ''}{found[2]}{least}"
            print(f"{found[2]}{found[3]} is compiled as {found[2]}{least}, which torch's headers need", file=sys.stderr)
    return made


def foreign(words: Sequence[str], arch: str) -> list[str]:
    """The code that a call is for, when it is for other GPUs alone: ``sm_100f``. None where it names no GPU."""
    named = [value for option, value in options_of(words) if option in ARCHES]
    codes = [code for value in named for code in CODE.finditer(value)]
    major, minor = (int(part) for part in arch.rstrip("af").split("."))
    if not codes or any(reaches(value, major, minor) for value in named):
        return []
    return sorted({code[0] for code in codes})


def reaches(value: str, major: int, minor: int) -> bool:
    """Whether a GPU runs code of one of nvcc's values: SASS of its major, or PTX without a suffix of any earlier GPU.

    ``-arch=sm_80`` keeps PTX beside the SASS.
    """
    keeps_ptx = "code=" not in value
    for code in CODE.finditer(value if keeps_ptx else value.partition("code=")[2]):
        kind, found, plain = code[1], (int(code[2]), int(code[3])), not code[4]
        if found[0] == major and found[1] <= minor:
            return True
        if (kind == "compute" or keeps_ptx) and plain and found <= (major, minor):
            return True
    return False


def options_of(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option that is written ``-x value`` or ``-x=value``, and its value."""
    skip = False
    for index, word in enumerate(words):
        if skip:
            skip = False
            continue
        name, equals, value = word.partition("=")
        if word in OF_ANOTHER:
            skip = True
        elif equals:
            yield name, value
        elif index + 1 < len(words):
            yield word, words[index + 1]


def device_words(words: Sequence[str], config: dict[str, Any], *, own: bool = False) -> list[str]:
    """nvcc's words: one arch, the target's host compiler, names that are the same in each run.

    ``own``: its own GPUs stay, as they do for PTX.
    """
    kept, index = list[str](), 0
    ptx = own or any(word in TO_PTX for word in words)
    dropped = (*HOST, *THREADS, *(() if ptx else ARCHES))
    while index < len(words):
        word = words[index]
        if word in OF_ANOTHER:
            kept += [*EXCHANGED.get(word, [word]), *words[index + 1 : index + 2]]
            index += 2
        elif word in dropped:
            index += 2
        elif word.partition("=")[0] in dropped:
            index += 1
        else:
            kept += EXCHANGED.get(word, [word]) if word not in COMPILES or word not in kept else []
            index += 1
    made = output(kept)
    seed = ["-objtemp", f"-frandom-seed={made}"] if made else []
    return ["-ccbin", config["c++"], *([] if ptx else [config["gencode"]]), *kept, *seed]


def output(words: Sequence[str]) -> str:
    """The object that a call compiles; empty for another kind of call."""
    if not set(words) & {*COMPILES} or "-o" not in words[:-1]:
        return ""
    return words[list(words).index("-o") + 1]


def run(argv: list[str], settings: dict[str, str]) -> int:
    """Run it; a compile goes through GB10_CCACHE, and its cost into GB10_LAUNCH_LOG, as launch.py has it."""
    made = output(argv)
    ccache = os.environ.get("GB10_CCACHE") if made else None
    begin = time.monotonic()
    code = subprocess.run(
        [*([ccache] if ccache else []), *argv], env={**os.environ, **settings}, check=False
    ).returncode
    if code:
        print("called: " + " ".join(argv), file=sys.stderr)
    if made:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        line = {
            "object": str(Path(made).absolute()),
            "wall_s": round(time.monotonic() - begin, 2),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "peak_kib": usage.ru_maxrss,
        }
        note(Path(settings["GB10_LAUNCH_LOG"]), f"{json.dumps(line)}\n")
    return code


def note(path: Path, line: str) -> None:
    """Append a line, whole: compilers run at the same time."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, line.encode())
    os.close(log)


if __name__ == "__main__":
    sys.exit(main())
