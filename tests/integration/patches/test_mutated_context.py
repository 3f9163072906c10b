"""A patch with three lines of context on a real release: which changes around it are seen, and what a user gets."""

import ast
from collections.abc import Callable

import pytest

from gb10.image.patches.source_tree import Changed
from gb10.image.patches.verdict import Verdict, judge
from tests.integration.patches.releases import opened, original, patched, variants

pytestmark = pytest.mark.integration

VERSION = "0.5.12.post1"
PATCH = "0003-modelopt-scales-of-local-experts"
FILE = "sglang/srt/layers/quantization/modelopt_quant.py"
SCOPE = ("ModelOptNvFp4FusedMoEMethod", "process_weights_after_loading")


@pytest.fixture(scope="module")
def text() -> str:
    return original("sglang", VERSION, FILE)


@pytest.fixture(scope="module")
def place(text: str) -> int:
    """The index of the first line of the patch's only hunk."""
    (patch,) = variants("sglang", PATCH)
    ((hunk,),) = (diff.hunks for diff in patch.diffs)
    lines = text.splitlines(keepends=True)
    (at,) = (n for n in range(len(lines)) if lines[n : n + 3] == [line.decode() for line in hunk.old])
    return at


def verdict(**files: str) -> Verdict:
    """What becomes of the patch on the release with these files; ``FILE`` is the patched one."""
    release = opened("sglang", VERSION)
    (patch,) = variants("sglang", PATCH)
    changes = {FILE if name == "FILE" else name: content.encode() for name, content in files.items()}
    return judge(patch, release.version, Changed(release.tree, changes))


@pytest.mark.parametrize("offset", [0, 1, 2])
@pytest.mark.parametrize("change", [lambda line: f"{line[:-1]} \n", lambda line: f"# {line}"])
def test_each_line_of_the_hunk_must_be_equal(offset: int, change: Callable[[str], str], text: str, place: int) -> None:
    lines = text.splitlines(keepends=True)
    lines[place + offset] = change(lines[place + offset])
    assert verdict(FILE="".join(lines)).outcome == "unknown-shape"


@pytest.mark.parametrize("offset", [-3, -2, 3, 4])
def test_a_line_outside_the_hunk_may_change(offset: int, text: str, place: int) -> None:
    lines = text.splitlines(keepends=True)
    lines[place + offset] = f"{lines[place + offset][:-1]} \n"
    assert verdict(FILE="".join(lines)).outcome == "applies"


def test_comments_in_front_move_the_hunk_and_text_makes_it_no_module(text: str, place: int) -> None:
    moved = verdict(FILE="# a comment\n" * 400 + text)
    assert (moved.outcome, moved.offsets) == ("applies", {FILE: (400 + place - 1746,)})
    broken = verdict(FILE="words of a text\n" * 400 + text)  # Python cannot import it: no patch makes it right
    assert broken.outcome == "unknown-shape"
    assert "no Python" in broken.why


def test_the_file_twice_is_never_patched_at_one_of_its_places(text: str) -> None:
    assert verdict(**{f"sglang/copy/quantization/{FILE.rsplit('/', 1)[-1]}": text}).outcome == "unknown-shape"
    assert verdict(FILE=text + text).outcome == "unknown-shape"


def test_an_insertion_made_twice_is_neither_needed_nor_there() -> None:
    after = patched("sglang", VERSION, PATCH, FILE)
    (patch,) = variants("sglang", PATCH)
    new = [line.decode() for line in patch.diffs[0].hunks[0].new]
    added = "".join(new[3:-1])
    assert verdict(FILE=after).outcome == "already-upstream"
    assert after.count(added) == 1
    assert verdict(FILE=after.replace(added, added * 2)).outcome == "unknown-shape"


def test_a_function_or_class_that_is_defined_again_below_is_what_runs(text: str) -> None:
    lines = text.splitlines(keepends=True)
    (owner,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == SCOPE[0])
    (method,) = (node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == SCOPE[1])
    end = method.end_lineno or 0
    again = "".join([*lines[:end], f"\n    def {SCOPE[1]}(self, layer):\n        pass\n", *lines[end:]])
    for bent in (again, f"{text}\n\nclass {SCOPE[0]}:\n    pass\n"):
        found = verdict(FILE=bent)
        assert found.outcome == "unknown-shape"
        assert "and again in line" in found.why
