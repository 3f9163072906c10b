"""The whole benchmark, by the command that its help names: minutes of compiling, so apart from `make test`."""

import json
import os
import stat
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gb10.core.proc import capture
from gb10.image.build.bases import for_add, make_rootfs
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.plan.catalog import ROOT
from gb10.image.proof.reading import scan_path
from gb10.image.request.planning import Request, make_plan
from tests.integration.disassembly import disassembled
from tests.integration.pinned import cuda_prefix
from tests.integration.test_bench import built, planned
from tests.integration.test_bench import ctx as ctx  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.e2e
OLDEST_GLIBC = (2, 39)  # of Ubuntu 24.04, which a Spark's own system is
KERNELS, FP8_KERNELS = 6, 2


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    text = capture([sys.executable, str(ROOT / "build.py"), "bench", "gemm", "--json", "--quiet"], env=os.environ)
    found: dict[str, Any] = json.loads(text)
    return found


def test_every_kernel_fits_and_scales_lie_where_the_reference_reads_them(document: dict[str, Any]) -> None:
    sizes = [check for check in document["checks"] if check["kind"] == "size"]
    assert len({check["kernel"] for check in sizes}) == KERNELS
    assert sum(check["kind"] == "instructions" for check in document["checks"]) == KERNELS
    assert all(check["ok"] for check in document["checks"])


def test_nvidias_own_tool_counts_the_same_products(document: dict[str, Any]) -> None:
    ours = {check["kernel"]: check["counts"] for check in document["checks"] if check["kind"] == "instructions"}
    theirs = disassembled(cuda_prefix(), Path(document["path"]))
    assert ours == {name: theirs[name] for name in ours}
    products = Counter(one for counts in ours.values() for one in ("QMMA", "OMMA") if counts.get(one))
    assert products == {"QMMA": FP8_KERNELS, "OMMA": KERNELS - FP8_KERNELS}


def test_a_machine_that_is_no_target_says_so(document: dict[str, Any]) -> None:
    if document["gpu"]:
        assert document["times"]
    else:
        assert document["not_run"]
        assert not document["times"]


def test_the_program_needs_nothing_but_the_system(document: dict[str, Any]) -> None:
    """No CUDA, no C++ library: it is copied to a Spark as it is. The driver is asked for when it runs."""
    path = Path(document["path"])
    (binary,) = scan_path(path).binaries
    assert {name.partition(".so")[0] for name in binary.needed} <= {
        "libc",
        "libdl",
        "libm",
        "libpthread",
        "librt",
        "ld-linux-aarch64",
    }
    assert path.stat().st_mode & stat.S_IXUSR
    assert tuple(map(int, binary.versions["GLIBC"].split("."))) <= OLDEST_GLIBC


@pytest.fixture(scope="module")
def emulated(emulator: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How this machine runs a program of the target: as it is, or under qemu with the cross compiler's libc."""
    if build_architecture() == "arm64":
        return []
    ctx = open_context(os.environ, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    root = tmp_path_factory.mktemp("cross")
    for_add(make_rootfs(ctx, plan, plan.step("base-build")))(root / "base.tar")
    with tarfile.open(root / "base.tar") as tar:
        members = [member for member in tar if "usr/aarch64-linux-gnu/lib" in member.name]
        tar.extractall(root, members, filter="tar")
    return [str(emulator), "-L", str(root / "usr/aarch64-linux-gnu")]


def test_it_starts_where_there_is_no_driver(document: dict[str, Any], emulated: list[str]) -> None:
    lines = [json.loads(line) for line in capture([*emulated, document["path"]]).splitlines()]
    host = ("formats", "scales", "size")
    assert lines[-1]["kind"] in ("time", "not-run")
    if emulated:
        assert lines[-1]["why"].startswith("no NVIDIA driver here")
    assert [line for line in lines if line["kind"] in host] == [
        line for line in document["checks"] if line["kind"] in host
    ]


def test_a_program_for_this_machine_checks_itself(ctx: Context) -> None:
    """In the compile stage, whose C library is as new as it wants."""
    program = built(ctx, planned(ctx, "12.0f", build_architecture()))
    assert [line["kind"] for line in program.checks] == ["formats", "scales", "scales", "scales", "size"]
    assert all(line["ok"] for line in program.checks)
