"""Clock and power of a busy GPU: products of matrices in BF16 for some seconds, NVML read beside them."""

import sys
import threading
import time
from typing import Any

from gb10.inside.selftest.common import library, say

SIZE = 8192
LOOK = 0.2


def watch(nvml: Any, ended: threading.Event, found: list[tuple[int, float, int, int]]) -> None:  # noqa: ANN401
    """Clock in MHz, power in W, utilization in %, and the reasons for a lower clock, again and again."""
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    while not ended.wait(LOOK):
        clock = int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        power = nvml.nvmlDeviceGetPowerUsage(handle) / 1000
        use = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        reasons = int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        found.append((clock, power, use, reasons))


def main() -> None:
    """One line: medians of the second half."""
    torch, nvml = library("torch"), library("pynvml")
    seconds = float(sys.argv[1])
    one = torch.randn(SIZE, SIZE, dtype=torch.bfloat16, device="cuda")
    out = one @ one
    torch.cuda.synchronize()
    found: list[tuple[int, float, int, int]] = []
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(nvml, ended, found), daemon=True)
    thread.start()
    began, products = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(4):
            torch.matmul(one, one, out=out)
        torch.cuda.synchronize()
        products += 4
    took = time.perf_counter() - began
    ended.set()
    thread.join()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    late = found[len(found) // 2 :]
    middle = [sorted(column)[len(column) // 2] for column in zip(*late, strict=True)]
    say(
        "power",
        clock=middle[0],
        watts=middle[1],
        use=middle[2],
        reasons=sorted({one[3] for one in late}),
        most=int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        tflops=2 * SIZE**3 * products / took / 1e12,
        looks=len(found),
    )


if __name__ == "__main__":
    main()
