"""The layers hold: imports go down, purity and the two gatekeepers (processes, Docker) are where the design says."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "gb10"

ORDER = (
    "errors",
    "inside",
    "core",
    "sources",
    "containers",
    *("models", "memory", "lint", "registries", "choose"),
    *("recipe", "plan", "sbom", "context", "locked_files", "base", "mods", "patches", "lock", "proof", "explain"),
    *("rootfs", "request", "upgrade", "moe", "build", "inspect", "adopt", "gemm", "publish"),
    *(
        "guard",
        "stats",
        "chart",
        "claims",
        "cluster",
        "doctor",
        "load_generator",
        "weights",
        "run",
        "checkup",
        "deploy",
        "benchmark",
    ),
    "selftest",
    "cli",
    "__main__",
)
"""The rooms of gb10, lowest first: a room imports only rooms before it."""

WINGS = ("errors", "inside", "core", "sources", "containers", "models", "image", "serving", "cli")
"""What a newcomer sees, lowest first: the entries of the package."""
ROOMS_OF_MODELS = ("memory", "lint", "registries", "choose")

PURE = {"guard", "stats", "chart", "recipe", "models", "memory", "cluster", "doctor", "plan", "sbom", "deploy"}
READS_THE_CHECKOUT = {"catalog", "figures", "model", "rule_files"}
ASKS_MACHINES = {"probing"}
VERBS = {"cli", "inside"}
"""Rooms whose modules are named by what runs them: a verb, or a script of a build stage."""

ENGINES = {"child"}
"""Folders with a folder for each engine, in which the same name is the same task."""

WORLD = {
    "asyncio",
    "ctypes",
    "docker",
    "fcntl",
    "glob",
    "http",
    "httpx",
    "httpx2",
    "io",
    "os",
    "platform",
    "requests",
    "select",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "time",
    "urllib3",
}
WORLDLY = {"config", "signals", "fetch", "store_gc", "proc", "store", "reporter"}
"""The modules of core/ that touch the machine."""

PROCESSES = {"subprocess", "multiprocessing", "pty"}

Import = tuple[str, str]


@cache
def modules() -> tuple[Path, ...]:
    """Every module of the package that runs on the host."""
    return tuple(sorted(path for path in PACKAGE.rglob("*.py") if "inside" not in path.relative_to(PACKAGE).parts))


@cache
def room(path: Path) -> str:
    """The folder below a wing, or the wing where it has no rooms."""
    return room_of(path.relative_to(PACKAGE).parts)


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a place below the package, by its parts."""
    first, *below = (part.removesuffix(".py") for part in parts)
    if below and (first in ("image", "serving") or (first == "models" and below[0] in ROOMS_OF_MODELS)):
        return below[0]
    return first


def wing(path: Path) -> str:
    """The entry of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def rank(name: str) -> int:
    """The place of a room in the order; raises ValueError for one that has none."""
    return ORDER.index(name)


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where a statement has others below it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the tests ask of a file."""

    imports: tuple[Import, ...]
    """Each (module, name), wherever in the file."""
    with_context: bool
    """Whether it calls ``open``."""


@cache
def read(path: Path) -> Facts:
    """A file is parsed once for all tests, and its tree is not kept: that makes the collector slow."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = [*statements(tree)]
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call)) if "open" in text else ()
    return Facts(
        imports=tuple(pair for node in nodes for pair in imported(node)),
        with_context=any(isinstance(call.func, ast.Name) and call.func.id == "open" for call in calls),
    )


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements: an import or a function is nothing else, and expressions are most of a file."""
    below = [tree]
    while below:
        node = below.pop()
        yield node
        below += [inner for name in BLOCKS for inner in getattr(node, name, ())]


def test_statements_are_found_wherever_they_stand() -> None:
    inner = (
        "if a:\n import b\nelse:\n import b",
        "try: pass\nexcept A: import b\nelse: import b\nfinally: import b",
        "match a:\n case 1:\n  import b",
        "with a: import b",
        "for a in b: import b\nelse: import b",
        "while a: import b",
        "async def f():\n async with a:\n  async for c in d: import b",
        "class A:\n def f(self):\n  import b",
    )
    for text in inner:
        found = [node for node in statements(ast.parse(text)) if isinstance(node, ast.Import)]
        assert len(found) == text.count("import b"), text


def imports(path: Path) -> tuple[Import, ...]:
    """Each (module, name) that a file imports."""
    return read(path).imports


def imported(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from ((node.module or "", alias.name) for alias in node.names)


def rooms_used(path: Path) -> set[str]:
    """The rooms of gb10 that a file imports, itself left out."""
    return {room_of(place) for place in places_used(path)} - {room(path), "__init__"}


def places_used(path: Path) -> set[tuple[str, ...]]:
    """The modules of gb10 that a file imports, by their parts below the package."""
    return {
        tuple(parts)
        for module, name in imports(path)
        if module.split(".")[0] == "gb10"
        for parts in (f"{module}.{name}".split(".")[1:], module.split(".")[1:])
        if parts and ((PACKAGE.joinpath(*parts)).is_dir() or PACKAGE.joinpath(*parts).with_suffix(".py").is_file())
    }


def packages_used(path: Path) -> set[str]:
    """The first names of what a file imports."""
    return {module.split(".")[0] for module, _ in imports(path)}


def is_pure(path: Path) -> bool:
    return room(path) in PURE and path.stem not in READS_THE_CHECKOUT | ASKS_MACHINES


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_imports_go_down() -> None:
    upward = {name_of(path): [used for used in rooms_used(path) if rank(used) > rank(room(path))] for path in modules()}
    assert {name: used for name, used in upward.items() if used} == {}


def test_wings_import_what_is_below_them() -> None:
    rank_of = {name: number for number, name in enumerate(WINGS)}
    upward = [
        f"{name_of(path)}: {'.'.join(place)}"
        for path in modules()
        for place in places_used(path)
        if wing(path) in rank_of and rank_of[wing(PACKAGE.joinpath(*place))] > rank_of[wing(path)]
    ]
    assert upward == []


def test_no_private_name_crosses_a_room() -> None:
    private = [
        f"{name_of(path)}: {module}.{name}"
        for path in modules()
        for module, name in imports(path)
        if module.startswith("gb10") and name.startswith("_") and not name.startswith("__")
    ]
    assert private == []


def test_every_room_has_its_line_and_its_place() -> None:
    """A wing without rooms is one itself."""
    rooms = {room(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "image", "serving"}
    assert rooms == set(ORDER)
    entries = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert entries == {*WINGS, "__main__", "__init__"}
    for init in PACKAGE.rglob("__init__.py"):
        if room(init) in ORDER and len(init.relative_to(PACKAGE).parts) <= 3 and "stub_torch" not in init.parts:
            assert ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))), init


def test_no_two_modules_share_a_name() -> None:
    named = (path for path in modules() if room(path) not in VERBS and not ENGINES & {*path.parts})
    counted = Counter(path.stem for path in named if path.stem != "__init__")
    assert [name for name, count in counted.items() if count > 1] == []


def touched(path: Path) -> set[str]:
    """What a module imports or calls that no pure room may."""
    worldly = {f"gb10.core.{name}" for name in WORLDLY}
    own = worldly & {name for module, what in imports(path) for name in (module, f"{module}.{what}")}
    return own | (packages_used(path) & WORLD) | ({"open"} if read(path).with_context else set())


def test_pure_rooms_touch_nothing() -> None:
    pure = [path for path in modules() if is_pure(path)]
    assert {room(path) for path in pure} == PURE
    assert {name_of(path): touched(path) for path in pure if touched(path)} == {}


def users_of(packages: set[str]) -> list[Path]:
    return [path for path in modules() if packages_used(path) & packages]


def test_two_modules_start_processes() -> None:
    assert {path.stem for path in users_of(PROCESSES)} == {"proc", "child_sessions"}


def test_only_containers_know_docker() -> None:
    assert {room(path) for path in users_of({"docker"})} == {"containers"}


def test_only_hub_knows_the_hub() -> None:
    assert {path.stem for path in users_of({"huggingface_hub"})} == {"hub"}
    assert {path.stem for path in users_of({"httpx2"})} <= {"hub", "stream_client"}


def test_code_for_build_stages_stands_alone() -> None:
    assert {name_of(path) for path in (PACKAGE / "inside").rglob("*.py") if rooms_used(path)} == set()


@pytest.mark.parametrize("module", ["errors", "core/config", "core/signals", "core/proc", "core/store"])
def test_what_the_bootstrap_imports_is_standard_library(module: str) -> None:
    path = PACKAGE / f"{module}.py"
    assert packages_used(path) - {"gb10"} <= sys.stdlib_module_names
    assert rooms_used(path) <= {"errors"}


def test_patches_take_values_and_no_context() -> None:
    users = {name_of(path) for path in modules() if room(path) == "patches" and "context" in rooms_used(path)}
    assert not users
