"""``lock --upgrade engine``, its decisions: which release, which pins, how the text changes, what is new for 12.x."""

from dataclasses import replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gb10.core.document import parse_document
from gb10.core.fields import ARCHITECTURES
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.image.lock.moves import Demand, Move, Next, demands, extras_of, nested_moves, no_longer, pins
from gb10.image.lock.offered import check_requested_release, newest, next_release
from gb10.image.lock.resolver import platform_of
from gb10.image.patches.source_tree import Changed, open_tree
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.upgrade.news import news
from gb10.image.upgrade.proposal import edited, left_over
from gb10.sources.index.page import Link
from tests.recipes import small_recipe

PLATFORMS = [platform_of("trixie", "3.13", name) for name in ARCHITECTURES]
VLLM = ROOT / "recipes/images/vllm.yaml"
COMMIT = "1" * 40


def links(*versions: str, machines: tuple[str, ...] = ("aarch64", "x86_64"), yanked: bool = False) -> list[Link]:
    names = [f"vllm-{version}.tar.gz" for version in versions]
    names += [f"vllm-{version}-cp38-abi3-manylinux_2_28_{machine}.whl" for version in versions for machine in machines]
    return [Link(filename=name, url=f"https://index.invalid/{name}", yanked=yanked) for name in names]


def chosen(*offered: Link) -> tuple[str, tuple[str, ...]]:
    found = next_release("vllm", offered, Version("0.33.0"), PLATFORMS)
    return str(found.version), found.notes


def test_the_newest_final_release_with_wheels_is_next() -> None:
    assert chosen(*links("0.32.0", "0.33.0", "0.34.0", "0.33.1")) == ("0.34.0", ())
    assert chosen(*links("0.9.0", "0.33.0", "0.33")) == ("0.33.0", ())


def test_a_release_that_is_not_proposed_is_told_and_why() -> None:
    offered = [
        *links("0.33.0", "0.34.0"),
        *links("0.35.0", machines=("x86_64",)),
        *links("0.36.0", machines=("aarch64",)),
        *links("0.37.0rc1", "0.38.0.dev3"),
        *links("0.39.0", yanked=True),
    ]
    version, notes = chosen(*offered)
    assert version == "0.34.0"
    assert notes == (
        "vllm 0.39.0 is not proposed: its publishers yanked it",
        "vllm 0.38.0.dev3 is not proposed: it is a pre-release",
        "vllm 0.37.0rc1 is not proposed: it is a pre-release",
        "vllm 0.36.0 is not proposed: it has no wheel for x86_64 and Python 3.13",
        "vllm 0.35.0 is not proposed: it has no wheel for aarch64 and Python 3.13",
    )
    assert chosen(*links("0.33.0"), *links("0.34.0", machines=()))[0] == "0.33.0"


def test_odd_files_of_an_index_are_passed_over() -> None:
    names = ["notes.txt", "vllm-.tar.gz", "vllm-1.whl", "vllm-x-y-z.whl", "vllm-99!.zip", "a" * 255, "vllm-9-py3.whl"]
    odd = [Link(filename=name, url="https://index.invalid/x") for name in names]
    assert chosen(*odd, *links("0.34.0")) == ("0.34.0", ())
    many = links(*(f"1.{number}rc1" for number in range(2000)), "0.34.0")
    version, notes = chosen(*many)
    assert (version, len(notes)) == ("0.34.0", 5)


def test_a_release_that_is_asked_for() -> None:
    offered = [*links("0.32.0", "0.33.0", "0.34.0rc1"), *links("0.35.0", machines=("x86_64",))]
    check_requested_release("vllm", offered, Version("0.33.0"), PLATFORMS, Version("0.34.0rc1"))
    with pytest.raises(UsageError, match=r"^error: vllm 0\.35\.0 has no wheel for aarch64"):
        check_requested_release("vllm", offered, Version("0.33.0"), PLATFORMS, Version("0.35.0"))
    with pytest.raises(UsageError, match=r"0\.32\.0 is older than the recipe's 0\.33\.0") as caught:
        check_requested_release("vllm", offered, Version("0.33.0"), PLATFORMS, Version("0.32.0"))
    assert "--ref vllm=0.32.0" in (caught.value.hint or "")


METADATA = b"""\
Metadata-Version: 2.4
Name: vllm
Version: 0.34.0
Requires-Dist: torch==2.15.0
Requires-Dist: Flashinfer_Python==0.8.0 ; platform_system == "Linux"
Requires-Dist: torch==2.14.0 ; sys_platform == "darwin"
Requires-Dist: numpy<3,>=2 ; python_version >= "3.11"
Requires-Dist: this is ==== no requirement
Requires-Dist: deep ; ((((((((((((((((((((((((((((os_name == "posix"))))))))))))))))))))))))))))
Requires-Dist: odd ; colour == "red"
Requires-Dist: b12x==2.0 ; extra == "b12x"
Requires-Dist: b12x==1.0 ; extra == "old"
Requires-Dist: helper>=1 ; extra == "b12x" and platform_machine == "aarch64"
Provides-Extra: b12x
Provides-Extra: old

text
"""


def test_requirements_are_those_of_the_image() -> None:
    found = demands(METADATA, "3.13", "aarch64")
    assert [(one.project, str(one.specifier), one.extra) for one in found] == [
        ("torch", "==2.15.0", ""),
        ("flashinfer-python", "==0.8.0", ""),
        ("numpy", "<3,>=2", ""),
        ("b12x", "==2.0", "b12x"),
        ("b12x", "==1.0", "old"),
        ("helper", ">=1", "b12x"),
    ]
    assert extras_of(found)["b12x"] == ("b12x==2.0", "helper>=1")
    digits = b"Requires-Dist: torch>=" + b"9" * 5000
    for hostile in (digits, b"", b"\xff\xfe\0", b"Requires-Dist: " + b"a" * 100_000, b"Requires-Dist: x\n" * 10_000):
        assert len(demands(hostile, "3.13", "aarch64")) <= 2000


def demand(project: str, specifier: str, extra: str = "") -> Demand:
    return Demand(project=project, specifier=SpecifierSet(specifier), extra=extra)


OLD = (
    demand("torch", "==2.14.0"),
    demand("flashinfer-python", "==0.7.2.post1"),
    demand("b12x", "==1.5.1", "b12x"),
    demand("b12x", "==1.0", "all"),
)
NEW = (
    demand("torch", ">=2.15,<3"),
    demand("torch", "==9", "zen"),
    demand("flashinfer-python", "===0.8.0"),
    demand("b12x", "==1.1", "all"),
    demand("b12x", "==1.6.0", "b12x"),
)
RELEASE = Next(engine="vllm", version=Version("0.34.0"), old=OLD, new=NEW)


def test_pins_move_with_the_engine() -> None:
    recipe = load_recipe(VLLM)
    moves = pins(recipe, RELEASE, lambda project, accepted: Version("2.15.1") if project == "torch" else None)
    assert {(move.at, move.before, move.after) for move in moves} == {
        (("version",), "0.33.0", "0.34.0"),
        (("requirements", 0), "0.33.0", "0.34.0"),
        (("requirements", 1), "2.14.0", "2.15.1"),
        (("requirements", 2), "0.7.2.post1", "0.8.0"),
        (("requirements", 3), "1.5.1", "1.6.0"),
        (("sources", "flashinfer", "sdist"), "0.7.2.post1", "0.8.0"),
        (("sources", "vllm", "sdist"), "0.33.0", "0.34.0"),
    }
    whys = {move.what: move.why for move in moves}
    assert whys["b12x"] == "vllm 0.34.0 with its extra b12x requires it"
    assert whys["torch"] == "vllm 0.34.0 requires <3,>=2.15"
    text, made = edited(VLLM.read_text(encoding="utf-8"), recipe, moves, "vllm.yaml")
    assert made.requirements[:4] == ("vllm==0.34.0", "torch==2.15.1", "flashinfer-python==0.8.0", "b12x==1.6.0")
    before, after = VLLM.read_text(encoding="utf-8").splitlines(), text.splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == len(moves)
    assert all(old.partition("#")[2] == new.partition("#")[2] for old, new in changed)
    lines = dict(left_over(text, moves))
    assert "# the version that vLLM 0.33.0 asks for" in " ".join(lines.values())
    assert not any("==0.34.0" in line for line in lines.values())


def test_what_the_index_does_not_have_is_one_sentence() -> None:
    with pytest.raises(UsageError) as caught:
        pins(load_recipe(VLLM), RELEASE, lambda *_: None)
    assert caught.value.message == ("vllm 0.34.0 requires torch<3,>=2.15, and the package index has no such release")


def test_a_pin_that_still_fits_or_is_no_longer_demanded_stays() -> None:
    release = replace(RELEASE, new=(demand("torch", ">=2.10"),))
    moves = pins(load_recipe(VLLM), release, lambda *_: None)
    assert {move.what for move in moves} == {"version", "vllm"}
    assert no_longer(load_recipe(VLLM), release) == ("flashinfer-python", "b12x")


def test_the_newest_of_a_range() -> None:
    offered = [*links("1.0", "1.2", "2.0", "1.3rc1"), *links("1.1", yanked=True)]
    assert newest(offered, SpecifierSet("<2")) == Version("1.2")
    assert newest(offered, SpecifierSet(">3")) is None


ODD = small_recipe(
    'sources: {"ä": {git: "https://h.invalid/ä", commit: "' + "0" * 40 + '"}, idna: {"sdist": idna==3.10}}\n',
    requirements="[  idna==3.10 , 'pip' ] # ünïcödé 🦎 idna 3.10",
).replace('version: "1"', "version: '1' # 1")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_text_is_changed_in_place(end: str) -> None:
    text = ODD.replace("\n", end).replace('"ä"', "ae")
    recipe = parse_document(text, Recipe, where="x", what="image recipe")
    moves = [
        Move(at=("version",), what="version", before="1", after="2", why=""),
        Move(at=("requirements", 0), what="idna", before="3.10", after="3.11", why=""),
        Move(at=("sources", "ae", "commit"), what="ae", before="0" * 40, after=COMMIT, why=""),
        Move(at=("sources", "idna", "sdist"), what="idna", before="3.10", after="3.11", why=""),
    ]
    made, moved = edited(text, recipe, moves, "x")
    assert moved.version == "2"
    assert made == (
        text.replace("'1' # 1", "'2' # 1")
        .replace("[  idna==3.10 ", "[  idna==3.11 ")
        .replace("0" * 40, COMMIT)
        .replace('sdist": idna==3.10', 'sdist": idna==3.11')
    )
    assert left_over(made, moves[1:2]) == ((7, text.split("\n")[6].strip().replace("==3.10", "==3.11")),)


def test_a_version_that_yaml_would_read_as_a_number_is_quoted() -> None:
    text = small_recipe("").replace('version: "1"', "version: 1.0.0")
    recipe = parse_document(text, Recipe, where="x", what="image recipe")
    moves = [Move(at=("version",), what="version", before="1.0.0", after="2.0", why="")]
    made, moved = edited(text, recipe, moves, "x")
    assert 'version: "2.0"\n' in made
    assert moved.version == "2.0"


def test_a_text_that_cannot_be_changed_in_place_is_refused() -> None:
    recipe = parse_document(ODD.replace('"ä"', "ae"), Recipe, where="x", what="image recipe")
    for move in (
        Move(at=("version",), what="version", before="3", after="4", why=""),
        Move(at=("requirements", 7), what="idna", before="1", after="4", why=""),
        Move(at=("base",), what="base", before="1", after="4", why=""),
    ):
        with pytest.raises(UsageError) as caught:
            edited(ODD.replace('"ä"', "ae"), recipe, [move], "x")
        assert "by hand" in (caught.value.hint or "")


QUTLASS = """
if(DEFINED ENV{QUTLASS_SRC_DIR})
endif()
set(_TAG "%s") # a comment
FetchContent_Populate(qutlass GIT_REPOSITORY "https://h.invalid/q.git" GIT_TAG "${_TAG}")
"""


def release_tree(tmp_path: Path, pin: str = COMMIT, cutlass: str = '  set(CUTLASS_REVISION "v4.8.0")\n') -> Changed:
    files = {"CMakeLists.txt": cutlass, "cmake/external_projects/qutlass.cmake": QUTLASS % pin}
    return Changed(open_tree(tmp_path), {name: text.encode() for name, text in files.items()})


def test_commits_of_nested_projects_and_cutlass_move(tmp_path: Path) -> None:
    recipe, store = load_recipe(VLLM), Store(tmp_path / "store")
    found, notes = nested_moves(recipe, release_tree(tmp_path), store, "vllm 0.34.0")
    assert [(move.at, move.after) for move in found] == [
        (("sources", "qutlass", "commit"), COMMIT),
        (("wheels", "vllm", "cutlass", "instead-of"), "v4.8.0"),
    ]
    _, made = edited(VLLM.read_text(encoding="utf-8"), recipe, found, "vllm.yaml")
    assert made.sources["qutlass"].commit == COMMIT
    cutlass = made.wheels["vllm"].cutlass
    assert cutlass
    assert cutlass.instead_of == "v4.8.0"
    same = release_tree(tmp_path, recipe.sources["qutlass"].pin, '  set(CUTLASS_REVISION "v4.7.1")\n')
    assert (notes, nested_moves(recipe, same, store, "vllm 0.34.0")) == ((), ((), ()))
    branch = release_tree(tmp_path, "main", '  set(CUTLASS_REVISION "v4.7.1")\n')
    (note,) = nested_moves(recipe, branch, store, "vllm 0.34.0")[1]
    assert note.startswith("vllm 0.34.0 names qutlass main, which is no commit: check that ")
    assert not list((store.root / "tmp").iterdir())


@pytest.mark.parametrize(
    ("pin", "cutlass", "said"),
    [
        ("v1.2", '  set(CUTLASS_REVISION "v4.7.1")\n', "names qutlass v1.2, and the recipe has a commit of it"),
        (COMMIT, "", "names no CUTLASS_REVISION"),
    ],
)
def test_a_pin_that_no_recipe_can_hold(tmp_path: Path, pin: str, cutlass: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        nested_moves(load_recipe(VLLM), release_tree(tmp_path, pin, cutlass), Store(tmp_path / "store"), "vllm 0.34.0")


def test_what_is_new_for_12x(tmp_path: Path) -> None:
    server = "vllm/engine/arg_utils.py"
    option = 'parser.add_argument("--{}", choices=[{}])\n'
    old = {
        server: option.format("moe-backend", '"triton"'),
        "vllm/a.py": "if sm == 120: pass\n# SM120: old\n",
        "csrc/old.cu": "// sm_90a\n",
    }
    new = {
        server: option.format("moe-backend", '"triton", "b12x"') + option.format("sm120-mode", "") + "VLLM_B12X_PATH\n",
        "vllm/a.py": "# moved\n    # SM120: old\n# SM120: \x1b[31mnew\n# sm_1200 is none, 112.0 neither\n",
        "csrc/new.cu": "is_device_capability_family(120)\n",
        "csrc/tests/test.cu": "sm_121a\n",
        "docs/spark.py": "DGX Spark\n",
        "vllm/data.json": "sm_121a\n",
    }
    trees = [
        Changed(open_tree(tmp_path), {path: text.encode() for path, text in files.items()}) for files in (old, new)
    ]
    extras = (demand("b12x", "==1.5.1", "b12x"), demand("b12x", "==1.6.0", "b12x"), demand("zen", "==1", "zen"))
    found = news("vllm", trees[0], trees[1], (extras[:1], extras[1:]))
    assert found.options == ("--moe-backend b12x", "--sm120-mode")
    assert found.environment == ("VLLM_B12X_PATH",)
    assert found.packages == ("[b12x]: b12x==1.6.0",)
    assert [(place.path, place.new, place.lines) for place in found.places] == [
        (server, False, 3),
        ("csrc/new.cu", True, 1),
        ("vllm/a.py", False, 1),
    ]
    assert found.places[2].first == "# SM120:  [31mnew"
    assert news("small", trees[0], trees[1], ((), ())).options == ()
