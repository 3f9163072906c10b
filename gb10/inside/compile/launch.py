"""Inside a build stage: one compiler call, through ccache when GB10_CCACHE names it, measured into GB10_LAUNCH_LOG.

Words for nvcc are exchanged. ``--generate-dependencies-with-compile`` makes ccache give up; its synonym ``-MD`` does
not. ``-lineinfo`` is for profilers: it changes no instruction, and doubles ptxas' time on the largest unit. ``-O3`` is
the host compiler's alone (nvcc's documentation, ``--optimize``): what checks arguments and launches kernels gains
nothing from it, and takes half as long again as with ``-O1``. ``-frandom-seed`` is added: else nvcc names what is local
to some units after its own process id, and each compile gives other bytes.
"""

import json
import os
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

OF_ANOTHER = ("-Xptxas", "-Xcompiler", "-Xcicc", "-Xlinker")  # the word behind is for another program
NVCC = {"--generate-dependencies-with-compile": ("-MD",), "-lineinfo": (), "-O3": ("-O1",)}


def main() -> int:
    """Run argv; append one line: object, seconds of wall and CPU, peak RSS in KiB of the largest process."""
    nvcc = Path(sys.argv[1]).name == "nvcc"
    argv = [new for before, word in pairwise(sys.argv) for new in passed(before, word, NVCC if nvcc else {})]
    made = argv[argv.index("-o") + 1]
    argv += [f"-frandom-seed={made}"] if nvcc else []
    ccache = os.environ.get("GB10_CCACHE")
    begin = time.monotonic()
    code = subprocess.run([ccache, *argv] if ccache else argv, check=False).returncode
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = {
        "object": made,
        "wall_s": round(time.monotonic() - begin, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_kib": usage.ru_maxrss,
    }
    log = os.open(os.environ["GB10_LAUNCH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{json.dumps(line)}\n".encode())
    os.close(log)
    return code


def passed(before: str, word: str, exchanged: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What becomes of a word of the command line, given the one before it."""
    return (word,) if before in OF_ANOTHER else exchanged.get(word, (word,))


if __name__ == "__main__":
    sys.exit(main())
