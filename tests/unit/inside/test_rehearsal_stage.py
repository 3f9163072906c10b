"""The stage of a rehearsal: the layer that it leaves, and what is left of one whose process dies."""

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gb10.image.plan.catalog import ROOT
from gb10.inside.rehearse import rehearsal
from gb10.inside.scan.sealed import FOLDERS, broken

KEY = "K" * 52
REPORT: rehearsal.Report = {"stopped": None, "made": [{"kernel": "a:b"}], "left": [], "flashinfer": [], "zeroed": {}}


@pytest.fixture(name="work")
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stage's folders below a temporary one, with one kernel in Triton's cache."""
    monkeypatch.setattr(rehearsal, "WORK", tmp_path / "work")
    monkeypatch.setattr(rehearsal, "CACHES", tmp_path / FOLDERS)
    kernel = tmp_path / FOLDERS / "triton" / KEY
    kernel.mkdir(parents=True)
    (kernel / "one.cubin").write_bytes(b"cubin")
    (kernel / "one.cubin").chmod(0o600)
    (kernel / "lock").touch()
    (kernel / "tmp.pid_1_x").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def scripts(work: Path, text: str) -> Path:
    """A folder of scripts in which the rehearsal is this text."""
    path = work / f"scripts/{rehearsal.REHEARSE.replace('.', '/')}.py"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return work / "scripts"


def test_the_report_is_what_the_process_wrote(work: Path) -> None:
    text = f"import sys; open(sys.argv[2], 'w').write({json.dumps(REPORT)!r})"
    assert rehearsal.run_rehearsal(scripts(work, text), dict(os.environ)) == REPORT
    assert (work / FOLDERS / "triton" / KEY / "one.cubin").exists()


@pytest.mark.parametrize("text", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_a_process_that_dies_leaves_no_kernel_and_a_report_that_says_so(work: Path, text: str) -> None:
    report = rehearsal.run_rehearsal(scripts(work, text), dict(os.environ))
    assert str(report["stopped"]).startswith("its process ended with ")
    assert report["made"] == []
    assert not (work / FOLDERS / "triton").exists()


def test_the_layer_has_whole_kernels_their_hashes_the_report_and_the_manager(work: Path) -> None:
    manager = work / "gb10_caches.py"
    manager.touch()
    out = work / "out"
    rehearsal.write_layer(out, "triton")
    rehearsal.write_report(out, REPORT, manager, Path("/usr/local/lib/python3.13/dist-packages"))
    rehearsal.clamp(out, 1_700_000_000)
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert files == [
        "usr/local/lib/python3.13/dist-packages/gb10_caches.py",
        f"{FOLDERS}/report.json",
        f"{FOLDERS}/triton/{KEY}/one.cubin",
        f"{FOLDERS}/triton/SHA256SUMS",
    ]
    assert list(broken(out)) == []
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in out.rglob("*") if path.is_file())
    assert {path.stat().st_mtime for path in out.rglob("*")} == {1_700_000_000}


def test_the_plugin_is_a_distribution_that_vllm_finds(work: Path) -> None:
    rehearsal.write_plugin(work / "site", ROOT / "gb10/inside/rehearse" / rehearsal.PLUGIN)
    (found,) = importlib.metadata.distributions(path=[str(work / "site")])
    assert (found.name, found.version) == ("gb10-b12x", "1")
    assert [(one.group, one.value) for one in found.entry_points] == [("vllm.general_plugins", "gb10_b12x:register")]
    assert found.files is not None
    assert all(Path(path.locate()).is_file() for path in found.files)
    assert len(found.files) == 4


def test_a_cache_in_which_nothing_was_made_is_an_empty_list(work: Path) -> None:
    rehearsal.write_layer(work / "out", "modules")
    assert (work / "out" / FOLDERS / "modules/SHA256SUMS").read_bytes() == b""
    assert list(broken(work / "out")) == []


def test_packages_of_the_image_come_where_this_machine_has_none(work: Path) -> None:
    image, own = work / "image", work / "own"
    for path in (image / "vllm", image / "vllm-1.dist-info", image / "torch", own / "torch"):
        path.mkdir(parents=True)
    rehearsal.link_packages(image, own, ["vllm", "torch"])
    assert (own / "vllm").readlink() == image / "vllm"
    assert (own / "vllm-1.dist-info").is_symlink()
    assert not (own / "torch").is_symlink()


def test_an_image_without_a_compiler_is_told_and_the_rehearsal_goes_on(work: Path) -> None:
    (work / "image/usr/bin").mkdir(parents=True)
    options = argparse.Namespace(image=work / "image", site=work / "own", scripts=work, cxx="c++")
    assert "not known" in str(rehearsal.toolchain(options, work / "image")["unknown"])


def test_compilers_wait_for_the_memory_of_their_module(work: Path) -> None:
    """The wrapper of ccache has the pool's jobs and slots, and each module's memory."""
    (work / rehearsal.SLOTS).parent.mkdir(parents=True)
    shutil.copy(ROOT / rehearsal.SLOTS, work / rehearsal.SLOTS)
    (work / "peaks.json").write_text('{"peaks": {"gemm": 8451}, "units": {}, "other": 1024}')
    given = rehearsal.slots_environment(work)
    tools = work / "tools"
    tools.mkdir()
    (tools / "ccache").write_text("#!/bin/sh\necho compiled $*\n")
    (tools / "ccache").chmod(0o755)
    argv = [given["GB10_CCACHE"], "nvcc", "-o", "/modules/gemm/build-1/.work/cuda_0.o"]
    ended = subprocess.run(argv, env={"PATH": f"{tools}:{os.defpath}"}, check=True, capture_output=True, text=True)
    assert ended.stdout == f"compiled {' '.join(argv[1:])}\n"
    assert len([*(work / "work/pool/jobs").iterdir()]) == os.cpu_count()
    assert [*(work / "work/pool/slots").iterdir()]
    assert json.loads((work / "work/slots/peaks.json").read_text())["peaks"] == {"gemm": 8451}


def test_nvcc_finds_the_headers_of_the_image_from_its_own_folder(work: Path) -> None:
    own, image = work / "own", work / "image"
    for path in (own / "bin", own / "nvvm/bin", own / "include", image / "include/cccl"):
        path.mkdir(parents=True)
    (own / "bin/nvcc").touch()
    home = rehearsal.cuda_home(own, image)
    assert (home / "bin/nvcc").resolve() == own / "bin/nvcc"
    assert Path(os.path.realpath(f"{home}/bin/../include/cccl")) == image / "include/cccl"
    assert Path(os.path.realpath(f"{home}/bin/../nvvm/bin")) == own / "nvvm/bin"


def test_modules_come_from_a_compile_cache(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a compiler is in ccache's key. No path is made relative: SGLang reads the list of files."""
    driver = work / "c++"  # says where its programs lie
    driver.write_text("#!/bin/sh\necho /bin/sh\n")
    driver.chmod(0o755)
    missing = rehearsal.cache_environment(work / "cuda", str(driver))
    assert missing == {"CCACHE_DISABLE": "1"}
    for name in ("bin/cudafe++", "bin/fatbinary", "bin/nvcc.profile", "bin/ptxas", "nvvm/bin/cicc"):
        (work / "cuda" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "cuda" / name).touch()
    (work / "cuda/nvvm/libdevice").mkdir()
    (work / "cuda/nvvm/libdevice/libdevice.10.bc").touch()
    given = rehearsal.cache_environment(work / "cuda", str(driver))
    assert (given["CCACHE_DIR"], given["CCACHE_COMPILERCHECK"]) == ("/ccache", "content")
    assert str(work / "cuda/nvvm/bin/cicc") in given["CCACHE_EXTRAFILES"]
    assert not {"CCACHE_BASEDIR", "CCACHE_RECACHE", "GB10_LAUNCH_LOG"} & given.keys()
    monkeypatch.setenv("REBUILD", "run")
    assert rehearsal.cache_environment(work / "cuda", str(driver)) == {**given, "CCACHE_RECACHE": "1"}
