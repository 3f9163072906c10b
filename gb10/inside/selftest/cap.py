"""An allocation beyond PyTorch's cap is refused, and the process and the machine go on."""

import sys

from gb10.inside.selftest.common import library, say

STEP = 256 << 20


def available() -> int:
    """MiB of memory that the machine has left."""
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 - no more than this
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable"))


def main() -> None:
    """One line. The cap is a share of the GPU's memory, set as ``run`` sets it: by the environment."""
    torch = library("torch")
    share = float(sys.argv[1])
    free, total = torch.cuda.mem_get_info()
    allowed, before = share * total, available()
    if free < allowed + (2 << 30):
        say("cap", why=f"{free >> 20} MiB are free, the cap alone is {int(allowed) >> 20} MiB: others use the GPU")
        return
    held: list[object] = []
    refused = ""
    try:
        while len(held) * STEP < allowed + (1 << 30):
            held.append(torch.empty(STEP, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        refused = str(error).partition(". ")[0]
    given = len(held) * STEP
    held.clear()
    torch.cuda.empty_cache()
    one = torch.eye(512, device="cuda")
    say(
        "cap",
        allowed=int(allowed),
        given=given,
        refused=refused,
        goes_on=bool((one @ one).sum().item() == 512),
        before=before,
        after=available(),
    )


if __name__ == "__main__":
    main()
