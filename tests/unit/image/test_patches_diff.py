"""Reading and strictly applying a diff: what is refused, what moves, what conflicts."""

import difflib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gb10.errors import PatchError
from gb10.image.patches.apply import ConflictError, apply_diff
from gb10.image.patches.diff import MOST_BYTES, FileDiff, check_size, parse_diff
from gb10.image.patches.write import file_diff

BEFORE = b"".join(b"line %d\n" % number for number in range(1, 21))
AFTER = BEFORE.replace(b"line 10\n", b"line ten\n")
HEAD = b"diff --git a/pkg/f.py b/pkg/f.py\n"
BODY = b"--- a/pkg/f.py\n+++ b/pkg/f.py\n@@ -1 +1 @@\n-a\n+b\n"
NAMES = b"--- a/pkg/f.py\n+++ b/pkg/f.py\n"
NOTE = b"\\ No newline at end of file\n"


def diff_of(before: bytes, after: bytes, path: str = "pkg/file.py", context: int = 3) -> bytes:
    lines = difflib.unified_diff(
        before.decode().splitlines(keepends=True),
        after.decode().splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
        n=context,
    )
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
    with pytest.raises(ConflictError, match="as the whole file, which they are not"):
        apply_diff(one(added).reversed(), b"a\nb\nc\n")
    with pytest.raises(ConflictError, match="the context changed"):
        apply_diff(one(added).reversed(), b"a\nc\n")


EMPTY = b"diff --git a/pkg/my f.py b/pkg/my f.py\nnew file mode 100644\nindex 0000000..e69de29\n"


@pytest.mark.parametrize("end", [b"", HEAD + BODY, b"-- \n2.47.0\n", b"\nFrom 00\n"])
def test_an_empty_file_is_its_header(end: bytes) -> None:
    diff = parse_diff(EMPTY + end, "p.patch")[0]
    assert (diff.path, diff.kind, diff.hunks) == ("pkg/my f.py", "add", ())
    assert apply_diff(diff, None).content == b""
    assert apply_diff(diff.reversed(), b"").content is None
    with pytest.raises(ConflictError, match="not empty any more"):
        apply_diff(diff.reversed(), b"a\n")
    gone = EMPTY.replace(b"new", b"deleted").replace(b"0000000..e69de29", b"e69de29..0000000")
    assert parse_diff(gone + end, "p.patch")[0] == diff.reversed()


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
        (HEAD + b"new file mode 100755\n" + BODY, r"not a plain one \(mode 100755\)"),
        (HEAD + b"deleted file mode 120000\n" + BODY, "not a plain file"),
        (HEAD + b"index 1234567..89abcde 160000\n" + BODY, "not a plain file"),
        (b"Only in b: x\nBinary files a/x.so and b/x.so differ\n" + BODY, "binary"),
        (HEAD + b"rename from pkg/f.py\nrename to pkg/g.py\n", "rename"),
        (BODY + BODY, "twice"),
        (BODY.replace(b"@@ -1 +1 @@", b"@@ -1,9 +1 @@"), "is shorter than"),
        (BODY.replace(b"@@ -1 +1 @@", b"@@ x @@"), "damaged"),
        *((BODY.replace(b"-1", b"-%s" % many), "damaged") for many in (b"9" * 5000, b"1," + b"9" * 5000)),
        (BODY.replace(b"-a", b"*a"), "no sign"),
        (b"just text\n", "changes nothing"),
        (HEAD + b"index 1234567..89abcde 100644\n", "without a hunk"),
        (HEAD + b"new file mode 100644\nindex 0000000..3b18e51\n", "without a hunk"),
        (HEAD + b"new file mode 100644", "in the middle of a line"),
        (HEAD.replace(b"b/pkg", b"b/etc") + b"new file mode 100644\n", "without a hunk"),
        (HEAD.replace(b"/pkg", b"/../..") + b"new file mode 100644\n", "not one below"),
        (HEAD + b"new file mode 100644\n" + BODY, "does not say"),
        (HEAD.replace(b"f.py", b"g.py") + BODY, "does not say"),
        (BODY.replace(b"a/pkg/f.py", b"/dev/null").replace(b"b/pkg/f.py", b"/dev/null"), "into /dev/null"),
        (BODY.replace(b"a/pkg/f.py", b"/dev/null"), "to add a file takes one hunk"),
        (BODY.replace(b"b/pkg/f.py", b"/dev/null"), "to delete a file takes one hunk"),
        (NAMES + b"@@ -2,0 +3 @@\n+a\n", "without lines of context"),
        (NAMES + b"@@ -1,0 +2 @@\n+a\n", "without lines of context"),
        (NAMES + b"@@ -2 +2 @@\n-a\n+b\n", "without lines of context"),
        (BODY.removesuffix(b"\n"), "in the middle of a line"),
        (BODY.removesuffix(b"b\n"), "in the middle of a line"),
        (NAMES + b"@@ -0,0 +0,0 @@\n", "changes nothing"),
        (NAMES + b"@@ -1 +1 @@\n a\n", "changes nothing"),
        (NAMES + b"@@ -1 +1 @@\n" + NOTE + b"-a\n+b\n", "follows no line"),
        (NAMES + b"@@ -0,0 +0,0 @@\n" + NOTE, "follows no line"),
        (BODY + NOTE + NOTE, "follows no line"),
        (NAMES + b"@@ -1 +1,2 @@\n-a\n+b\n" + NOTE + b"+c\n", "goes on after the last line"),
        (BODY + b"+c\n", "longer"),
        (NAMES + b"@@ -1 +1,2 @@\n-a\n-b\n+c\n", "longer"),
        (b"@@ -1 +1 @@\n-a\n+b\n" + BODY, "without the header"),
    ],
)
def test_a_diff_that_no_one_should_apply_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(PatchError, match=why):
        parse_diff(text, "p.patch")


def test_a_huge_patch_is_refused_before_it_is_read() -> None:
    with pytest.raises(PatchError, match="100 MB"):
        check_size(100_000_000, "p.patch")
    check_size(MOST_BYTES, "p.patch")


def test_the_words_of_a_header_are_free_in_a_message() -> None:
    message = b"rename from a to b\n\nold mode was fine, new file mode 120000 is not,\nBinary files are none.\n---\n"
    assert one(message + HEAD + b"index 1234567..89abcde 100644\n" + BODY + b"-- \n2.47.0\n") == one(BODY)


@pytest.mark.parametrize(
    ("lost", "tree", "why"),
    [
        (b"line 2\n", b"new\n" + BEFORE, "as its start, which they are not"),
        (b"line 20\n", BEFORE + b"new\n", "as its end, which they are not"),
        (b"line 2\n", BEFORE + b"new\n", None),
        (b"line 20\n", b"new\n" + BEFORE, None),
        (b"line 19\n", b"new\n" + BEFORE + b"new\n", None),
    ],
)
def test_a_hunk_of_the_start_or_the_end_stands_only_there(lost: bytes, tree: bytes, why: str | None) -> None:
    diff = one(diff_of(BEFORE, BEFORE.replace(lost, b""), context=1))
    if why is None:
        assert apply_diff(diff, tree).content == tree.replace(lost, b"")
        return
    with pytest.raises(ConflictError, match=why):
        apply_diff(diff, tree)


def test_of_several_places_the_one_told_is_taken_while_nothing_moved() -> None:
    before = b"".join(b"head %d\nx\ny\nz\n" % number for number in range(6))
    after = before.replace(b"head 1\n", b"head one\n")
    after = after[:40] + after[40:].replace(b"x\ny\nz\nhead 4", b"x\nY\nz\nhead 4")
    diff = one(diff_of(before, after, context=1))
    assert len(diff.hunks) == 2
    assert apply_diff(diff, before).content == after
    assert apply_diff(diff.reversed(), after).content == before
    with pytest.raises(ConflictError, match="several places"):
        apply_diff(diff, b"new\n" * 4 + before)


def test_a_hunk_does_not_reach_into_the_one_before_it() -> None:
    text = NAMES + b"@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -2,2 +2,2 @@\n b\n-c\n+C\n"
    with pytest.raises(ConflictError, match="the hunk before it reaches there"):
        apply_diff(one(text), b"a\nb\nc\n")


LINES = st.lists(st.sampled_from(["a", "b", "", "  c"]), max_size=12)


CONTENTS = st.builds(lambda lines, cut: ("\n".join(lines) + "\n" * (not cut)).encode(), LINES, st.booleans())


@given(CONTENTS | st.just(b""), CONTENTS | st.just(b""), st.integers(1, 30))
def test_any_edit_applies_to_its_own_file_and_back(before: bytes, after: bytes, context: int) -> None:
    assume(before != after)
    diff = one(diff_of(before, after, context=context))
    assert apply_diff(diff, before).content == after
    assert apply_diff(diff.reversed(), after).content == before


@given(CONTENTS | st.just(b""))
def test_any_whole_file_is_added_and_deleted(content: bytes) -> None:
    for diff in (one(file_diff("pkg/f.py", None, content)), one(file_diff("pkg/f.py", content, None)).reversed()):
        assert (diff.path, diff.kind, len(diff.hunks)) == ("pkg/f.py", "add", bool(content))
        assert apply_diff(diff, None).content == content
        assert apply_diff(diff.reversed(), content).content is None


def test_a_line_number_of_thousands_of_digits_is_one_error() -> None:
    text = b"--- a/a.py\n+++ b/a.py\n@@ -" + b"1" * 4301 + b" +1 @@\n-a\n+b\n"
    with pytest.raises(PatchError, match="a hunk's header is damaged"):
        parse_diff(text, "long.patch")
