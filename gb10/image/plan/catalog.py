"""The catalog: recipes, templates, stage scripts and kernels of the checkout, read once, with their digests."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gb10.core.files import digest
from gb10.core.installation import ROOT, package_of
from gb10.errors import UsageError

if TYPE_CHECKING:  # models of files: loaded when a file is read
    from gb10.image.plan.values import Toolkit
    from gb10.image.recipe.allowances import Allowances
    from gb10.image.recipe.rehearsals import Rehearsal
    from gb10.image.recipe.slim_rules import RuleFile

__all__ = ["DEFAULT_ENGINE", "ROOT", "Catalog", "module_path", "tree_digest"]

KEYED_FOLDERS: Final = {
    "inside": "inside",
    "rootfs": "image/rootfs",
    "patches": "image/patches",
    "sources/debian": "sources/debian",
    "explain": "image/explain",
}
"""Rooms with scripts that decide bytes, by the name that a key knows, and where they lie in the package."""

DEFAULT_ENGINE: Final = "vllm"
"""The recipe that a command takes without ``--engine``."""


@dataclass(frozen=True)
class Catalog:
    """The checkout's files that decide bytes of a result."""

    root: Path

    def recipe(self, engine: str) -> Path:
        """The image recipe of an engine (``vllm``) or a recipe file; raises UsageError that lists the engines."""
        direct = Path(engine)
        path = direct if direct.suffix in {".yaml", ".yml"} else self.root / "recipes/images" / f"{engine}.yaml"
        if not path.exists():
            raise UsageError(f"no image recipe {engine!r}", where=str(path), hint=f"known: {', '.join(self.engines())}")
        return path

    def engines(self) -> tuple[str, ...]:
        """The engines that have an image recipe."""
        return tuple(sorted(path.stem for path in (self.root / "recipes/images").glob("*.yaml")))

    @property
    def patches(self) -> Path:
        """Where the series and the pins of releases lie."""
        return self.root / "patches"

    @cached_property
    def templates(self) -> Mapping[str, str]:
        """Template name -> text."""
        folder = self.root / "templates"
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.j2"))}

    @cached_property
    def contents(self) -> Mapping[str, bytes]:
        """Content of every file that a key may cover, by the name that the plan uses for it."""
        folders = {
            **{f"{name}/": package_of(self.root) / folder for name, folder in KEYED_FOLDERS.items()},
            "kernels/": self.root / "recipes/kernels",
            "units/": self.root / "kernels",
            "benches/": self.root / "benches",
        }
        return {
            prefix + path.relative_to(folder).as_posix(): path.read_bytes()
            for prefix, folder in folders.items()
            for path in _files(folder)
        }

    @cached_property
    def kernel_costs(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """What kernels were measured to cost: a row per family, and of some families a row per unit."""
        from gb10.image.recipe.kernel_sets import COSTS, UNITS  # noqa: PLC0415

        families, units = ((self.root / "recipes" / name).read_text(encoding="utf-8") for name in (COSTS, UNITS))
        return tomllib.loads(families), tomllib.loads(units)

    @cached_property
    def slim(self) -> "RuleFile":
        """The rules for what images leave out; none where the checkout has no such file."""
        from gb10.image.recipe.slim_rules import RULES, RuleFile, read_rules  # noqa: PLC0415

        path = self.root / RULES
        return read_rules(path.read_text(encoding="utf-8")) if path.exists() else RuleFile()

    @cached_property
    def allowances(self) -> "Allowances":
        """What the checks of an image allow; nothing where the checkout has no such file."""
        from gb10.core.document import parse_document  # noqa: PLC0415
        from gb10.image.recipe.allowances import ALLOWANCES, Allowances  # noqa: PLC0415

        path = self.root / ALLOWANCES
        if not path.exists():
            return Allowances()
        return parse_document(
            path.read_text(encoding="utf-8"), Allowances, where=ALLOWANCES, what="list of what checks allow"
        )

    @cached_property
    def nested(self) -> str:
        """The text of the list of projects inside of others; nothing where the checkout has no such file."""
        path = self.root / "recipes/nested.yaml"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @cached_property
    def rehearsals(self) -> "Mapping[str, Rehearsal]":
        """What is known for the rehearsal of each engine that has one."""
        from gb10.image.recipe.rehearsals import ANSWERS, FOLDER, read_rehearsal  # noqa: PLC0415

        folders = (self.root / FOLDER, self.root / ANSWERS)
        return {
            path.stem: read_rehearsal(path.stem, *((one / path.name).read_text(encoding="utf-8") for one in folders))
            for path in sorted(folders[0].glob("*.toml"))
        }

    @cached_property
    def toolkit(self) -> "Toolkit":
        """The inputs of keys: digests of ``contents``, template texts, kernel sets, rules, rehearsals."""
        from importlib.metadata import version  # noqa: PLC0415 - with the library for mail

        from gb10.image.plan.values import Toolkit  # noqa: PLC0415
        from gb10.image.recipe.kernel_sets import read_sets  # noqa: PLC0415

        digests = {name: hashlib.sha256(content).hexdigest() for name, content in self.contents.items()}
        return Toolkit(
            digests=digests,
            templates=self.templates,
            kernel_sets=read_sets(self.contents),
            slim=self.slim,
            rehearsals=self.rehearsals,
            layouts=_layouts(self.patches / "releases.lock.json"),
            uv=version("uv"),
        )


def module_path(name: str) -> str:
    """Where Python looks for a file of KEYED_FOLDERS below the folder of its packages, by the name that keys use."""
    folder = next(folder for folder in KEYED_FOLDERS if name.startswith(f"{folder}/"))
    return f"gb10/{KEYED_FOLDERS[folder]}{name.removeprefix(folder)}"


def _layouts(path: Path) -> str:
    """Digest of what places a diff, in the file of releases; a new release alone does not move it. Empty without it."""
    if not path.exists():
        return ""
    sources: dict[str, dict[str, Any]] = json.loads(path.read_bytes())["sources"]
    return digest(
        [
            [
                name,
                source.get("layout"),
                source.get("owns"),
                "told" in source,
                sorted({one["folder"] for one in source["releases"].values() if "folder" in one}),
            ]
            for name, source in sources.items()
        ]
    )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree_digest(folder: Path) -> str:
    """Digest of a directory's names, modes, links and contents; times and owners do not matter."""
    lines = []
    for path in sorted(folder.rglob("*")):
        content = path.readlink().as_posix() if path.is_symlink() else _sha256(path) if path.is_file() else "dir"
        lines.append(f"{path.relative_to(folder).as_posix()} {path.lstat().st_mode:o} {content}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
