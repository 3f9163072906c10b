"""A report becomes part of the claims, or nothing is written; the gate lets a release go on, or does not."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gb10.cli import main
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.serving.claims.claim_files import load_claims, load_reports
from gb10.serving.claims.report_judging import Judged, judge_report, keep_report
from gb10.serving.claims.selftest_report import read_report
from tests.selftest_reports import DIGEST, good_report, step

SCHEMA = json.loads((ROOT / "docs/schemas/selftest-v1.schema.json").read_text(encoding="utf-8"))
NOW = datetime(2026, 11, 28, tzinfo=UTC)
Change = Callable[[dict[str, Any]], object]
LIMITS, CLOCK = "limits.shared-memory", "power.clock"


def written(folder: Path, report: object) -> Path:
    path = folder / "report.json"
    path.write_text(report if isinstance(report, str) else json.dumps(report), encoding="utf-8")
    return path


def judged(folder: Path, report: dict[str, Any]) -> Judged:
    read, sha256 = read_report(written(folder, report), NOW)
    return judge_report(read, sha256, load_claims(), where="report.json")


def changed(change: Change) -> dict[str, Any]:
    report = good_report()
    change(report)
    return report


def test_a_report_in_which_all_holds(tmp_path: Path) -> None:
    found = judged(tmp_path, good_report())
    jsonschema.validate(good_report(), SCHEMA)
    assert (found.fell, found.broken, found.unchecked, found.beside) == ((), (), (), ())
    assert {result.came for result in found.kept.results.values()} == {"held", "recorded"}
    assert (found.kept.machine, found.kept.image, str(found.kept.date)) == ("NVIDIA GB10", DIGEST, "2026-11-27")


OF_THE_SCHEMA: dict[str, Change] = {
    "another schema": lambda r: r.update(schema=2),
    "true for one": lambda r: r.update(schema=True),
    "no machine's arch": lambda r: r["machine"].pop("arch"),
    "a host name": lambda r: r["machine"].update(host="spark-1"),
    "an odd digest": lambda r: r["image"].update(digest="sha256:xyz"),
    "another engine": lambda r: r["image"].update(engine="trt"),
    "a step's result": lambda r: r["steps"][0].update(result="fine"),
    "no word of who asked": lambda r: r["steps"][0].pop("asked"),
    "a result that nobody asked for": lambda r: r["steps"][0].update(asked=False),
    "a figure that nobody asked for": lambda r: step(r, "limits").update(asked=False, result="not checked"),
    "an id with a path": lambda r: r["steps"][0].update(id="../machine"),
    "a list for a value": lambda r: step(r, "limits")["claims"].update({LIMITS: {"value": [1]}}),
    "a text for seconds": lambda r: r["steps"][0].update(seconds="1"),
    "negative seconds": lambda r: r["steps"][0].update(seconds=-1),
    "evidence elsewhere": lambda r: r["steps"][0].update(evidence=["../../etc/passwd"]),
    "a claim's odd id": lambda r: r["steps"][0]["claims"].update({"<b>": {"value": 1}}),
    "a long reason": lambda r: r["steps"][0].update(why="x" * 601),
    "too many steps": lambda r: r["steps"].extend([r["steps"][0]] * 100),
    "no time": lambda r: r.update(when="yesterday"),
}
OUR_OWN: dict[str, tuple[Change, str]] = {
    "a step twice": (lambda r: r["steps"].append(r["steps"][0]), "a step is listed twice"),
    "no such day": (lambda r: r.update(when="2026-02-30T12:00:00Z"), "no such time"),
    "a time to come": (lambda r: r.update(when="2027-01-01T00:00:00Z"), "which is to come"),
    "another chip": (lambda r: r["machine"].update(gpu="NVIDIA H100 80GB HBM3", capability="9.0"), "about a GB10"),
    "no machine": (lambda r: r.update(machine=None), "an unknown GPU"),
    "a figure of another kind": (lambda r: step(r, "limits")["claims"][LIMITS].update(value="101376"), "a number"),
    "a truth for a number": (lambda r: step(r, "power")["claims"][CLOCK].update(value=True), "a number"),
    "another unit": (lambda r: step(r, "power")["claims"][CLOCK].update(unit="GHz"), "its unit must be 'MHz'"),
    "no unit": (lambda r: step(r, "power")["claims"][CLOCK].pop("unit"), "its unit must be 'MHz'"),
    "another step": (
        lambda r: r["steps"][0]["claims"].update({CLOCK: {"value": 1, "unit": "MHz"}}),
        "of the step power",
    ),
    "no step's claim": (lambda r: r["steps"][0]["claims"].update({"run-serves": {"value": True}}), "of no step"),
    "markup in a value": (
        lambda r: step(r, "machine")["claims"].update({"machine.driver": {"value": "<script>"}}),
        "machine.driver",
    ),
    "markup in the machine": (lambda r: r["machine"].update(gpu="NVIDIA GB10 [x](http://y)"), "'machine' must match"),
    "a new line in the gb10": (lambda r: r.update(gb10="0.9\n- x"), "'gb10' must match"),
}
TEXTS = {
    "no JSON": "hello",
    "not finite": json.dumps(good_report()).replace("1800.0", "NaN"),
    "too large for a float": json.dumps(good_report()).replace("1800.0", "1e999"),
    "a key twice": json.dumps(good_report()).replace('"schema": 1', '"schema": 1, "schema": 1'),
    "deep": "[" * 100_000,
    "a list": "[]",
    "long digits": json.dumps(good_report()).replace("1800.0", "1" * 5000),
    "not UTF-8": "\udce4",
    "too long": " " * (1 << 20) + "{}",
}


@pytest.mark.parametrize("change", OF_THE_SCHEMA.values(), ids=OF_THE_SCHEMA)
def test_what_the_schema_refuses_is_refused(change: Change, tmp_path: Path) -> None:
    report = changed(change)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, SCHEMA)
    with pytest.raises(UsageError, match="report of selftest"):
        judged(tmp_path, report)


@pytest.mark.parametrize(("change", "words"), OUR_OWN.values(), ids=OUR_OWN)
def test_what_does_not_fit_the_claims_is_refused(change: Change, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        judged(tmp_path, changed(change))
    assert words in str(error.value)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_no_report_is_one_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError):
        read_report(path, NOW)


def test_a_pipe_is_no_report(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no plain file"):
        read_report(tmp_path / "pipe", NOW)


def checkout(folder: Path) -> Path:
    """A folder with the claims and their page."""
    (folder / "recipes/claims").mkdir(parents=True)
    (folder / "docs").mkdir()
    for path in (ROOT / "recipes/claims").glob("*.yaml"):
        (folder / "recipes/claims" / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "docs/claims.md").write_text("old", encoding="utf-8")
    return folder


def test_a_report_is_kept_once_with_what_fell(tmp_path: Path) -> None:
    root = checkout(tmp_path / "checkout")
    report = good_report()
    step(report, "limits")["claims"][LIMITS]["value"] = 49152
    step(report, "power").update(result="not checked", why="the GPU was busy")
    step(report, "power")["claims"]["power.bf16"] = {"value": 80.5, "unit": "TFLOPS"}
    step(report, "guard").update(result="does not hold", why="garbage")
    found = judged(tmp_path, report)
    assert found.fell == (LIMITS,)
    assert found.broken == (("guard", "garbage"),)
    assert {row.what for row in found.unchecked} == {"power.clock", "power.draw"}
    assert found.beside == ("power.bf16",)
    path = keep_report(root, found, load_claims(root))
    assert path is not None
    assert load_reports(root) == (found.kept,)
    page = (root / "docs/claims.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{LIMITS}`"))
    assert row.endswith("| fell: 49,152 B (NVIDIA GB10, 2026-11-27) |")
    assert "1 reports of 1 machines." in page
    before = path.stat().st_mtime_ns
    assert keep_report(root, found, load_claims(root)) is None
    assert (path.stat().st_mtime_ns, len(load_reports(root))) == (before, 1)


def test_when_the_page_cannot_be_written_the_report_is_taken_back(tmp_path: Path) -> None:
    root = checkout(tmp_path / "checkout")
    (root / "docs/claims.md").unlink()
    (root / "docs/claims.md").mkdir()
    with pytest.raises(UsageError, match="cannot write the page of claims"):
        keep_report(root, judged(tmp_path, good_report()), load_claims(root))
    assert load_reports(root) == ()


def test_an_installed_gb10_keeps_nothing(tmp_path: Path) -> None:
    root = checkout(tmp_path / "_data")
    with pytest.raises(UsageError, match="an installed gb10 keeps no reports"):
        keep_report(root, judged(tmp_path, good_report()), load_claims(root))


def without_nodes(report: dict[str, Any]) -> None:
    report["steps"] = [one for one in report["steps"] if one["id"] not in ("nodes", "rank-death")]


def fell(report: dict[str, Any]) -> None:
    step(report, "power")["claims"][CLOCK]["value"] = 507


def broke(report: dict[str, Any]) -> None:
    step(report, "speed")["result"] = "does not hold"


def unsure(report: dict[str, Any]) -> None:
    step(report, "gemm")["result"] = "not checked"


SINGLE = ["--leave-out", "nodes", "--leave-out", "rank-death"]


@pytest.mark.parametrize(
    ("change", "words", "code", "said"),
    [
        (lambda _: None, [], 0, "held"),
        (without_nodes, SINGLE, 0, "held"),
        (without_nodes, [], 13, "2 parts were not checked"),
        (unsure, [], 13, "could not be checked"),
        (fell, [], 9, "power.clock fell: 507"),
        (broke, [], 9, "step speed does not hold"),
        (lambda _: None, ["--image", f"sha256:{'cd' * 32}"], 9, "of another image"),
        (lambda r: r.update(image=None), [], 9, "no digest"),
        (lambda _: None, ["--image", "latest"], 2, "is no digest"),
        (lambda _: None, ["--leave-out", "node"], 2, "no step 'node'"),
        (lambda r: r["machine"].update(gpu="NVIDIA H200"), [], 2, "about a GB10"),
        (lambda r: r.update(steps=[]), [], 13, "not checked"),
    ],
)
def test_the_gate(  # noqa: PLR0917 - fixtures
    change: Change, words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, changed(change))
    before = sorted(ROOT.glob("recipes/claims/**/*"))
    assert main(["selftest", "gate", str(path), "--image", DIGEST, *words]) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    assert sorted(ROOT.glob("recipes/claims/**/*")) == before


def test_a_wrong_report_leaves_the_claims_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in ROOT.glob("recipes/claims/**/*.yaml")}
    report = changed(lambda r: step(r, "limits")["claims"][LIMITS].update(value="many"))
    assert main(["selftest", "import", str(written(tmp_path, report))]) == 2
    assert "step limits, limits.shared-memory: it must be a number, found 'many'" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in ROOT.glob("recipes/claims/**/*.yaml")} == before
