"""`bench compare`, `matrix`, `replay` and `show` with real servers that a command starts, and real llama-benchy."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import jsonschema
import pytest

from gb10.cli import main
from gb10.core.child_sessions import started
from gb10.image.plan.catalog import ROOT
from gb10.serving.benchmark.launch_journal import JOURNAL
from gb10.serving.benchmark.launch_line import BegunLine
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.openai_server import serving

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SERVER = (
    f"{sys.executable} {ROOT}/tests/integration/openai_server.py --port {{port}} --rate {{rate}} --only '{{model}}'"
)
LOAD = ("--pp", "60", "--tg", "40", "-c", "2", "--runs", "1", "--warm-up", "0", "--canary-tokens", "48")
AXES = f"""\
launch: "{SERVER} {{args}}"
axes:
  kind:
    good: {{model: good}}
    broken: {{model: "garbage: !"}}
    dead: {{model: good, args: --no-such-option}}
  rate:
    fast: {{rate: 300}}
    slow: {{rate: 150}}
left_out:
  - {{when: {{kind: dead, rate: slow}}, why: one is enough}}
  - {{when: {{kind: broken, rate: slow}}, why: one is enough}}
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_byte_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"))


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Every server that a test of this file started has ended; those of test_selftest have a rate of 400."""
    yield
    commands = [command for path in Path("/proc").glob("[0-9]*/cmdline") if (command := command_of(path))]
    own = [one for one in commands if b"openai_server.py\0--port" in one and b"--rate\x00400\x00" not in one]
    assert not [one for one in own if b"--only" in one]


def command_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended
        return b""


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"docs/schemas/{name}-v1.schema.json").read_text(encoding="utf-8"))
    return found


def result(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema(name))
    return found


def compare(folder: Path, tokenizer: str, *more: str) -> list[str]:
    sides = ["rate=30 model=good", "rate=600 model=good"]
    return [
        "bench",
        "compare",
        *sides,
        "--launch",
        SERVER,
        "--out",
        str(folder),
        "--tokenizer",
        tokenizer,
        *LOAD,
        *more,
    ]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, tokenizer: str) -> Path:
    """The folder of a comparison of two launches a side."""
    folder = tmp_path_factory.mktemp("compared") / "out"
    assert main(compare(folder, tokenizer, "--launches", "2")) == 0
    return folder


def effect_of(row: dict[str, Any]) -> float:
    """B against A by the figure of each launch."""
    a, b = ([one["value"] for one in row["points"] if one["side"] == side] for side in "AB")
    return geometric_mean(b) / geometric_mean(a) - 1


def test_the_faster_server_is_found(compared: Path) -> None:
    found = result(compared, "compare")
    assert found["verdict"] == "faster"
    (steps,) = (row for row in found["rows"] if row["figure"] == "steps_s")
    assert steps["effect"] == pytest.approx(effect_of(steps))
    assert [one["side"] for one in steps["points"]] == list("ABBA")
    assert found["answers"]["points"] == found["answers"]["of"]
    assert all("--rate" in one["facts"]["command"] for side in "AB" for one in found["sides"][side]["launches"])
    assert {path.name for path in compared.iterdir()} == {
        "bundle.zip",
        "launches.jsonl",
        "logs",
        "page.html",
        "result.json",
        "table.md",
    }


def test_more_launches_go_on_from_those_that_were_measured(
    compared: Path, tokenizer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (compared / JOURNAL).read_bytes()
    assert main(compare(compared, tokenizer, "--launches", "3")) == 0
    assert "4 of 6 launches were measured before" in capsys.readouterr().err
    assert (compared / JOURNAL).read_bytes().startswith(before)
    assert result(compared, "compare")["rows"][0]["words"].count("3 launches a side") == 1


def test_a_kept_comparison_is_shown_again(compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["bench", "show", str(compared), "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result(compared, "compare")
    assert page.read_text(encoding="utf-8") == (compared / "page.html").read_text(encoding="utf-8")
    assert main(["bench", "show", str(compared / "bundle.zip"), "--markdown"]) == 0
    assert capsys.readouterr().out == (compared / "table.md").read_text(encoding="utf-8")


def test_a_bundle_is_repeated_against_a_server_that_runs(compared: Path, tokenizer: str, tmp_path: Path) -> None:
    with serving(rate=100) as (url, _):
        asked = ["bench", "replay", str(compared / "bundle.zip"), url, "--side", "A", "--model", "good"]
        more = ["--tokenizer", tokenizer, "--launches", "1", "--out", str(tmp_path / "r")]
        assert main([*asked, *more]) == 0
    found = result(tmp_path / "r", "compare")
    assert found["unit"] == "passes"
    assert found["sides"]["A"]["settings"]["book"]["sha256"] == found["sides"]["B"]["settings"]["book"]["sha256"]
    (before,) = (row for row in result(compared, "compare")["rows"] if row["figure"] == found["rows"][0]["figure"])
    of_bundle = [one["value"] for one in before["points"] if one["side"] == "A"]
    again = [one["value"] for one in found["rows"][0]["points"]]
    assert again[: len(of_bundle)] == of_bundle
    assert found["rows"][0]["effect"] == pytest.approx(again[-1] / geometric_mean(of_bundle) - 1)


def test_the_command_of_a_bundle_runs_only_with_trust(
    compared: Path, tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["bench", "replay", str(compared / "bundle.zip"), "--side", "B", "--tokenizer", tokenizer]
    assert main(asked) == 2
    assert "openai_server.py --port {port}" in capsys.readouterr().err
    assert main([*asked, "--trust", "--launches", "1", "--out", str(tmp_path / "r")]) == 0
    assert result(tmp_path / "r", "compare")["sides"]["B"]["launches"][0]["result"] == "STABLE"


def test_a_killed_run_goes_on_and_its_server_is_ended(tokenizer: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    argv = [sys.executable, str(ROOT / "build.py"), *compare(folder, tokenizer, "--launches", "1")]
    left = None
    with subprocess.Popen(argv, env=dict(os.environ), stderr=subprocess.DEVNULL) as tool:
        left = until_begun(folder / JOURNAL, 2)
        tool.send_signal(signal.SIGKILL)
    assert started(left.pid) == left.started  # the server outlived the tool
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert f"ending the server that an earlier run left behind (process {left.pid})" in done.stderr
    assert "1 of 2 launches were measured before" in done.stderr
    assert started(left.pid) != left.started
    assert result(folder, "compare")["rows"][0]["outcome"] == "not resolved"


def until_begun(path: Path, count: int) -> BegunLine:
    """The server of the launch with this number, counted from 1."""
    for _ in range(12_000):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        begun = [line for line in lines if line.startswith('{"kind": "begun"')]
        if len(begun) == count:
            return BegunLine.model_validate_json(begun[-1])
        time.sleep(0.05)
    raise AssertionError("no server was started")


def matrix(folder: Path, tokenizer: str, axes: Path, *more: str) -> list[str]:
    return ["bench", "matrix", str(axes), "--tokenizer", tokenizer, "--out", str(folder), *LOAD, *more]


def test_a_matrix_tells_how_each_row_came_out_and_why(
    tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes, folder = tmp_path / "axes.yaml", tmp_path / "out"
    axes.write_text(AXES, encoding="utf-8")
    assert main(matrix(folder, tokenizer, axes)) == 0
    found = result(folder, "matrix")
    assert found["counts"] == {"STABLE": 2, "FAIL": 1, "GARBAGE": 1, "left out": 2}
    rows = {row["name"]: row for row in found["rows"]}
    assert all(rows[f"kind=good rate={name}"]["levels"][0]["tok_s"] for name in ("fast", "slow"))
    for name, rate in (("fast", "300"), ("slow", "150")):
        assert f"--rate {rate} " in rows[f"kind=good rate={name}"]["facts"]["command"]
    assert rows["kind=broken rate=fast"]["quality"]["points"] == 0
    assert rows["kind=broken rate=fast"]["why"]
    assert "unrecognized arguments: --no-such-option" in rows["kind=dead rate=fast"]["cause"]
    assert rows["kind=dead rate=slow"]["left_out"] == "one is enough"
    capsys.readouterr()
    before = (folder / JOURNAL).read_bytes()
    assert main(matrix(folder, tokenizer, axes)) == 0
    assert "4 of 4 rows were measured before" in capsys.readouterr().err
    assert (folder / JOURNAL).read_bytes() == before
    axes.write_text(AXES.replace("rate: 150", "rate: 151"), encoding="utf-8")
    assert main(matrix(folder, tokenizer, axes)) == 2
    assert "belongs to another job" in capsys.readouterr().err


@pytest.fixture
def two() -> Iterator[Sequence[str]]:
    with serving(rate=150) as (a, _), serving(rate=300) as (b, _):
        yield a, b


def test_two_endpoints_are_compared_by_passes(two: Sequence[str], tokenizer: str, tmp_path: Path) -> None:
    asked = ["bench", "compare", *two, "--model", "good", "--tokenizer", tokenizer, "--launches", "1"]
    assert main([*asked, *LOAD, "--out", str(tmp_path / "out")]) == 0
    found = result(tmp_path / "out", "compare")
    assert found["verdict"] == "not resolved"
    assert found["rows"][0]["effect"] == pytest.approx(effect_of(found["rows"][0]))
    assert found["doubts"][0] == "each side was started once: the next start may be as different"
    assert "at one of each" in found["rows"][0]["words"]


def test_a_side_of_garbage_is_no_winner(tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["rate=100 model=good", "rate=300 model='garbage: !'"]
    asked = ["bench", "compare", *sides, "--launch", SERVER, "--tokenizer", tokenizer, *LOAD]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 9
    assert result(tmp_path / "out", "compare")["verdict"] == "garbage"
    assert "the answers of B are GARBAGE" in capsys.readouterr().err


def test_a_side_that_does_not_start_is_given_up(
    tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = ["args=--nothing", "args=--nothing"]
    asked = ["bench", "compare", *sides, "--launch", f"{sys.executable} -c 'raise ValueError(7)' {{args}}"]
    assert main([*asked, "--tokenizer", tokenizer, *LOAD, "--out", str(tmp_path / "out")]) == 12
    said = capsys.readouterr().err
    assert "failed 2 times in turn: the server did not start: it ended with code 1" in said
    assert "ValueError: 7" in said
    none = ["bench", "compare", *sides, "--launch", "no-such-program {args}", "--tokenizer", tokenizer, *LOAD]
    assert main([*none, "--out", str(tmp_path / "none")]) == 12
    assert "no-such-program cannot be started" in capsys.readouterr().err
