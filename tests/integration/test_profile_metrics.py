"""The metrics of a profile are NVIDIA's for the chip: asked of CUPTI's own list, which needs no GPU and no driver."""

import ctypes as c
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gb10.image.gemm.ncu_profile import COMMON, metrics_of

pytestmark = pytest.mark.integration
CHIPS = {"12.1": ("GB20B",), "12.0": ("GB202", "GB203", "GB205", "GB206", "GB207")}
"""By compute capability. Section files of ncu 2025.3.1 call GB20B CC_121."""
INVALID = 8
"""What the list answers for a name that it has not."""


def record(*fields: tuple[str, Any]) -> type[Any]:
    """A structure of NVIDIA's nvperf_host.h: its size and a pointer that stays empty come first."""
    return type("Record", (c.Structure,), {"_fields_": [("size", c.c_size_t), ("private", c.c_void_p), *fields]})


def call(library: c.CDLL, name: str, kind: type[Any], **values: object) -> tuple[int, Any]:
    made = kind(size=c.sizeof(kind), **values)
    return getattr(library, name)(c.byref(made)), made


SIZE = record(("chip", c.c_char_p), ("image", c.c_void_p), ("bytes", c.c_size_t))
START = record(
    ("buffer", c.c_void_p),
    ("bytes", c.c_size_t),
    ("chip", c.c_char_p),
    ("image", c.c_void_p),
    ("data", c.c_void_p),
    ("data_bytes", c.c_size_t),
    ("evaluator", c.c_void_p),
)
ASK = record(("evaluator", c.c_void_p), ("metric", c.c_char_p), ("request", c.c_void_p), ("request_bytes", c.c_size_t))
REQUEST_BYTES = 12


@contextmanager
def evaluator(library: c.CDLL, chip: str) -> Iterator[int]:
    """NVIDIA's list of one chip."""
    code, size = call(library, "NVPW_CUDA_MetricsEvaluator_CalculateScratchBufferSize", SIZE, chip=chip.encode())
    assert code == 0
    buffer = c.create_string_buffer(size.bytes)
    at = c.addressof(buffer)
    values = {"buffer": at, "bytes": size.bytes, "chip": chip.encode()}
    code, started = call(library, "NVPW_CUDA_MetricsEvaluator_Initialize", START, **values)
    assert code == 0
    yield started.evaluator


def known(library: c.CDLL, chip: str, names: tuple[str, ...]) -> set[str]:
    """Those of some metrics that a chip has."""
    request = c.create_string_buffer(16)
    found = set()
    with evaluator(library, chip) as at:
        for name in names:
            values = {"evaluator": at, "metric": name.encode(), "request": c.addressof(request)}
            code, _ = call(
                library,
                "NVPW_MetricsEvaluator_ConvertMetricNameToMetricEvalRequest",
                ASK,
                request_bytes=REQUEST_BYTES,
                **values,
            )
            assert code in (0, INVALID)
            found |= {name} if code == 0 else set()
    return found


@pytest.fixture(scope="module")
def library(cuda_tools: Path) -> c.CDLL:
    found = c.CDLL(str(cuda_tools / "lib/libnvperf_host.so"))
    assert call(found, "NVPW_InitializeHost", record())[0] == 0
    return found


@pytest.mark.parametrize(("capability", "chip"), [(one, chip) for one, chips in CHIPS.items() for chip in chips])
def test_every_metric_is_one_of_the_chip(library: c.CDLL, capability: str, chip: str) -> None:
    assert known(library, chip, metrics_of(capability)) == set(metrics_of(capability))


def test_a_gb10_has_no_counter_of_its_dram_and_other_chips_have(library: c.CDLL) -> None:
    """Delete the metrics that stand in for it once this fails."""
    names = ("dram__bytes.sum", "dram__bytes_read.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed")
    assert known(library, "GB20B", names) == set()
    assert "dram__bytes.sum" in known(library, "GB202", names)
    assert known(library, "GB20B", ("no__such_metric.sum",)) == set()
    assert known(library, "GB20B", COMMON) == set(COMMON)
