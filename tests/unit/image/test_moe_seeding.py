"""``moe seed`` asks a release's own functions: one that fails, is absent or reads another place is never "it fits"."""

from pathlib import Path

import pytest

from gb10.cli.look.moe_show import shape_from_options
from gb10.errors import UsageError
from gb10.image.context import open_context
from gb10.image.moe.release_lookups import SITE, Judge
from gb10.image.moe.seeding import Model, check_read, folder_of, make_seed
from gb10.image.moe.tuned_name import read_table
from gb10.image.moe.tuning import make_job
from gb10.image.plan.catalog import ROOT

HOME = "sglang/srt/layers/moe/fused_moe_triton"
KERNEL = "import triton\n\n@triton.jit\ndef fused_moe_kernel({keys}):\n    pass\n"
KEYS = "BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M"
MODULE = """
import json
import os

def get_config_dtype_str(dtype):
    return "fp8_w8a8"

def get_config_file_name(E, N, dtype, block_shape=None):
    return f"E={E},N={N},device_name=NVIDIA_GB10,dtype={dtype}.json"

def get_moe_configs(E, N, dtype, block_n=0, block_k=0):
    root = os.environ.get("SGLANG_MOE_CONFIG_DIR", "")
    path = os.path.join(root, "configs", "FOLDER", get_config_file_name(E, N, dtype))
    if os.path.exists(path):
        with open(path) as file:
            return {int(key): row for key, row in json.load(file).items()}
    return None

def get_default_config(M):
    wide = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 32}
    return {**wide, "num_warps": 8, "num_stages": 4} if M > 16 else {**wide, "BLOCK_SIZE_N": 64, "num_stages": 3}

def try_get_optimal_moe_config(w1, w2, top_k, dtype, M, is_marlin=False, block_shape=None, return_down_config=False):
    LINE
    return get_default_config(M)
"""


def judge(tmp_path: Path, *, line: str = "pass", keys: str = KEYS, folder: str = "triton_3_5_1") -> Judge:
    """A small release of SGLang's shape, whose functions know fewer parameters than today's."""
    site = tmp_path / "release" / SITE / HOME
    site.mkdir(parents=True)
    module = MODULE.replace("LINE", line).replace("FOLDER", folder)
    (site / "fused_moe_triton_config.py").write_text(module, encoding="utf-8")
    (site / "fused_moe_triton_kernels.py").write_text(KERNEL.format(keys=keys), encoding="utf-8")
    return Judge(
        host=open_context({"GB10_CACHE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)}, verbosity=-1),
        engine="sglang",
        version="0.5.4.post2",
        triton="3.5.1",
        table=read_table(ROOT, "sglang"),
        files=tmp_path / "release",
    )


def model(dtype: str = "fp8_w8a8", *, per_channel: bool = False) -> Model:
    meant = shape_from_options(16, 384, dtype, None, per_channel=per_channel)
    return Model(meant=meant, hidden=4096, topk=8, group=128)


def test_functions_that_know_fewer_parameters_are_asked(tmp_path: Path) -> None:
    release = judge(tmp_path)
    made, job = make_job(release, release, model(), (1, 131_072, 17, 16, 1), 1 << 30)
    assert {size: row["BLOCK_SIZE_N"] for size, row in job.defaults.items()} == {1: 64, 16: 64, 17: 256, 131_072: 256}
    assert Path(job.source).name == "fused_moe_triton_kernels.py"
    assert [(span.first, span.last, span.shared, span.is_default) for span in made.spans] == [
        (1, 16, 49_152, True),
        (17, 131_072, 147_456, False),
    ]
    assert made.needed
    assert made.differing == 0
    check_read(release, model(), made, tmp_path / "read")


@pytest.mark.parametrize("line", ["raise ValueError('no such thing')", "assert M <= 64, 'no such thing'"])
def test_a_question_that_fails_is_an_error_and_never_fits(tmp_path: Path, line: str) -> None:
    release = judge(tmp_path, line=line)
    with pytest.raises(UsageError, match="is not known: it failed") as caught:
        make_seed(release, release, model(), tmp_path / "work")
    assert "no such thing" in (caught.value.where or "")


def test_a_release_that_would_not_read_the_file_is_refused(tmp_path: Path) -> None:
    release = judge(tmp_path, folder="triton_3_4_0")
    made = make_seed(release, release, model(), tmp_path / "work")
    with pytest.raises(UsageError, match=r"sglang 0\.5\.4\.post2 would not read E=16,N=384") as caught:
        check_read(release, model(), made, tmp_path / "read")
    assert "opened no file" in (caught.value.where or "")


def test_what_decides_the_file_and_is_not_known_is_refused(tmp_path: Path) -> None:
    release = judge(tmp_path)
    with pytest.raises(UsageError, match="has no default for dtype=fp8_w8a8") as caught:
        make_seed(release, release, model(per_channel=True), tmp_path / "work")
    assert "takes no per_channel_quant" in (caught.value.where or "")


def test_a_release_without_the_look_up_or_its_kernel_is_refused(tmp_path: Path) -> None:
    release = judge(tmp_path)
    (release.files / SITE / HOME / "fused_moe_triton_kernels.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no kernel of sglang"):
        make_seed(release, release, model(), tmp_path / "work")
    (release.files / SITE / HOME / "fused_moe_triton_config.py").unlink()
    with pytest.raises(UsageError, match="has no look-up of tuned files that gb10 knows"):
        make_seed(release, release, model(), tmp_path / "again")


@pytest.mark.parametrize(("triton", "compiles"), [("3.4.0", False), ("3.5.0", True), ("3.8.0", True), ("", True)])
def test_a_triton_that_has_no_gb10_is_known(tmp_path: Path, triton: str, compiles: bool) -> None:
    release = judge(tmp_path)
    made = Judge(**{name: getattr(release, name) for name in release.__slots__} | {"triton": triton})
    assert made.compiles is compiles
    assert folder_of(release, Path("/t")) == Path("/t/configs/triton_3_5_1")


def test_the_block_of_scales_is_part_of_the_question(tmp_path: Path) -> None:
    release = judge(tmp_path, line="assert block_shape == [128, 128]")
    meant = shape_from_options(16, 384, "fp8_w8a8", "128x128", per_channel=False)
    wanted = Model(meant=meant, hidden=4096, topk=8, group=128)
    assert make_job(release, release, wanted, (1,), 1 << 30)[1].defaults
    with pytest.raises(UsageError):
        make_job(release, release, model(), (1,), 1 << 30)
