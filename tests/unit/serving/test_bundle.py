"""Bundles: what is written is read back; what was changed, is too large or is something else is refused."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gb10.cli import main
from gb10.errors import UsageError, VerifyError
from gb10.image.context import open_context
from gb10.serving.benchmark.bench_bundle import LIMITS, read_bundle, write_bundle
from gb10.serving.benchmark.launch_journal import open_journal
from gb10.serving.benchmark.launch_line import Outcome, Result, leftover_server, read_launch
from gb10.serving.benchmark.replaying import chosen_side, compare_with_bundle, settings_of_side, text_of_side
from gb10.serving.benchmark.saved_results import read_result
from gb10.serving.load_generator.benchy import Book
from tests.served import SETTINGS, document

PLAN: dict[str, Any] = {
    **{name: value for name, value in SETTINGS.items() if name not in ("tool_version", "tokenizer", "book")},
    "extra": {"temperature": 0},
}
HEAD = {"kind": "compare", "names": ["rate=1", "rate=2"], "unit": "launches", "launch": "serve {port}", "plan": PLAN}
BOOK = Book(text="Once upon a time.\n", name="a book")


def launch(name: str, number: int, steps: float) -> str:
    return Outcome(result=Result.STABLE, facts={}, serve=document(steps)).line(name, 0, number)


def journal(head: object = HEAD) -> str:
    lines = [json.dumps(head), *(launch("AB"[number in (1, 2)], number, 100 + number) for number in range(4))]
    return "\n".join([*lines, '{"kind": "launch", "name": "A", "half'])


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "b.zip", journal(), BOOK, "model: org/m\n")
    return tmp_path / "b.zip"


def test_a_bundle_is_read_back_and_is_the_same_file_each_time(bundle: Path, tmp_path: Path) -> None:
    found = read_bundle(bundle)
    assert (found.plan.prompt, found.plan.concurrency, found.plan.extra) == (100, (2,), {"temperature": 0})
    assert (found.book.text, found.recipe) == (BOOK.text, "model: org/m\n")
    assert [(one.name, one.number) for one in found.launches] == [("A", 0), ("B", 1), ("B", 2), ("A", 3)]
    again = write_bundle(tmp_path / "again.zip", journal(), BOOK, "model: org/m\n")
    assert (tmp_path / "again.zip").read_bytes() == bundle.read_bytes()
    assert len(again) == 64


def changed(bundle: Path, name: str, content: bytes) -> Path:
    """The bundle with another file of this name, or one more."""
    with zipfile.ZipFile(bundle) as zipped:
        files = {one: zipped.read(one) for one in zipped.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        for one, text in {**files, name: content}.items():
            zipped.writestr(one, text)
    bundle.write_bytes(out.getvalue())
    return bundle


def test_a_changed_file_is_refused(bundle: Path) -> None:
    with pytest.raises(VerifyError, match=r"was changed: book\.txt has not the sha256"):
        read_bundle(changed(bundle, "book.txt", b"another"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "more.txt", "logs/x"])
def test_other_files_are_refused(bundle: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no bundle"):
        read_bundle(changed(bundle, name, b"x"))


def test_a_file_that_grows_too_large_is_refused(bundle: Path) -> None:
    with pytest.raises(UsageError, match=r"is no bundle") as caught:
        read_bundle(changed(bundle, "manifest.json", b" " * (LIMITS["manifest.json"] + 1)))
    assert caught.value.where == "manifest.json is too large"


def test_what_is_no_zip_and_what_is_half_of_one_is_refused(bundle: Path) -> None:
    whole = bundle.read_bytes()
    for content in (b"", b"no zip", whole[: len(whole) // 2], whole[:-40]):
        bundle.write_bytes(content)
        with pytest.raises(UsageError, match="no zip that can be read"):
            read_bundle(bundle)


@pytest.mark.parametrize(
    "plan",
    [
        None,
        {**PLAN, "concurrency": []},
        {**PLAN, "concurrency": [100_000]},
        {**PLAN, "runs": 10**9},
        {**PLAN, "tool": "rm"},
        {**PLAN, "extra": {"stream": False}},
        {**PLAN, "extra": {"a": "x" * 70_000}},
        {**PLAN, "answer": [50, 60]},
        {**PLAN, "more": 1},
    ],
)
def test_a_load_that_cannot_be_is_refused(tmp_path: Path, plan: object) -> None:
    write_bundle(tmp_path / "b.zip", journal({**HEAD, "plan": plan}), BOOK, None)
    with pytest.raises(UsageError, match="no load that can be repeated"):
        read_bundle(tmp_path / "b.zip")


def test_a_side_is_chosen_and_held_against_what_was_measured_here(bundle: Path) -> None:
    found = read_bundle(bundle)
    with pytest.raises(UsageError, match="2 sides") as caught:
        chosen_side(found, None)
    assert caught.value.where == "A, B"
    name, before = chosen_side(found, "B")
    assert (name, text_of_side(found.head, name), settings_of_side(found.head, name)) == ("B", "rate=2", {})
    here = [line for number in range(3) if (line := read_launch(launch("here", number, 120)))]
    compared = compare_with_bundle(before, here, margin=0.02, unit="launches")
    assert compared.rows[0].found.launches == (2, 3)
    assert compared.verdict == "faster"


def test_a_row_of_a_matrix_keeps_its_settings() -> None:
    head = {"kind": "matrix", "matrix": {"axes": {"moe": {"triton": {"args": "--x y"}}, "graphs": {"on": {}}}}}
    assert settings_of_side(head, "moe=triton graphs=on") == {"args": "--x y"}
    assert settings_of_side(head, "none") == {}


def test_a_kept_comparison_is_shown_again(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "launches.jsonl").write_text(journal(), encoding="utf-8")
    for path in (bundle, folder):
        found = read_result(path, 0.02)
        assert not isinstance(found, tuple)
        assert getattr(found, "names", None) == ("rate=1", "rate=2")
    (folder / "launches.jsonl").write_text('{"kind": "other"}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="no result to show"):
        read_result(folder, 0.02)


@pytest.mark.parametrize(
    ("field", "value"), [("number", 10**12), ("block", -1), ("quality", {"judge": "canaries", "what": "", "points": 2})]
)
def test_a_line_of_a_bundle_is_bounded(field: str, value: object) -> None:
    document = json.loads(launch("A", 0, 1))
    assert read_launch(json.dumps(document))
    if isinstance(value, dict):
        assert read_launch(json.dumps({**document, field: {**value, "of": 2}}))
        value = {**value, "of": 1}  # more points than there are
    assert read_launch(json.dumps({**document, field: value})) is None


def test_parameters_of_a_bundle_need_trust_like_its_command(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = {**HEAD, "names": ["x", "env.BASH_ENV=/tmp/evil"]}
    write_bundle(bundle, journal(hostile), BOOK, None)
    out = tmp_path / "out"
    command = ["bench", "replay", str(bundle), "--side", "B", "--launch", "bash run.sh {port}", "--out", str(out)]
    assert main(command) == UsageError.code
    assert "the bundle sets parameters of the server" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    "value", ["serve --api-key sk-123456789012345678901234", {"env.HF_TOKEN": "hf_abcdefghijklmnopq"}]
)
def test_a_secret_never_enters_a_journal(tmp_path: Path, value: object) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=0)
    with pytest.raises(UsageError, match="a secret in the command line"):
        open_journal(ctx, tmp_path / "out", {"launch": value})
    assert not (tmp_path / "out").exists()


def test_only_a_server_that_no_launch_follows_was_left_behind() -> None:
    begun = '{"kind": "begun", "pid": 4711, "started": 99}'
    found = leftover_server([launch("A", 0, 1), begun, '{"kind": "launch", "half'])
    assert found is not None
    assert (found.pid, found.started) == (4711, 99)
    assert leftover_server([begun, launch("A", 0, 1)]) is None
    assert leftover_server([]) is None
    assert leftover_server(['{"kind": "begun", "pid": 1, "started": 0}']) is None


def test_a_line_of_a_journal_has_tenths_of_seconds() -> None:
    assert json.loads(Outcome(result=Result.FAIL, facts={}, seconds=61.26).line("a", 0, 1))["seconds"] == 61.3
