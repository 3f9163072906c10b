"""The layers hold: imports go down, purity and the two gatekeepers (processes, Docker) are where the design says."""

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gb10"

ROOMS = 3
LAYERS = (
    {"errors"},
    {"arch", "artifact", "digest", "document", "proc", "schema", "talk"},
    {"debian", "engine", "fetch", "store"},
    set[str](),  # the rooms: every name that stands nowhere else
    {"pipeline"},
    {"cli"},
    {"__main__"},
)
PURE = ("arch", "artifact", "compiles", "digest", "document", "inputs", "kernel_sets", "listing", "machine", "model",
        "models", "options", "plan", "programs", "render", "schema", "steps")  # fmt: skip
WORLD = {
    "asyncio", "ctypes", "docker", "fcntl", "glob", "http", "httpx", "io", "os", "platform", "requests", "select",
    "shutil", "signal", "socket", "ssl", "subprocess", "tempfile", "time", "urllib3",
    "gb10.engine", "gb10.fetch", "gb10.proc", "gb10.store",
}  # fmt: skip
PROCESSES = {"subprocess", "multiprocessing", "pty"}

Import = tuple[str, str]


def modules() -> list[Path]:
    """Every module of the package that runs on the host."""
    return sorted(path for path in PACKAGE.rglob("*.py") if "inside" not in path.relative_to(PACKAGE).parts)


def room(path: Path) -> str:
    """The first name under gb10: a package of several files is one room."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def rank(name: str) -> int:
    """The number of a room's layer."""
    return next((number for number, names in enumerate(LAYERS) if name in names), ROOMS)


def imports(path: Path) -> Iterator[Import]:
    """Each (module, name) that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def rooms_used(path: Path) -> set[str]:
    """The rooms of gb10 that a file imports, itself left out."""
    parts = (f"{module}.{name}".split(".") for module, name in imports(path) if module.split(".")[0] == "gb10")
    used = {part[1] for part in parts if len(part) > 1 and part[1]}
    return {name for name in used if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()} - {room(path)}


def packages_used(path: Path) -> set[str]:
    """What a file imports: first names, and ``gb10.<room>``."""
    own = {f"gb10.{name}" for name in rooms_used(path)}
    return own | {module.split(".")[0] for module, _ in imports(path)}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_down(path: Path) -> None:
    upward = {used for used in rooms_used(path) if rank(used) > rank(room(path))}
    assert not upward, f"{name_of(path)} imports upward: {sorted(upward)}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_no_private_name_crosses_a_room(path: Path) -> None:
    private = {
        f"{module}.{name}"
        for module, name in imports(path)
        if module.startswith("gb10") and name.startswith("_") and not name.startswith("__")
    }
    assert not private


def test_no_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for path in modules():
        graph.setdefault(room(path), set()).update(rooms_used(path))
    tuple(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("path", [path for path in modules() if room(path) in PURE], ids=name_of)
def test_pure_rooms_touch_nothing(path: Path) -> None:
    assert not packages_used(path) & WORLD
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    assert "open" not in {call.id for call in calls if isinstance(call, ast.Name)}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_proc_starts_processes(path: Path) -> None:
    assert room(path) == "proc" or not packages_used(path) & PROCESSES


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_engine_knows_docker(path: Path) -> None:
    assert room(path) == "engine" or "docker" not in packages_used(path)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_hub_knows_the_hub(path: Path) -> None:
    assert room(path) == "hub" or not packages_used(path) & {"huggingface_hub", "httpx2"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "inside").glob("*.py")), ids=name_of)
def test_code_for_build_stages_stands_alone(path: Path) -> None:
    assert "gb10" not in packages_used(path)


@pytest.mark.parametrize("module", ["config", "errors", "proc", "store"])
def test_what_the_bootstrap_imports_is_standard_library(module: str) -> None:
    assert packages_used(PACKAGE / f"{module}.py") - {"gb10.errors", "gb10"} <= sys.stdlib_module_names
