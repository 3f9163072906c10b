"""Our strict application against ``git apply`` itself: Debian's git, in a root of its own, on the real releases."""

import difflib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gb10.core.proc import CommandFailedError, capture
from gb10.errors import PatchError
from gb10.image.patches.apply import ConflictError, apply_diff
from gb10.image.patches.diff import parse_diff, split
from gb10.image.patches.series import load_series
from gb10.image.patches.source_tree import Changed
from gb10.image.patches.verdict import Verdict, changes_of
from tests.integration.patches.releases import ctx, opened, rows_of
from tests.integration.patches.test_matrix import SOURCES

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def root(git_root: Path) -> Path:
    return git_root


def git_apply(root: Path, text: bytes, files: dict[str, bytes]) -> dict[str, bytes]:
    """All files after ``git apply``; raises CommandFailedError when git refuses."""
    tree = root / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content)
    (root / "it.patch").write_bytes(text)
    capture(
        ["chroot", str(root), "git", "-C", "/tree", "apply", "/it.patch"],
        env={"PATH": "/usr/sbin:/usr/bin", "HOME": "/"},
    )
    return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def cells() -> Iterator[tuple[str, Verdict, dict[str, bytes]]]:
    """Every cell of the matrix in which a patch applies, with the files as the earlier patches leave them."""
    for source in SOURCES:
        for row in rows_of(source):
            for verdict in row.verdicts:
                if verdict.outcome == "applies":
                    earlier = [one for one in row.verdicts if one.patch.id < verdict.patch.id]
                    yield str(row.version), verdict, before_of(verdict, str(row.version), earlier)


@pytest.mark.slow
def test_git_makes_the_same_bytes_wherever_a_patch_applies(root: Path) -> None:
    compared = 0
    for version, verdict, before in cells():
        patch = verdict.patch
        changes = {path: content for path, content in verdict.changes.items() if path not in patch.files}
        expected = {path: content for path, content in changes.items() if content is not None}
        assert git_apply(root, patch.text, before) == expected, (patch.place, version)
        compared += 1
    assert compared > 30


def before_of(verdict: Verdict, version: str, earlier: list[Verdict]) -> dict[str, bytes]:
    """The files that a patch touches, with the earlier patches of its series in them."""
    tree = Changed(opened(verdict.patch.source, version).tree, changes_of(earlier))
    return {diff.path: content for diff in verdict.patch.diffs if (content := tree.read(diff.path)) is not None}


def test_git_refuses_what_we_refuse(root: Path) -> None:
    (patch,) = [patch for patch in load_series(ctx().catalog.patches, "cutlass-dsl") if patch.id.startswith("0001")]
    (diff,) = patch.diffs
    content = opened("cutlass-dsl", "4.4.2").tree.read(diff.path)
    assert content is not None
    for bent in (content.replace(b"# Verify arch", b"# Check arch"), content.replace(b"\n", b"\r\n")):
        assert bent != content
        with pytest.raises(ConflictError):
            apply_diff(diff, bent)
        with pytest.raises(CommandFailedError):
            git_apply(root, patch.text, {diff.path: bent})


PATH = "pkg/f.py"
LINE = st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n"])
LINES = st.lists(LINE, max_size=2)
LAST = st.sampled_from((0, 0, 0, 0, 0, 1))
EDIT = st.tuples(st.integers(0, 9), st.integers(0, 2), LINES)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A diff of a small file, and the file that it meets."""

    text: bytes
    tree: bytes | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Edits with 0 to 3 lines of context; lines above, below and within that drifted; now and then a cut."""
    before = draw(st.lists(LINE, max_size=10))
    drifts = draw(st.booleans())
    after, tree = list(before), list(before)
    for at, gone, lines in draw(st.lists(EDIT, min_size=1, max_size=2)):
        after[at : at + gone] = lines
    for at, gone, lines in draw(st.lists(EDIT, max_size=drifts)):
        tree[at : at + gone] = lines
    tree = [*draw(LINES), *tree, *draw(LINES)] if drifts else tree
    old, new, now = (b"".join(side)[: -draw(LAST) or None] for side in (before, after, tree))
    kind = draw(st.sampled_from(("change", "change", "change", "add", "delete")))
    text = diff_of(None if kind == "add" else old, None if kind == "delete" else new, draw(st.integers(0, 3)))
    return Case(
        text=text[: -draw(st.sampled_from((*[0] * 8, 1, 9, 30))) or None],
        tree=None if kind == "add" and draw(st.booleans()) else now,
    )


def diff_of(before: bytes | None, after: bytes | None, context: int) -> bytes:
    """A diff as git writes it, by the standard library."""
    mode = "new file mode 100644\n" if before is None else "deleted file mode 100644\n" if after is None else ""
    old, new = ("/dev/null" if side is None else f"{name}/{PATH}" for name, side in (("a", before), ("b", after)))
    lines = difflib.diff_bytes(
        difflib.unified_diff, split(before or b""), split(after or b""), old.encode(), new.encode(), n=context
    )
    ended = (line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)
    return f"diff --git a/{PATH} b/{PATH}\n{mode}".encode() + b"".join(ended)


def ours(case: Case) -> dict[str, bytes] | None:
    """The tree after our application; None when we refuse."""
    try:
        (diff,) = parse_diff(case.text, "drawn.patch")
        content = apply_diff(diff, case.tree).content
    except (PatchError, ConflictError):
        return None
    return {} if content is None else {PATH: content}


@pytest.mark.slow
def test_what_we_apply_git_applies_to_the_same_bytes(root: Path) -> None:
    accepted = []

    @settings(max_examples=150, derandomize=True, deadline=None, database=None)
    @given(cases())
    def hold(case: Case) -> None:
        expected = ours(case)
        if expected is not None:
            accepted.append(case)
            assert git_apply(root, case.text, {} if case.tree is None else {PATH: case.tree}) == expected

    hold()
    assert len(accepted) > 30
