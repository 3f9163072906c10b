"""Inside a build stage: one compiler call, through ccache when GB10_CCACHE names it, measured into GB10_LAUNCH_LOG.

nvcc's ``--generate-dependencies-with-compile`` makes ccache give up; its synonym ``-MD`` is cached. ``-lineinfo`` is
for profilers: it changes no instruction, and ptxas takes twice as long with it on the largest unit (cub_topk.cu).
"""

import json
import os
import resource
import subprocess
import sys
import time


def main() -> int:
    """Run argv; append one line: object, seconds of wall and CPU, peak RSS in KiB of the largest process."""
    argv = ["-MD" if word == "--generate-dependencies-with-compile" else word for word in sys.argv[1:]]
    argv = [word for word in argv if word != "-lineinfo"]
    ccache = os.environ.get("GB10_CCACHE")
    begin = time.monotonic()
    code = subprocess.run([ccache, *argv] if ccache else argv, check=False).returncode
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = {
        "object": argv[argv.index("-o") + 1],
        "wall_s": round(time.monotonic() - begin, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_kib": usage.ru_maxrss,
    }
    log = os.open(os.environ["GB10_LAUNCH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{json.dumps(line)}\n".encode())
    os.close(log)
    return code


if __name__ == "__main__":
    sys.exit(main())
