"""No module imports itself by way of others; an import within a function counts, too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "gb10").rglob("*.py")}


def imported(path: Path) -> set[str]:
    """The modules of gb10 that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & MODULES.keys()


def test_imports_have_no_circle() -> None:
    TopologicalSorter({name: imported(path) for name, path in MODULES.items()}).prepare()  # raises CycleError
