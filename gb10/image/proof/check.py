"""The types of a check of a wheel or an image: its subject, its problems, and the check. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from gb10.core.printing import printable
from gb10.image.plan.plan_record import RecordedPlan
from gb10.image.proof.wheel_files import Manifest
from gb10.image.recipe.allowances import Allowances
from gb10.image.recipe.arch import Arch
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.linked import Linked
from gb10.inside.scan.scan import Scan

Severity = Literal["error", "note"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What is known of an image beside its files; a wheel or a directory has no such facts."""

    platform: str
    user: str = ""
    environment: tuple[str, ...] = ()
    cuda: str = ""
    """The CUDA of its recipe, nothing for an image that is not ours."""
    plan: RecordedPlan | None = None
    """The plan that it holds, or is built by."""
    recorded: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Files that were changed on purpose: sha256, and the step that did it."""
    tuned: Sequence[tuple[str, str]] = ()
    """Files of tiles that the engine would not use, or not survive, and why."""
    imported: Sequence[tuple[str, str]] = ()
    """Packages that were imported, and what went wrong, nothing where it went well."""


UNREADABLE: Final = "unreadable"
"""The kind of a binary that could not be opened."""
DGX_OS: Final = "2.39"
"""The glibc of DGX OS 7 (Ubuntu 24.04), the system of a Spark."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a wheel or a folder is to run: the minor number of its Python, where somebody says it, and its glibc."""

    python: int | None = None
    glibc: str = DGX_OS


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The subject of a check: the scan, the manifests of wheels that were compiled here, and the claims."""

    scan: Scan
    manifests: Sequence[Manifest] = ()
    claims: Mapping[str, Arch] = field(default_factory=dict)
    """Who claims it (``--claim``, the marker ``.vllm-arch``), and the arch that all GPU code then must include."""
    only: Arch | None = None
    arch: Arch | None = None
    linked: Linked | None = None
    """How the loader finds libraries and symbols; unknown for a wheel or a directory."""
    image: Facts | None = None
    target: Target | None = None
    """Only of a wheel or a folder that a user asks about; what an image builds of its own has other checks."""
    allowed: Allowances = field(default_factory=Allowances)

    @property
    def declared(self) -> dict[str, Sequence[str]]:
        """The end of a module's path -> the cubins that it must hold."""
        return {file: cubins for manifest in self.manifests for file, cubins in manifest.modules.items()}

    def binaries_at(self, file: str) -> list[Binary]:
        """The binaries whose path ends with a declared one: a layer has it below a folder, a wheel at the top."""
        return [binary for binary in self.scan.binaries if f"/{binary.path}".endswith(f"/{file}")]

    @property
    def undeclared(self) -> list[Binary]:
        """The binaries with GPU code that no manifest declares."""
        declared = {binary.path for file in self.declared for binary in self.binaries_at(file)}
        return [binary for binary in self.scan.binaries if binary.codes and binary.path not in declared]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One file that is not what it should be."""

    file: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{printable(self.file)}\n  expected {self.expected}\n  found    {printable(self.found)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What a module of checks/ offers as ``CHECK``: its name, what it reads, when it fails, and what to do then.

    What a check of the severity ``note`` finds is printed, and fails nothing.
    """

    name: str
    reads: str
    fails: str
    hint: str
    judge: Callable[[Subject], list[Problem]]
    severity: Severity = "error"


def described(binary: Binary) -> str:
    """``sm_120 x50, compute_80 x19``, or why that is unknown."""
    return f"{binary.kind}: {binary.error}" if binary.error else counted(binary.codes) or "no GPU code"


def counted(codes: Mapping[str, int]) -> str:
    """``sm_120 x50, compute_80 x19``."""
    return ", ".join(f"{code} x{count}" for code, count in codes.items())


def sass(codes: Mapping[str, int]) -> set[str]:
    """The codes that a GPU runs as they are."""
    return {code for code in codes if code.startswith("sm_")}
