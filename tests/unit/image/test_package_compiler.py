"""What a compiler of a package's build is called with, whatever the build asked for."""

import json
import sys
from pathlib import Path

import pytest

from gb10.inside.compile import package_compiler
from gb10.inside.compile.package import least_standard
from gb10.inside.compile.package_compiler import device_words, foreign, output, with_standard

CONFIG = {
    "c++": "cross-g++",
    "gencode": "-gencode=arch=compute_121a,code=sm_121a",
    "torch": "/site/torch/include",
    "standard": 20,
}
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


@pytest.mark.parametrize(
    ("asked", "called"),
    [
        ("-std=c++17", "-std=c++20"),
        ("--std=gnu++14", "--std=gnu++20"),
        ("-std c++1z", "-std c++20"),
        ("-std=c++98 -std=c++2a", "-std=c++20 -std=c++2a"),
        ("-std=c++23", "-std=c++23"),
        ("-std=c11", "-std=c11"),
        ("-DX=c++17", "-DX=c++17"),
    ],
)
def test_no_older_standard_than_torchs_headers_need(
    asked: str, called: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("-I/site/torch/include", "-isystem /site/torch/include/torch/csrc/api/include"):
        found = with_standard(f"{folder} {asked} -c a.cpp".split(), "/site/torch/include", 20)
        assert " ".join(found) == f"{folder} {called} -c a.cpp"
    assert ("which torch's headers need" in capsys.readouterr().err) == (asked != called)
    assert with_standard(asked.split(), "/site/torch/include", 20) == asked.split()  # it does not read torch
    assert with_standard(f"-I/site/torch/include {asked}".split(), "/site/torch/include", 0)[1:] == asked.split()


def test_the_standard_is_what_torchs_own_header_says(tmp_path: Path) -> None:
    assert least_standard(tmp_path) == 0
    header = tmp_path / "torch/include/ATen/ATen.h"
    header.parent.mkdir(parents=True)
    header.write_text("#pragma once\n#error C++20 or later compatible compiler is required to use ATen.\n", "utf-8")
    assert least_standard(tmp_path) == 20


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


@pytest.mark.parametrize("word", ["-dw", "--device-w"])
def test_executable_device_code_is_asked_in_the_words_that_ccache_takes(word: str) -> None:
    """38 of NCCL's 165 device files were compiled again each time."""
    assert called(f"{word} a.cu -o a.o")[3:-2] == ["-c", "-rdc=false", "a.cu", "-o", "a.o"]


def test_ptx_is_made_for_what_it_names() -> None:
    assert "-arch=compute_80" in called("-arch=compute_80 -ptx a.cu -o a.ptx")
    assert CONFIG["gencode"] not in called("-arch=compute_80 -ptx a.cu -o a.ptx")


@pytest.mark.parametrize(
    "asked",
    [
        "",
        ALL,
        "-gencode arch=compute_120a,code=sm_120a",
        "-gencode arch=compute_121a,code=sm_121a",
        "-arch=sm_80",  # keeps PTX, which the driver compiles
        "-gencode arch=compute_90,code=compute_90",
        "-gencode=arch=compute_80,code=[sm_80,compute_80]",
        "-DARCH=sm_90a -I sm_100",
    ],
)
def test_a_call_that_reaches_our_gpu_is_compiled(asked: str) -> None:
    assert foreign(asked.split(), "12.1a") == []


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("-gencode arch=compute_90a,code=sm_90a", "compute_90a, sm_90a"),
        ("-gencode=arch=compute_80,code=sm_80", "compute_80, sm_80"),
        ("-gencode arch=compute_90a,code=compute_90a", "compute_90a"),
        ("-gencode arch=compute_100f,code=sm_100f -gencode arch=compute_110,code=sm_110", "sm_100f"),
        ("-gencode arch=compute_130,code=compute_130", "compute_130"),
        ("-gencode arch=compute_122a,code=sm_122a", "compute_122a, sm_122a"),
    ],
)
def test_a_call_for_other_gpus_alone_is_seen(asked: str, named: str) -> None:
    assert named in ", ".join(foreign(asked.split(), "12.1a"))


def test_what_is_for_other_gpus_alone_stays_and_is_noted(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GB10_CCACHE", raising=False)
    assert run(config, monkeypatch, "nvcc -gencode=arch=compute_100f,code=sm_100f -c a.cu -o a.o") == 0
    (call,) = (config.parent / "calls").read_text(encoding="utf-8").splitlines()
    assert call.startswith("-ccbin ")
    assert "-gencode=arch=compute_100f,code=sm_100f -c a.cu" in call
    assert str(CONFIG["gencode"]) not in call
    assert (config.parent / "foreign.txt").read_text(encoding="utf-8") == "compute_100f sm_100f\n"


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
    told = {**dict.fromkeys(("nvcc", "cc", "c++"), str(tool)), "foreign": str(tmp_path / "foreign.txt")}
    path.write_text(json.dumps({**CONFIG, **told, "arch": "12.1a", "environment": settings}), encoding="utf-8")
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
        ("nvcc -Xcompiler -O3 -mcpu=native -c a.cu -o a.o", "error: -mcpu=native"),
    ],
)
def test_what_is_for_another_machine_is_not_compiled(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert run(config, monkeypatch, text) == 1
    assert says in capsys.readouterr().err
    assert not (config.parent / "calls").exists()
