"""What a probe answers, what a maintainer must mend, and the patches that a name means."""

import hashlib
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import FetchError, PatchError, UsageError
from gb10.image.patches.record import Condition, Record
from gb10.image.patches.release_files import Library
from gb10.image.patches.releases import PINS
from gb10.image.patches.series import Patch
from gb10.image.patches.source_tree import Folder
from gb10.image.patches.verdict import (
    Answered,
    Outcome,
    Row,
    Verdict,
    ask,
    find_patches,
    outcome_of,
    refuse,
    releases_in_words,
    remedy,
    status,
    troubles,
)
from tests.unit.image.test_patches_series import PATCH, RECORD, SOURCE, series


@pytest.fixture
def patch(tmp_path: Path) -> Patch:
    return series(tmp_path)[0]


def asked(record: Record, folder: Path, files: Mapping[str, str]) -> Answered:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return ask(record, Folder(folder))


@pytest.mark.parametrize(
    ("text", "answer", "why"),
    [
        (SOURCE, "needed", "f starts from chance"),
        (SOURCE.replace("empty", "zeros"), "present", "f starts from zeros"),
        ("def g(): pass\n", "superseded", "g does the work"),
        ("def h(): pass\n", "absent", "there is no f"),
        (SOURCE.replace("empty(3)", "ones(3)"), "unknown-shape", "the code looks like none of the releases"),
        (SOURCE + "def g(): pass\n", "unknown-shape", "the probe finds needed and superseded at once"),
        ("def f(:\n", "unknown-shape", "a file that the probe reads is no Python"),
        (SOURCE + SOURCE, "unknown-shape", "f"),
    ],
)
def test_a_probe_has_one_answer_or_none(patch: Patch, tmp_path: Path, text: str, answer: str, why: str) -> None:
    found = asked(patch.record, tmp_path / "tree", {"demo/a.py": text})
    assert found.answer == answer
    assert why in found.why


def test_matches_of_all_files_of_a_glob_count(patch: Patch, tmp_path: Path) -> None:
    """The condition wants one call: two files with one each are two."""
    found = asked(patch.record, tmp_path / "tree", {"demo/a.py": SOURCE, "other/a.py": SOURCE})
    assert found.answer == "unknown-shape"


@pytest.mark.parametrize(
    ("count", "numbers"), [(0, [0]), (2, [2]), (">=1", [1, 2, 3]), (">=3", [3])], ids=["0", "2", ">=1", ">=3"]
)
def test_a_condition_holds_for_a_number_of_matches(count: int | str, numbers: list[int]) -> None:
    condition = Condition(file="*.py", regex="x", count=count)
    assert [number for number in range(4) if condition.holds(number)] == numbers


@pytest.mark.parametrize("wrong", [{}, {"regex": "x", "exists": True}, {"regex": "x", "count": "2"}])
def test_a_condition_asks_one_question(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"exactly one of regex|a number or"):
        Condition.model_validate({"file": "*.py", **wrong})


def verdict(patch: Patch, outcome: Outcome, answer: str = "needed", *, left: bool = False) -> Verdict:
    probe = Answered(answer=answer, why="w")  # type: ignore[arg-type]
    return Verdict(patch=patch, outcome=outcome, probe=probe, why="as read", left=left)


def test_a_maintainer_mends_what_stops_a_build_and_what_no_range_covers(patch: Patch) -> None:
    fine = (
        verdict(patch, "applies"),
        verdict(patch, "not-applicable", "absent"),
        verdict(patch, "not-applicable", left=True),
    )
    row = Row(source="demo", version=Version("1.5"), pinned=True, verdicts=fine)
    assert troubles([row]) == ()
    wrong = (verdict(patch, "not-applicable"), verdict(patch, "conflict"))
    row = Row(source="demo", version=Version("1.5"), pinned=True, verdicts=wrong)
    place = "patches/demo/0001-zeros.patch"
    assert troubles([row]) == (
        f"{place} on demo 1.5: overdue\n  as read",
        f"{place} on demo 1.5: conflict\n  as read",
    )
    assert [outcome_of(one) for one in fine] == ["applies", "not-applicable", "not-applicable"]


def test_a_build_stops_at_the_first_patch_that_does_not_apply(patch: Patch) -> None:
    refuse([verdict(patch, "applies")], Version("1.5"))
    with pytest.raises(PatchError, match=r"0001-zeros.patch on demo 1.5: conflict") as caught:
        refuse([verdict(patch, "applies"), verdict(patch, "conflict")], Version("1.5"))
    assert caught.value.where == "as read\nX-Applies-To: demo >=1.0,<2.0"
    assert caught.value.hint == remedy(verdict(patch, "conflict"))


def test_the_remedy_of_an_unknown_shape_depends_on_the_probe(patch: Patch) -> None:
    assert remedy(verdict(patch, "unknown-shape", "unknown-shape")).startswith("read the file, then teach the probe")
    assert remedy(verdict(patch, "unknown-shape", "absent")) == remedy(verdict(patch, "superseded"))
    assert "patches refresh demo/0001-zeros.patch" in remedy(verdict(patch, "conflict"))


@pytest.mark.parametrize("name", ["0001-zeros", "demo/0001-zeros", "0001-zeros.patch", "patches/demo/0001-zeros.patch"])
def test_a_patch_has_several_spellings(patch: Patch, tmp_path: Path, name: str) -> None:
    assert [one.id for one in find_patches(tmp_path / "patches", name)] == [patch.id]


def test_a_wrong_name_has_the_closest_or_the_list(patch: Patch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no patch '0001-zero'") as caught:
        find_patches(tmp_path / "patches", "0001-zero")
    assert caught.value.hint == "did you mean demo/0001-zeros?"
    with pytest.raises(UsageError) as caught:
        find_patches(tmp_path / "patches", "xxxxxxxxxxxxxxxxxxxxxxxxxx")
    assert caught.value.hint == "./build.py patches status lists them"


def test_a_name_of_two_sources_names_both(patch: Patch, tmp_path: Path) -> None:
    other = tmp_path / "patches/other"
    other.mkdir()
    (other / "series").write_text("0001-zeros.patch\n", encoding="utf-8")
    (other / "0001-zeros.patch").write_text(PATCH.replace("demo >=", "other >="), encoding="utf-8")
    (other / "0001-zeros.yaml").write_text(RECORD, encoding="utf-8")
    pins = tmp_path / "patches/releases.lock.json"
    text = pins.read_text(encoding="utf-8")
    document = json.loads(text)
    document["sources"]["other"] = json.loads(json.dumps(document["sources"]["demo"]).replace("demo", "other"))
    pins.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError, match="several sources have a patch") as caught:
        find_patches(tmp_path / "patches", "0001-zeros")
    assert caught.value.hint == "did you mean demo/0001-zeros or other/0001-zeros?"


def test_releases_are_counted_in_words() -> None:
    assert [releases_in_words(count) for count in (0, 1, 2)] == ["0 releases", "1 release", "2 releases"]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A series of one patch, and a store with the source archive of the one release that is pinned."""
    series(tmp_path)
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    archive = tmp_path / "demo-1.5.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        out.add(tmp_path / "a.py", "demo-1.5/demo/a.py")
    content = archive.read_bytes()
    pin = {"filename": archive.name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    source = {"projects": ["demo"], "layout": {"packages": ["demo"]}, "releases": {"1.5": pin}}
    (tmp_path / "patches" / PINS).write_text(json.dumps({"sources": {"demo": source}}), encoding="utf-8")
    store = Store(tmp_path / "store")
    folder = store.entry("downloads", str(pin["sha256"]))
    folder.mkdir(parents=True)
    archive.rename(folder / archive.name)
    env = {"HOME": str(tmp_path), "PIP_INDEX_URL": tmp_path.as_uri(), "PIP_CONFIG_FILE": "/dev/null"}
    return Library(root=tmp_path / "patches", store=store, env=env, reporter=Reporter(env, verbosity=-1))


def forget_release(library: Library) -> None:
    """Without its file, a release can be judged no more: what is said of it was kept."""
    for section in ("downloads", "trees"):
        for path in library.store.root.glob(f"{section}/*/*"):
            path.unlink()


def said(library: Library) -> list[tuple[str, str, str, str]]:
    (row,) = status(library, "demo", [])
    return [(one.patch.name, one.outcome, one.probe.why, one.why) for one in row.verdicts]


def test_a_verdict_is_kept(library: Library) -> None:
    first = said(library)
    assert first == [("0001-zeros.patch", "applies", "f starts from chance", "f starts from chance")]
    forget_release(library)
    assert said(library) == first


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("0001-zeros.patch", "zeros(3)", "zeros(4)"),
        ("0001-zeros.patch", ">=1.0,<2.0", ">=1.0,<1.2"),
        ("0001-zeros.yaml", "starts from chance", "begins by chance"),
        ("0001-zeros.yaml", "count: 1", "count: 2"),
        (f"../{PINS}", '"size": ', '"size": 1'),
        (f"../{PINS}", '"packages": ["demo"]', '"packages": ["demo"], "in-wheel": {"src": "demo"}'),
    ],
)
def test_no_kept_verdict_is_stale(library: Library, file: str, old: str, new: str) -> None:
    said(library)
    forget_release(library)
    path = library.root / "demo" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(FetchError):
        status(library, "demo", [])


@pytest.mark.parametrize("text", ["", "{}", '{"verdicts": [{"patch": "other.patch"}]}', "\0"])
def test_a_damaged_verdict_is_made_again(library: Library, text: str) -> None:
    first = said(library)
    (kept,) = library.store.root.glob("verdicts/*/row.json")
    whole = kept.read_bytes()
    kept.write_text(text, encoding="utf-8")
    assert said(library) == first
    assert kept.read_bytes() == whole
