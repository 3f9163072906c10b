"""A real file of a real release, bent in twenty ways: the right verdict each time, and the tree left as it was."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.image.patches.source_tree import open_tree
from gb10.image.patches.verdict import judge
from gb10.image.plan.catalog import tree_digest
from tests.integration.patches.releases import opened, original, patched, variants

pytestmark = pytest.mark.integration

VERSION = "4.4.2"
PATCH = "0001-warp-mma-accepts-sm121"
FILE = "nvidia_cutlass_dsl/python_packages/cutlass/cute/nvgpu/warp/mma.py"
GATE = "if not arch == Arch.sm_120a:"
OPEN = "if arch not in (Arch.sm_120a, Arch.sm_121a):"
NOTE, ASK = "        # Verify arch\n", "        arch = CuTeDSL._get_dsl().get_arch_enum()\n"
HEAD = f"{NOTE}{ASK}        {GATE}"
OTHER_WORDS = "if arch not in [Arch.sm_120a, Arch.sm_121a, Arch.sm_121f]:"
LIST = f'        "sm_120a",\n    ]\n\n    def __post_init__(self) -> None:\n{HEAD}'

Bend = Callable[[Path], None]


def text(change: Callable[[str], str]) -> Bend:
    def bend(path: Path) -> None:
        before = path.read_bytes().decode()
        after = change(before)
        assert after != before
        path.write_bytes(after.encode())

    return bend


def swap(old: str, new: str) -> Bend:
    return text(lambda content: content.replace(old, new, 1))


def moved(path: Path) -> None:
    other = path.parents[2] / "elsewhere/nvgpu/warp/mma.py"
    other.parent.mkdir(parents=True)
    shutil.move(path, other)


def doubled(path: Path) -> None:
    copy = path.parents[2] / "copy/nvgpu/warp/mma.py"
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)


def fixed(path: Path) -> None:
    path.write_text(patched("cutlass-dsl", VERSION, PATCH, FILE), encoding="utf-8")


def linked(path: Path) -> None:
    inside = path.with_name("real.py")
    path.rename(inside)
    path.symlink_to(inside.name)


BENDS: dict[str, tuple[Bend, str]] = {
    "untouched": (lambda path: None, "applies"),
    "lines above": (text(lambda content: "# one\n# two\n" + content), "applies"),
    "lines below": (text(lambda content: content + "\n# end\n"), "applies"),
    "another class changed": (swap("class MmaF16BF16Op", "class  MmaF16BF16Op"), "applies"),
    "a link within the tree": (linked, "applies"),
    "applied by us": (fixed, "already-upstream"),
    "fixed in other words": (swap(GATE, OTHER_WORDS), "already-upstream"),
    "fixed, list left": (swap(GATE, OPEN), "already-upstream"),
    "context line changed": (swap(HEAD, HEAD.replace("Verify", "Check")), "conflict"),
    "context line removed": (swap(HEAD, HEAD.removeprefix(NOTE)), "conflict"),
    "space at a line's end": (swap(f"{GATE}\n", f"{GATE} \n"), "conflict"),
    "tabs": (swap(f"{GATE}\n            raise", f"{GATE}\n\t\traise"), "unknown-shape"),
    "CRLF": (text(lambda content: content.replace("\n", "\r\n")), "conflict"),
    "half applied, the list": (swap(LIST, LIST.replace('0a",\n', '0a",\n        "sm_121a",\n', 1)), "conflict"),
    "moved": (moved, "conflict"),
    "there twice": (doubled, "unknown-shape"),
    "gate rewritten": (swap(GATE, "if not is_blackwell(arch):"), "unknown-shape"),
    "gate both ways": (swap(GATE, f"{GATE}\n            pass\n        {OPEN}"), "unknown-shape"),
    "no Python any more": (text(lambda content: content.replace("def __post_init__", "def  (", 1)), "unknown-shape"),
    "file gone": (lambda path: path.unlink(), "unknown-shape"),
    "file empty": (text(lambda content: ""), "unknown-shape"),
}


@pytest.mark.parametrize("name", BENDS)
def test_a_bent_tree_gets_the_right_verdict_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tree" / FILE
    path.parent.mkdir(parents=True)
    path.write_text(original("cutlass-dsl", VERSION, FILE), encoding="utf-8")
    bend, expected = BENDS[name]
    bend(path)
    before = tree_digest(tmp_path / "tree")
    (patch,) = variants("cutlass-dsl", PATCH)
    verdict = judge(patch, Version(VERSION), open_tree(tmp_path / "tree"))
    assert verdict.outcome == expected, verdict.why
    assert tree_digest(tmp_path / "tree") == before


def test_there_are_twenty() -> None:
    assert len(BENDS) > 20
    assert opened("cutlass-dsl", VERSION).pinned
