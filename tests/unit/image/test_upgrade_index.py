"""``lock --upgrade engine`` on an index in a folder, with odd and hostile files: one error, nothing written."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.cli.build.lock import MOST, print_upgrade
from gb10.errors import FetchError, Gb10Error, LockStaleError, PatchError, UsageError
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import load_recipe, lock_path, write_lock
from gb10.image.lock.moves import Move
from gb10.image.upgrade.news import News, Place
from gb10.image.upgrade.outcomes import Checked, Patched
from gb10.image.upgrade.proposal import check_writable, propose, write
from tests.recipes import empty_lock, small_recipe

DRIVES = ("gb10.image.lock.offered",)  # through others: see tests/mutations.py

TEXT = small_recipe("sources: {eng: {sdist: eng==1.0}}\n", requirements="[eng==1.0]").replace(
    'engine: small\nversion: "1"', 'engine: eng\nversion: "1.0"'
)
Offer = Callable[..., None]


@pytest.fixture
def index(tmp_path: Path) -> Offer:
    """Put a file on the index's page of the engine."""
    folder = tmp_path / "simple/eng"
    folder.mkdir(parents=True)

    def offer(name: str, content: bytes = b"", *, sha256: str = "", yanked: bool = False) -> None:
        (folder / name).write_bytes(content)
        found = sha256 or hashlib.sha256(content).hexdigest()
        line = f'<a href="{name}#sha256={found}"{" data-yanked" if yanked else ""}>{name}</a>\n'
        with (folder / "index.html").open("a", encoding="utf-8") as page:
            page.write(line)

    return offer


def index_context(tmp_path: Path) -> Context:
    """A context whose package index is a folder below ``tmp_path``."""
    env = {
        "GB10_CACHE_DIR": str(tmp_path / "store"),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PIP_INDEX_URL": (tmp_path / "simple").as_uri(),
    }
    return open_context(env, verbosity=-1)


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return index_context(tmp_path)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipes/eng.yaml"
    path.parent.mkdir()
    path.write_text(TEXT, encoding="utf-8")
    write_lock(lock_path(path), empty_lock(load_recipe(path)))
    return path


def archive(name: str, metadata: bytes | None) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for path, content in (("setup.py", b""), ("PKG-INFO", metadata)):
            if content is not None:
                entry = tarfile.TarInfo(f"{name}/{path}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def offer_release(index: Offer, version: str, metadata: bytes | None = b"Name: eng\n") -> None:
    index(f"eng-{version}.tar.gz", archive(f"eng-{version}", metadata))
    index(f"eng-{version}-py3-none-any.whl", version.encode())


def refused(ctx: Context, recipe: Path, asked: str | None = None) -> Gb10Error:
    before = {path: path.read_bytes() for path in recipe.parent.iterdir()}
    with pytest.raises(Gb10Error) as caught:
        propose(ctx, recipe, asked)
    assert {path: path.read_bytes() for path in recipe.parent.iterdir()} == before
    return caught.value


def test_nothing_newer(ctx: Context, recipe: Path, index: Offer, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("0.9", "1.0", "1.1rc1"):
        offer_release(index, version)
    index("eng-1.2-cp313-cp313-manylinux_2_28_x86_64.whl")
    index("other-9.9.tar.gz")
    found = propose(ctx, recipe, None)
    assert (found.moves, found.text, str(found.new)) == ((), TEXT, "1.0")
    assert found.notes == (
        "eng 1.2 is not proposed: it has no wheel for aarch64 and Python 3.13",
        "eng 1.1rc1 is not proposed: it is a pre-release",
    )
    print_upgrade(ctx, found, as_json=False)
    assert f"{recipe}: eng 1.0 stays, nothing newer is proposed\n  eng 1.2 is not" in capsys.readouterr().out
    print_upgrade(ctx, found, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["written"], document["not_proposed"]) == (
        "gb10/upgrade/v1",
        False,
        list(found.notes),
    )


def test_releases_that_cannot_be_asked_for(ctx: Context, recipe: Path, index: Offer) -> None:
    for version in ("0.9", "1.0", "2.0"):
        offer_release(index, version)
    index("eng-1.5-py3-none-any.whl", yanked=True)
    for asked, said in (
        ("9.9", "the package index has no eng 9.9"),
        ("0.9", "eng 0.9 is older than the recipe's 1.0"),
        ("1.5", "eng 1.5 was yanked by its publishers"),
        ("main", "--to main is not a release"),
        ("9" * 5000, f"--to {'9' * 100} is not a release"),
    ):
        error = refused(ctx, recipe, asked)
        assert (type(error), error.message) == (UsageError, said)
        assert error.hint
    assert refused(ctx, recipe, "9.9").hint == "choose one of its releases: --to VERSION"


def test_an_index_without_the_engine_or_without_an_answer(ctx: Context, recipe: Path, tmp_path: Path) -> None:
    assert refused(ctx, recipe).message == "the package index has no eng"
    (tmp_path / "simple/eng").mkdir(parents=True)
    (tmp_path / "simple/eng/index.html").write_bytes(b"<a>" * 2_000_000)
    error = refused(ctx, recipe)
    assert isinstance(error, FetchError)
    assert "its page is not a project page" in error.message


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (archive("eng-2.0", None), FetchError, "eng 2.0 has no usable metadata"),
        (archive("eng-2.0", b"x" * (5 << 20)), FetchError, "eng 2.0 has no usable metadata"),
        (b"no archive", PatchError, "eng-2.0.tar.gz is no source tree"),
    ],
)
def test_a_release_with_a_hostile_archive(
    hostile: Callable[[bytes], Gb10Error], content: bytes, kind: type[Gb10Error], said: str
) -> None:
    error = hostile(content)
    assert isinstance(error, kind)
    assert said in error.message
    assert error.hint


@pytest.fixture
def hostile(ctx: Context, recipe: Path, index: Offer) -> Callable[[bytes], Gb10Error]:
    """The error of a release with this source archive."""

    def meet(content: bytes) -> Gb10Error:
        offer_release(index, "1.0")
        index("eng-2.0-py3-none-any.whl")
        index("eng-2.0.tar.gz", content)
        return refused(ctx, recipe)

    return meet


def test_a_file_that_is_not_what_the_index_says(ctx: Context, recipe: Path, index: Offer) -> None:
    offer_release(index, "1.0")
    index("eng-2.0-py3-none-any.whl")
    index("eng-2.0.tar.gz", archive("eng-2.0", b""), sha256="0" * 64)
    assert "is not the file that was locked" in refused(ctx, recipe).message


def test_recipes_that_cannot_move(ctx: Context, recipe: Path, index: Offer) -> None:
    offer_release(index, "2.0")
    recipe.write_text(TEXT.replace("[eng==1.0]", "[eng==1.0, pip]"), encoding="utf-8")
    assert isinstance(refused(ctx, recipe), LockStaleError)
    recipe.write_text(TEXT.replace("[eng==1.0]", "[eng>=1.0]").replace('"1.0"', '"1"'), encoding="utf-8")
    with pytest.raises(UsageError):
        propose(ctx, recipe, None)
    loose = TEXT.replace("requirements: [eng==1.0]", "requirements: [pip]")
    recipe.write_text(loose, encoding="utf-8")
    write_lock(lock_path(recipe), empty_lock(load_recipe(recipe)))
    assert "requires no eng==RELEASE" in refused(ctx, recipe).message


def test_both_files_are_written_or_neither(
    ctx: Context, recipe: Path, index: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_release(index, "1.0")
    found = propose(ctx, recipe, None)
    locked = lock_path(recipe).read_bytes()
    recipe.chmod(0o640)
    recipe.write_text(TEXT + "# mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match="changed while its next release was looked for"):
        write(found)
    assert recipe.read_text(encoding="utf-8") == TEXT + "# mine\n"
    recipe.write_text(TEXT, encoding="utf-8")
    lock_path(recipe).unlink()
    lock_path(recipe).mkdir()
    with pytest.raises(UsageError, match="cannot write the lock"):
        write(found)
    assert recipe.read_text(encoding="utf-8") == TEXT
    lock_path(recipe).rmdir()
    write(found)
    assert lock_path(recipe).read_bytes() == locked
    assert recipe.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in recipe.parent.iterdir()) == ["eng.lock.json", "eng.yaml"]
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError, match="cannot write the image recipe") as caught:
        check_writable(recipe)
    assert "is read-only" in (caught.value.where or "")


def test_what_an_upgrade_would_change_is_printed(
    ctx: Context, recipe: Path, index: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer_release(index, "1.0")
    plain = propose(ctx, recipe, None)

    def patched(name: str, before: str, after: str, remedy: str = "") -> Patched:
        return Patched(
            source="eng",
            patch=name,
            release="eng 2",
            before=before,
            after=after,
            why=f"{name}s",
            stops=False,
            remedy=remedy,
        )

    moved = (
        Move(what="torch", at=("requirements", 0), before="1", after="2", why="eng needs it"),
        Move(what="eng", at=("sources", "eng"), before="a" * 40, after="b" * 40, why="asked for"),
    )
    patches = (
        patched("same", "applied", "applied"),
        patched("gone", "applied", "upstream"),
        patched("new", "", "applied"),
    )
    mended = patched("mend", "applied", "applied", remedy="refresh it")
    wheels = tuple((f"w{number:03}", "1" if number else "", "2") for number in range(MOST))
    places = tuple(Place(path=f"p{number}", new=not number, lines=number + 1, first="x") for number in range(MOST))
    found = replace(
        plain,
        moves=moved,
        wheels=(("torch", "1", "2"), *wheels),
        checked=Checked(patches=(*patches, mended)),
        news=News(options=("--x",), environment=("X",), packages=("p",), places=places),
        lines=((7, "eng 1.0"),),
    )
    print_upgrade(ctx, found, as_json=False)
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert ["torch", "(requirements)", "1", "2", "eng", "needs", "it"] in rows
    assert ["eng", "(sources)", "a" * 12, "b" * 12, "asked", "for"] in rows
    assert (["w000", "-", "2"] in rows, [f"w{MOST - 1:03}", "1", "2"] in rows) == (True, True)
    assert not [row for row in rows if row[:1] == ["torch"] and len(row) == 3], "a pin is no other wheel"
    assert ["eng/same", "eng", "2", "applied", "applied"] in rows, "what stays needs no reason"
    assert ["eng/gone", "eng", "2", "applied", "upstream", "gones"] in rows
    assert ["eng/new", "eng", "2", "-", "applied", "news"] in rows
    assert ["eng/mend", "eng", "2", "applied", "applied", "mends"] in rows
    assert (
        "  option --x\n  environment X\n  optional package p\n  p0 (new file), 1 line: x\n  p1, 2 lines: x\n" in printed
    )
    assert "  7: eng 1.0\n" in printed
    assert "listed by --json" not in printed and "next:" not in printed
    more = replace(
        found,
        wheels=(*found.wheels, ("z", "1", "2"), ("y", "1", "2")),
        news=News(places=(*places, places[0])),
        steps=("do",),
    )
    print_upgrade(ctx, more, as_json=False)
    printed = capsys.readouterr().out
    assert "and 2 more, listed by --json" in printed and "  and 1 more files, listed by --json" in printed
    assert "next:\n  do\n" in printed
    print_upgrade(ctx, replace(found, wheels=(("torch", "1", "2"),), checked=Checked()), as_json=False)
    printed = capsys.readouterr().out
    assert "other wheels" not in printed and "release" not in printed.partition("\n\n")[2].partition("new for")[0]
