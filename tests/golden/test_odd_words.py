"""Command lines that nobody means: each is one error of the table, never a traceback and never a wait."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.causes import SHOWN
from gb10.containers.embedded.daemon import Place
from gb10.core.store import Store

LONG = "a" * 5_000
DIGITS = ("9" * 5_000, "9" * 100_000)
NOT_UTF8 = os.fsdecode(b"caf\xe9")
BY_PATH: dict[str, Callable[[str], list[str]]] = {
    "verify": lambda path: ["verify", path],
    "overlay": lambda path: ["plan", "--overlay", path],
    "patch": lambda path: ["plan", "--patch", path],
    "patch-of": lambda path: ["plan", "--patch", f"vllm={path}"],
    "source": lambda path: ["plan", "--source", f"vllm={path}"],
    "mod": lambda path: ["plan", "--mod", path],
    "recipe": lambda path: ["plan", "--engine", f"{path}.yaml"],
    "model": lambda path: ["plan", "--for-model", path],
    "check": lambda path: ["mods", "check", path],
    "tree": lambda path: ["patches", "status", "--source", "vllm", "--ref", "0.33.0", "--tree", path],
    "lock": lambda path: ["lock", "--check", "--engine", path],
}


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("DOCKER_HOST", Place(Store(tmp_path / "store")).endpoint.host)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str], codes: tuple[int, ...] = (2,)) -> str:
    code = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert code in codes, err
    assert err.count("error: ") == 1
    document = json.loads(out)
    assert document["problems"] if code == 9 else document["error"]["code"] == code
    return err


@pytest.mark.parametrize("kind", BY_PATH)
def test_a_path_that_is_too_long(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(capsys, BY_PATH[kind](f"./{LONG}"))
    assert len(err) < 10 * SHOWN or kind != "verify"


@pytest.mark.parametrize("kind", BY_PATH)
def test_links_that_lead_to_each_other(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    refused(capsys, BY_PATH[kind](str(loop)))


@pytest.mark.parametrize("kind", BY_PATH)
def test_a_name_that_is_not_utf8(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, BY_PATH[kind](str(tmp_path / NOT_UTF8)))


@pytest.mark.parametrize("kind", ["verify", "patch", "patch-of", "mod", "check", "model", "tree"])
@pytest.mark.parametrize("special", ["/proc/self/mem", "/dev/zero"])
def test_a_special_file(kind: str, special: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, BY_PATH[kind](special), (2, 6, 9))


@pytest.mark.parametrize("kind", ["overlay", "patch", "patch-of", "mod", "check", "verify"])
def test_a_folder_with_an_odd_name(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.patch" / "y.patch").mkdir(parents=True)
    (tmp_path / "x.patch" / NOT_UTF8).write_text("odd", encoding="utf-8")
    code = main(BY_PATH[kind](str(tmp_path / "x.patch")))
    assert "Traceback" not in capsys.readouterr().err
    assert code in ((3,) if kind == "verify" else (2, 6))


@pytest.mark.parametrize("digits", DIGITS, ids=("5000", "100000"))
@pytest.mark.parametrize(
    "before",
    [
        ["plan", "--vllm-ref"],
        ["plan", "--ref", "flashinfer="],
        ["patches", "status", "--source", "vllm", "--ref"],
        ["cache", "gc", "--keep", "GB="],
        ["plan", "--arch"],
        ["publish", "a", "b", "--compression", "zstd:"],
        ["verify", "x", "--arch"],
    ],
    ids=" ".join,
)
def test_a_number_of_thousands_of_digits(before: list[str], digits: str, capsys: pytest.CaptureFixture[str]) -> None:
    *words, last = before
    joined = {"GB=": f"{digits}GB"}.get(last, f"{last}{digits}")
    refused(capsys, [*words, joined] if last[-1] in "=:" else [*before, digits])


def test_jobs_of_thousands_of_digits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GB10_JOBS", DIGITS[0])
    refused(capsys, ["plan"])


@pytest.mark.parametrize("place", ["a:b", "a\nb"])
def test_a_store_whose_path_no_mount_takes(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / place))
    assert "cache directory" in refused(capsys, ["plan"])


@pytest.mark.parametrize("name", ["../nope", "./nope", "/nope", "nope.whl", "a/../b", "Not/An/Image"])
def test_what_can_only_be_a_path_is_not_looked_up_in_the_engine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no file or directory" in refused(capsys, ["verify", name])


def test_the_closest_arch_is_one_with_tensor_cores(capsys: pytest.CaptureFixture[str]) -> None:
    assert "closest is 12.1f" in refused(capsys, ["plan", "--arch", "sm121"])
    for other in ("13.0", "9.0"):
        err = refused(capsys, ["plan", "--arch", other])
        assert "a GB10 is 12.1f, the default" in err
        assert "closest" not in err
