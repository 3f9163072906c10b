"""Carrying a patch over to a drifted file: what moved is followed, what upstream changed itself is a conflict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gb10.image.patches.apply import ConflictError, apply_diff
from gb10.image.patches.diff import parse_diff
from gb10.image.patches.write import carry_over, file_diff

BASE = b"".join(b"line %d\n" % number for number in range(1, 21))
PATCHED = BASE.replace(b"line 10\n", b"line ten\n").replace(b"line 15\n", b"line 15\nmore\n")


@pytest.mark.parametrize(
    ("drift", "expected"),
    [
        ((b"line 9\n", b"line nine\n"), PATCHED.replace(b"line 9\n", b"line nine\n")),
        ((b"line 1\n", b"import os\n\nline 1\n"), PATCHED.replace(b"line 1\n", b"import os\n\nline 1\n")),
        ((b"line 17\n", b"line 16b\nline 17\n"), PATCHED.replace(b"line 17\n", b"line 16b\nline 17\n")),
        ((b"line 20\n", b"line 20\nend\n"), PATCHED + b"end\n"),
    ],
)
def test_changes_follow_their_place(drift: tuple[bytes, bytes], expected: bytes) -> None:
    tree = BASE.replace(*drift)
    assert carry_over("f.py", BASE, PATCHED, tree) == expected
    (diff,) = parse_diff(file_diff("f.py", tree, expected), "new.patch")
    assert apply_diff(diff, tree).content == expected


@pytest.mark.parametrize("lost", [b"line 10\n", b"line 15\nline 16\n"])
def test_what_upstream_changed_itself_is_never_guessed(lost: bytes) -> None:
    with pytest.raises(ConflictError, match="upstream changed the lines"):
        carry_over("f.py", BASE, PATCHED, BASE.replace(lost, b"other\n"))


@pytest.mark.parametrize("theirs", [b"line 15\ntheirs\nline 16\n", b"line 15\nsixteen\n", b"line 16\n"])
def test_lines_are_added_between_the_same_two_alone(theirs: bytes) -> None:
    tree = BASE.replace(b"line 15\nline 16\n", theirs)
    with pytest.raises(ConflictError, match="between which the patch adds"):
        carry_over("f.py", BASE, PATCHED, tree)


@pytest.mark.parametrize(("patched", "tree"), [(b"ours\n" + BASE, b"theirs\n" + BASE), (BASE + b"o\n", BASE + b"t\n")])
def test_two_additions_at_an_end_of_the_file_are_a_conflict(patched: bytes, tree: bytes) -> None:
    with pytest.raises(ConflictError, match="between which the patch adds"):
        carry_over("f.py", BASE, patched, tree)
    assert carry_over("f.py", BASE, patched, BASE) == patched


def test_a_conflict_names_what_stands_there_now() -> None:
    with pytest.raises(ConflictError) as caught:
        carry_over("f.py", BASE, PATCHED, BASE.replace(b"line 16\n", b"theirs\nline 16\n"))
    conflict = caught.value.conflict
    assert (conflict.line, conflict.expected, conflict.found) == (16, "line 16", "theirs")


@pytest.mark.parametrize(("before", "after", "kind"), [(None, b"", "add"), (b"", None, "delete")])
def test_an_empty_file_is_written_as_its_header(before: bytes | None, after: bytes | None, kind: str) -> None:
    text = file_diff("pkg/f.py", before, after)
    mode = b"new" if kind == "add" else b"deleted"
    assert text == b"diff --git a/pkg/f.py b/pkg/f.py\n" + mode + b" file mode 100644\n"
    (diff, other) = parse_diff(text + file_diff("pkg/g.py", b"", b"a\n"), "p")
    assert (diff.kind, apply_diff(diff, before).content) == (kind, after)
    assert apply_diff(other, b"").content == b"a\n"


def test_a_file_that_is_the_same_is_not_written() -> None:
    assert file_diff("pkg/f.py", BASE, BASE) == b""


def test_added_and_deleted_files_are_written_as_git_writes_them() -> None:
    (added,) = parse_diff(file_diff("pkg/f.py", None, b"a\nb"), "p")
    assert (added.kind, apply_diff(added, None).content) == ("add", b"a\nb")
    (gone,) = parse_diff(file_diff("pkg/f.py", b"a\nb", None), "p")
    assert (gone.kind, apply_diff(gone, b"a\nb").content) == ("delete", None)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n"]), max_size=10).map(b"".join)


@given(LINES, LINES)
def test_an_undrifted_file_gets_the_patch_itself(base: bytes, patched: bytes) -> None:
    assert carry_over("f", base, patched, base) == patched
