"""vLLM's two largest targets compiled for 12.1f, in an image: loaded under qemu, with our kernels in them. An hour."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gb10.containers.connection import Engine
from gb10.core.fetch import store_paths
from gb10.core.proc import capture
from gb10.core.store import Store
from gb10.errors import BuildError
from gb10.image.build.stage import log_path
from gb10.image.build.wheels import wheel_file
from gb10.image.context import open_context
from gb10.image.locked_files import fetch_files
from gb10.image.plan.catalog import ROOT
from gb10.image.proof.reading import scan_path
from gb10.image.request.planning import Request, make_plan
from gb10.inside.compile.markers import kernels_of
from tests.e2e.image import build, run_python
from tests.integration.pinned import pinned
from tests.integration.test_targets import compiled as compile_targets
from tests.integration.test_targets import plan_of

pytestmark = pytest.mark.e2e

TARGETS = ("_C_stable_libtorch", "_moe_C_stable_libtorch")
OTHERS = {
    f"_C::{name}"
    for name in ("beam_allreduce", "beam_allreduce_norm", "kimi_k3_attn_res", "mxfp4_experts_quant_supported")
}
"""What vLLM's own CMake compiles for 9.0 and 10.x alone; its Python asks for them on such devices."""
SCRIPT = Path(__file__).parent / "inside/compiled_ops.py"
NESTED, LOADED = "_qutlass_C", Path(__file__).parent / "inside/loaded_ops.py"


@pytest.fixture(scope="module")
def compiled() -> dict[str, object]:
    return build("--engine", "vllm", "--arch", "12.1f", "--targets", ",".join(TARGETS))


def asked(engine: Engine, image: dict[str, Any], emulator: Path) -> dict[str, Any]:
    text = run_python(engine, image["tags"][-1], emulator, "/asked.py", files={SCRIPT: "/asked.py"})
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def ours(engine: Engine, compiled: dict[str, Any], emulator: Path) -> dict[str, Any]:
    return asked(engine, compiled, emulator)


@pytest.fixture(scope="module")
def upstreams(engine: Engine, image: dict[str, Any], emulator: Path) -> dict[str, Any]:
    return asked(engine, image, emulator)


def test_the_library_itself_says_that_it_has_the_kernel_for_gb10(
    ours: dict[str, Any], upstreams: dict[str, Any]
) -> None:
    assert upstreams["grouped"] == [90, 100, 103, 110]
    assert ours["grouped"] == [120, 121]  # compiled for this family alone


def test_every_operator_of_upstreams_wheel_is_there(ours: dict[str, Any], upstreams: dict[str, Any]) -> None:
    """Those that a library for one family cannot have are named."""
    assert set(upstreams["operators"]) - set(ours["operators"]) == OTHERS
    assert set(ours["operators"]) <= set(upstreams["operators"])


def test_they_are_a_fraction_of_upstreams(ours: dict[str, Any], upstreams: dict[str, Any]) -> None:
    assert all(ours["files"][name] < size / 2 for name, size in upstreams["files"].items())


def test_no_kernel_of_ours_is_a_stub(store: Store, compiled: dict[str, Any], tmp_path: Path) -> None:
    """vLLM compresses its fatbins: NVIDIA's own tool takes the cubins out."""

    plan = make_plan(open_context(os.environ, verbosity=-1), Request(engine="vllm", arch="12.1f", targets=TARGETS))
    assert compiled["tags"][-1].endswith(plan.key[:12])
    with zipfile.ZipFile(wheel_file(store.entry("wheels", plan.step("vllm").key))) as archive:
        library = archive.extract("vllm/_C_stable_libtorch.abi3.so", tmp_path)
    tools = pinned("cuda-tools", ROOT / "tests/integration/cuda-tools.txt") / "nvidia/cu13/bin"
    capture([str(tools / "cuobjdump"), "-xelf", "all", library], cwd=tmp_path)
    kernels = [kernels_of(cubin.read_bytes()) for cubin in tmp_path.glob("*.sm_120*.cubin")]
    ours = [
        counts
        for found in kernels
        for name, counts in found.items()
        if "GroupProblemShape" in name and not counts["OMMA"]
    ]  # vLLM's own for groups are NVFP4 alone
    assert len(ours) == 16
    assert all(counts["QMMA"] >= 32 and counts["UTMALDG"] == 2 and not counts["BPT"] for counts in ours)


def refusal(target: str) -> str:
    """The log of the compile stage that refused a target."""
    ctx = open_context(os.environ, verbosity=0)
    plan = plan_of(ctx, [target])
    with pytest.raises(BuildError):
        compile_targets(ctx, plan)
    return log_path(ctx.store, plan.step("vllm")).read_text(encoding="utf-8")


def test_a_target_that_the_project_has_not_is_told_with_those_it_has() -> None:
    log = refusal("_C_no_such")
    assert "the project has no target _C_no_such; known: " in log
    assert "_C_stable_libtorch" in log
    assert "git repository of its own: deepgemm, " in log


@pytest.fixture(scope="module")
def qutlass() -> dict[str, Any]:
    """The image with QuTLASS compiled here, from its git host."""
    return build("--engine", "vllm", "--arch", "12.1f", "--targets", NESTED)


def test_a_nested_project_from_git_loads_with_every_operator_of_upstreams(
    engine: Engine, image: dict[str, Any], qutlass: dict[str, Any], emulator: Path
) -> None:
    found = [
        json.loads(
            run_python(engine, made["tags"][-1], emulator, "/ops.py", NESTED, files={LOADED: "/ops.py"}).splitlines()[
                -1
            ]
        )
        for made in (image, qutlass)
    ]
    assert len(found[0]) == 9
    assert found[0] == found[1]


def test_upstreams_holds_nothing_that_gb10_can_launch_and_ours_nothing_else(
    store: Store, qutlass: dict[str, Any], tmp_path: Path
) -> None:
    ctx = open_context(os.environ, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f", targets=(NESTED,)))
    assert qutlass["tags"][-1].endswith(plan.key[:12])
    fetch_files(ctx, [plan.step("graft-vllm")])  # a graft that is there already fetches nothing
    wheels = {
        "upstream": store_paths(ctx.store, plan.step("graft-vllm").files)[0],
        "ours": wheel_file(store.entry("wheels", plan.step("vllm").key)),
    }
    codes = {}
    for name, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(f"vllm/{NESTED}.abi3.so", tmp_path / name)
        (binary,) = scan_path(tmp_path / name).binaries
        codes[name] = {code for code, count in binary.codes.items() if count}
    assert codes == {"upstream": {"sm_100f"}, "ours": {"sm_120f"}}


def test_a_target_of_a_project_that_is_not_handed_in_is_told_with_the_lines_to_paste() -> None:
    log = refusal("_flashkda_C")
    assert "_flashkda_C is a target of flashkda, a git repository of its own: https://github.com/" in log
    assert "nested: {flashkda: [_flashkda_C]}" in log
