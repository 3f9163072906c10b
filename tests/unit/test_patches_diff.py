"""Reading and strictly applying a diff: what is refused, what moves, what conflicts."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gb10.errors import PatchError
from gb10.patches.apply import ConflictError, apply_diff
from gb10.patches.diff import MOST_BYTES, FileDiff, check_size, parse_diff

BEFORE = b"".join(b"line %d\n" % number for number in range(1, 21))
AFTER = BEFORE.replace(b"line 10\n", b"line ten\n")


def diff_of(before: bytes, after: bytes, path: str = "pkg/file.py", context: int = 3) -> bytes:
    lines = difflib.unified_diff(
        before.decode().splitlines(keepends=True), after.decode().splitlines(keepends=True),
        f"a/{path}", f"b/{path}", n=context)  # fmt: skip
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(ended).encode()


def one(text: bytes) -> FileDiff:
    (diff,) = parse_diff(text, "p.patch")
    return diff


def test_a_hunk_applies_where_it_says_and_back() -> None:
    diff = one(diff_of(BEFORE, AFTER))
    assert apply_diff(diff, BEFORE).content == AFTER
    assert apply_diff(diff.reversed(), AFTER).content == BEFORE


def test_a_moved_hunk_applies_and_its_offset_is_told() -> None:
    applied = apply_diff(one(diff_of(BEFORE, AFTER)), b"new\n" * 5 + BEFORE)
    assert (applied.content, applied.offsets) == (b"new\n" * 5 + AFTER, (5,))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (BEFORE.replace(b"line 9\n", b"line nine\n"), "file.py:9: the context changed"),
        (BEFORE.replace(b"\n", b"\r\n"), "line ends"),
        (BEFORE[100:] + BEFORE + BEFORE, "several places"),
        (None, "no such file"),
        (AFTER.replace(b"line 3\n", b"line three\n"), "half applied"),
        (b"", "the context changed"),
    ],
)
def test_what_does_not_fit_exactly_is_a_conflict(content: bytes | None, why: str) -> None:
    with pytest.raises(ConflictError, match=why):
        apply_diff(one(diff_of(BEFORE, AFTER)), content)


def test_a_conflict_names_the_line_and_both_texts() -> None:
    with pytest.raises(ConflictError) as caught:
        apply_diff(one(diff_of(BEFORE, AFTER)), BEFORE.replace(b"line 11\n", b"line eleven\n"))
    conflict = caught.value.conflict
    assert (conflict.line, conflict.expected, conflict.found) == (11, "line 11", "line eleven")


def test_files_are_added_and_deleted() -> None:
    added = b"--- /dev/null\n+++ b/pkg/new.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert apply_diff(one(added), None).content == b"a\nb\n"
    with pytest.raises(ConflictError, match="already there"):
        apply_diff(one(added), b"")
    assert apply_diff(one(added).reversed(), b"a\nb\n").content is None
    with pytest.raises(ConflictError, match="holds more"):
        apply_diff(one(added).reversed(), b"a\nb\nc\n")


HEAD = b"diff --git a/pkg/f.py b/pkg/f.py\n"
BODY = b"--- a/pkg/f.py\n+++ b/pkg/f.py\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BODY.replace(b"b/pkg/f.py", b"b/../f.py"), "not one below"),
        (BODY.replace(b"a/pkg/f.py", b"/etc/passwd").replace(b"b/pkg/f.py", b"/etc/passwd"), "not one below"),
        (BODY.replace(b"a/pkg/f.py", b'"a/pkg/\\303.py"'), "not one below"),
        (HEAD + b"GIT binary patch\nliteral 3\n", "binary"),
        (HEAD + b"Binary files a/x and b/x differ\n", "binary"),
        (HEAD + b"old mode 100644\nnew mode 100755\n" + BODY, "mode"),
        (HEAD + b"new file mode 120000\n" + BODY, "not a plain one"),
        (HEAD + b"rename from pkg/f.py\nrename to pkg/g.py\n", "rename"),
        (BODY + BODY, "twice"),
        (BODY.replace(b"@@ -1 +1 @@", b"@@ -1,9 +1 @@"), "ends before"),
        (BODY.replace(b"@@ -1 +1 @@", b"@@ x @@"), "damaged"),
        (BODY.replace(b"-a", b"*a"), "no sign"),
        (b"just text\n", "changes nothing"),
    ],
)
def test_a_diff_that_no_one_should_apply_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(PatchError, match=why):
        parse_diff(text, "p.patch")


def test_a_huge_patch_is_refused_before_it_is_read() -> None:
    with pytest.raises(PatchError, match="100 MB"):
        check_size(100_000_000, "p.patch")
    check_size(MOST_BYTES, "p.patch")


LINES = st.lists(st.sampled_from(["a", "b", "", "  c"]), max_size=12)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_any_edit_applies_to_its_own_file_and_back(old: list[str], new: list[str], cut: bool, end: bool) -> None:
    before, after = ("\n".join(lines) + ("" if bare else "\n") for lines, bare in ((old, cut), (new, end)))
    if before == after or not before or not after:
        return
    diff = one(diff_of(before.encode(), after.encode(), context=30))
    assert apply_diff(diff, before.encode()).content == after.encode()
    assert apply_diff(diff.reversed(), after.encode()).content == before.encode()
