"""What a compiler of a package's build is called with, whatever the build asked for."""

import json
import sys
from pathlib import Path

import pytest

from gb10.inside.compile import package_compiler
from gb10.inside.compile.package_compiler import device_words, foreign, output

CONFIG = {"c++": "cross-g++", "gencode": "-gencode=arch=compute_121a,code=sm_121a"}
ALL = "-gencode arch=compute_75,code=sm_75 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_120,code=sm_120"


def called(text: str) -> list[str]:
    return device_words(text.split(), CONFIG)


@pytest.mark.parametrize(
    "asked",
    [
        ALL,
        "-gencode=arch=compute_121,code=sm_121",
        "--generate-code arch=compute_120,code=[sm_120,compute_120]",
        "-arch=sm_120 -code=sm_120",
        "--gpu-architecture sm_121",
        "--threads 4 -t 8 --threads=2",
        "-ccbin /build/bin/cc",
        "--compiler-bindir=/usr/bin/g++",
        "",
    ],
)
def test_one_arch_one_host_compiler_and_no_threads_come_out(asked: str) -> None:
    found = called(f"-I/a {asked} -c a.cu -o a.o")
    assert found[:3] == ["-ccbin", "cross-g++", CONFIG["gencode"]]
    assert found[3:] == ["-I/a", "-c", "a.cu", "-o", "a.o", "-objtemp", "-frandom-seed=a.o"]


def test_words_for_other_programs_stay_as_they_are() -> None:
    found = called("-Xcompiler -arch -Xptxas -t -D arch=1 --compiler-options -fPIC -c a.cu -o a.o")
    assert found[3:-2] == [
        "-Xcompiler",
        "-arch",
        "-Xptxas",
        "-t",
        "-D",
        "arch=1",
        "-Xcompiler",
        "-fPIC",
        "-c",
        "a.cu",
        "-o",
        "a.o",
    ]


def test_what_ccache_cannot_take_is_exchanged() -> None:
    found = called("--generate-dependencies-with-compile --dependency-output a.d -lineinfo -c -c a.cu -o a.o")
    assert found[3:-2] == ["-MD", "--dependency-output", "a.d", "-c", "a.cu", "-o", "a.o"]


def test_ptx_is_made_for_what_it_names() -> None:
    assert "-arch=compute_80" in called("-arch=compute_80 -ptx a.cu -o a.ptx")
    assert CONFIG["gencode"] not in called("-arch=compute_80 -ptx a.cu -o a.ptx")


@pytest.mark.parametrize(
    "asked",
    [
        "",
        ALL,
        "-gencode arch=compute_120a,code=sm_120a",
        "-arch=sm_80",  # keeps PTX, which the driver compiles
        "-gencode arch=compute_90,code=compute_90",
        "-gencode=arch=compute_80,code=[sm_80,compute_80]",
        "-DARCH=sm_90a -I sm_100",
    ],
)
def test_a_call_that_reaches_our_gpu_is_compiled(asked: str) -> None:
    assert foreign(asked.split(), "12.1a") == ""


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("-gencode arch=compute_90a,code=sm_90a", "compute_90a, sm_90a"),
        ("-gencode=arch=compute_80,code=sm_80", "compute_80, sm_80"),
        ("-gencode arch=compute_90a,code=compute_90a", "compute_90a"),
        ("-gencode arch=compute_100f,code=sm_100f -gencode arch=compute_110,code=sm_110", "sm_100f"),
        ("-gencode arch=compute_130,code=compute_130", "compute_130"),
    ],
)
def test_a_call_for_other_gpus_alone_is_an_error(asked: str, named: str) -> None:
    assert named in foreign(asked.split(), "12.1a")


def test_only_a_compile_makes_an_object() -> None:
    assert output(["-c", "a.cu", "-o", "a.o"]) == "a.o"
    assert output(["-dc", "a.cu", "-o", "a.o"]) == "a.o"
    assert output(["-shared", "a.o", "-o", "a.so"]) == ""
    assert output(["-c", "-o"]) == output(["-V"]) == ""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Compilers that write down how they are called."""
    calls = tmp_path / "calls"
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n', encoding="utf-8")
    tool.chmod(0o755)
    settings = {"GB10_LAUNCH_LOG": str(tmp_path / "launch.jsonl")}
    path = tmp_path / "compilers.json"
    kinds = dict.fromkeys(("nvcc", "cc", "c++"), str(tool))
    path.write_text(json.dumps({**CONFIG, **kinds, "arch": "12.1a", "environment": settings}), encoding="utf-8")
    return path


def run(config: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    monkeypatch.setattr(sys, "argv", ["package_compiler.py", str(config), *text.split()])
    return package_compiler.main()


def test_a_compile_is_measured_and_a_link_is_stripped(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GB10_CCACHE", raising=False)
    assert run(config, monkeypatch, "c++ -c a.cpp -o a.o") == 0
    assert run(config, monkeypatch, "c++ -shared a.o -o a.so") == 0
    calls = (config.parent / "calls").read_text(encoding="utf-8").splitlines()
    assert calls == ["-c a.cpp -o a.o", f"-shared a.o -o a.so {' '.join(package_compiler.LINK)}"]
    lines = (config.parent / "launch.jsonl").read_text(encoding="utf-8").splitlines()
    assert [Path(json.loads(line)["object"]).name for line in lines] == ["a.o"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("c++ -march=native -c a.cpp -o a.o", "error: -march=native compiles for the machine that builds"),
        ("nvcc -gencode arch=compute_90a,code=sm_90a -c a.cu -o a.o", "nothing of that runs on 12.1a"),
    ],
)
def test_what_is_for_another_machine_is_not_compiled(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert run(config, monkeypatch, text) == 1
    assert says in capsys.readouterr().err
    assert not (config.parent / "calls").exists()
