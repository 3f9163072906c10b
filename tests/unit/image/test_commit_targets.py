"""What is compiled of a commit, and what is printed of it; with and without the compiler's lists."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.patches.source_tree import Folder
from gb10.image.plan.options import Taken
from gb10.image.plan.values import source_archive
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.any_commit import CommitChange
from gb10.image.request.changed_targets import check_pins, targets_of_commit
from gb10.image.request.checkout_files import Released
from gb10.image.request.checkouts import OwnSource
from tests.recipes import SHIPPED

CMAKE: Final = """\
if(VLLM_GPU_LANG STREQUAL "CUDA")
  define_extension_target(_C_stable_libtorch SOURCES csrc/a.cu csrc/b.cu csrc/c.cu csrc/d.cu)
  define_extension_target(_new_C SOURCES csrc/a.cu)
endif()
if(VLLM_GPU_LANG STREQUAL "HIP")
  define_extension_target(_rocm_C SOURCES csrc/rocm.cu)
endif()
"""
NONE: Final[Mapping[str, str]] = MappingProxyType({})
HIP: Final = "csrc/rocm.cu"
ALL: Final = "6,634 CPU s"


Asked = Callable[[CommitChange], tuple[tuple[str, ...], list[str]]]


@pytest.fixture
def asked(ctx: Context, recipe: Recipe, lock: Lock, capsys: pytest.CaptureFixture[str]) -> Asked:
    """The targets of a change, and the lines that are printed."""
    return lambda made: (targets_of_commit(ctx, recipe, lock, made), capsys.readouterr().err.splitlines())


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(env={}, store=Store(tmp_path / "s"), reporter=Reporter({}, verbosity=0), catalog=SHIPPED)


def change(
    folder: Path, *compiled: str, installed: tuple[str, ...] = (), files: Mapping[str, str] = NONE
) -> CommitChange:
    """A commit of the small project that changes these files."""
    texts = {"CMakeLists.txt": CMAKE, **{f"csrc/{name}.cu": "" for name in ("a", "b", "c", "d", "rocm")}, **files}
    for name, text in texts.items():
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / name).write_text(text, encoding="utf-8")
    tree = Folder(folder / "tree")
    own = OwnSource(source="vllm", diffs=(), taken=Taken(path="the commit", commit="a" * 40))
    released = cast("Released", "vllm 0.33.0")  # it is only named
    return CommitChange(own=own, released=released, tree=tree, files=tree, installed=installed, compiled=compiled)


def listed(ctx: Context, recipe: Recipe, lock: Lock, reads: object) -> None:
    """What a compile that was done here noted."""
    wheel = next(wheel for wheel in recipe.wheels.values() if wheel.method == "source")
    place = ctx.store.root / "wheels/1" / f"reads-{source_archive(wheel.source, recipe, lock).sha256}.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(reads), encoding="utf-8")


@pytest.mark.parametrize(
    ("case", "targets", "said"),
    [
        (((), ("vllm/a.py",)), (), ["only installed files differ: a graft, nothing of the engine is compiled"]),
        (((), ()), (), ["no file that an image holds differs, nothing of the engine is compiled"]),
        (((HIP,), ()), (), [f"no target for this GPU reads what differs ({HIP}): nothing is compiled"]),
        (
            (("csrc/b.cu",), ()),
            ("_C_stable_libtorch",),
            [
                f"compiled: _C_stable_libtorch, which read csrc/b.cu; all targets are {ALL}",
                "units of _C_stable_libtorch that read it are not known yet: at most 84, 4,733 CPU s;"
                " compiled once here, they are",
            ],
        ),
        (
            (("csrc/a.cu", "csrc/b.cu", "csrc/c.cu"), ()),
            ("_C_stable_libtorch", "_new_C"),
            [
                "compiled: _C_stable_libtorch, _new_C, which read csrc/a.cu, csrc/b.cu, csrc/c.cu; all targets are "
                + ALL,
                "units of _C_stable_libtorch that read it are not known yet: at most 84, 4,733 CPU s;"
                " compiled once here, they are",
                "units of _new_C that read it are not known yet; compiled once here, they are",
            ],
        ),
        (
            (("csrc/a.cu", "csrc/nobody.cu"), ()),
            ("all",),
            [
                f"targets not known yet: csrc/nobody.cu can be read by any. At most {ALL}, all targets; name them to"
                " compile less: --targets _C_stable_libtorch,_new_C. Compiled once, a target is known: ./build.py"
                " wheels --ref vllm=0.33.0 --targets NAME"
            ],
        ),
        (
            (("csrc/n1.cu", "csrc/n2.cu", "csrc/n3.cu", "csrc/n4.cu", "csrc/n5.cu"), ()),
            ("all",),
            [
                "targets not known yet: csrc/n1.cu, csrc/n2.cu, csrc/n3.cu, and 2 more can be read by any. At most"
                f" {ALL}, all targets; name them to compile less: --targets A,B. Compiled once, a target is known:"
                " ./build.py wheels --ref vllm=0.33.0 --targets NAME"
            ],
        ),
    ],
)
def test_targets_and_their_cost_are_printed(
    asked: Asked,
    tmp_path: Path,
    case: tuple[tuple[str, ...], tuple[str, ...]],
    targets: tuple[str, ...],
    said: list[str],
) -> None:
    compiled, installed = case
    assert asked(change(tmp_path, *compiled, installed=installed)) == (targets, said)


def test_the_compiler_s_lists_count_units(
    ctx: Context, recipe: Recipe, lock: Lock, asked: Asked, tmp_path: Path
) -> None:
    units = {"a.o": ["csrc/a.cu"], "b.o": ["csrc/b.cu", "csrc/h.h"], "c.o": ["csrc/h.h"], "d.o": ["csrc/d.cu"]}
    listed(ctx, recipe, lock, {"_C_stable_libtorch": units, "_new_C": {"a.o": ["csrc/a.cu"]}})
    cached = "; the compile cache has the others, unless it was cleared"
    targets, said = asked(change(tmp_path, "csrc/h.h", files={"csrc/h.h": ""}))
    assert targets == ("_C_stable_libtorch",)
    own = "2 of 4 units of _C_stable_libtorch read it, by the compiler's own list, about 113 CPU s (b.o, c.o)"
    assert said[1:] == [f"{own}{cached}"]
    targets, said = asked(change(tmp_path, "csrc/a.cu"))
    assert targets == ("_C_stable_libtorch", "_new_C")
    assert said[-1] == f"1 of 1 units of _new_C read it, by the compiler's own list (a.o){cached}"


def test_nested_projects_that_a_commit_changes_are_named(asked: Asked, tmp_path: Path) -> None:
    paths = [f"cmake/external_projects/{name}" for name in ("one.cmake", "two.cmake", "three.txt")]
    assert asked(change(tmp_path, *paths, "cmake/other.cmake"))[1][0] == (
        "nested projects that the commit changes, and no lock has: one, two; the wheel's are kept"
        " (add one as a source in a recipe of your own to compile it)"
    )


def test_a_recipe_that_compiles_nothing_of_its_engine(ctx: Context, recipe: Recipe, lock: Lock, tmp_path: Path) -> None:
    wheels = {name: wheel for name, wheel in recipe.wheels.items() if wheel.method != "source"}
    paths = [f"csrc/n{number:02}.cu" for number in range(12)]
    with pytest.raises(UsageError) as caught:
        targets_of_commit(ctx, recipe.model_copy(update={"wheels": wheels}), lock, change(tmp_path, *paths))
    assert caught.value.message == "the commit changes what vllm 0.33.0 compiles, and the recipe compiles none of it"
    assert (caught.value.where or "").splitlines() == paths[:10]


QUTLASS: Final = "cmake/external_projects/qutlass.cmake"
NAMES_IT: Final = f"FetchContent_Declare(qutlass GIT_REPOSITORY https://e/q.git GIT_TAG {'b' * 40})\n"


@pytest.mark.parametrize(
    ("target", "cutlass", "moved"),
    [
        ("", "v0.0.1", ""),
        ("_C_stable_libtorch", "", ""),
        ("_qutlass_C", "", "qutlass"),
        ("all", "", "qutlass"),
        ("_C_stable_libtorch", "v0.0.1", "CUTLASS"),
    ],
)
def test_a_pin_that_moves_is_refused_for_the_targets_that_read_it(
    ctx: Context, recipe: Recipe, target: str, cutlass: str, moved: str
) -> None:
    tmp_path, targets = ctx.store.root.parent, (target,) if target else ()
    accepted = next(wheel.cutlass.instead_of for wheel in recipe.wheels.values() if wheel.cutlass)
    files = {QUTLASS: NAMES_IT, "CMakeLists.txt": f'set(CUTLASS_REVISION "{cutlass or accepted}")\n'}
    made = change(tmp_path, *files, files=files)
    qutlass = (f"qutlass {'b' * 40}", recipe.sources["qutlass"].pin, QUTLASS)
    pin, before, place = {"qutlass": qutlass, "": qutlass}.get(
        moved, (f"CUTLASS of the engine {cutlass}", accepted, "CMakeLists.txt")
    )
    if not moved:
        check_pins(ctx, recipe, made, targets)
        return
    with pytest.raises(UsageError) as caught:
        check_pins(ctx, recipe, made, targets)
    assert str(caught.value) == (
        f"error: the commit cannot be compiled: it names {pin}, and the recipe has {before}\n"
        f"  the commit names it in {place}\n"
        "hint: in a recipe of your own change that pin, then lock it; or leave it out: --targets NAME"
    )
