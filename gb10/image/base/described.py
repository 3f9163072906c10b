"""An image of others as a base: which Python, which engine, and what it says of itself. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gb10.containers.registry.documents import SentConfig, SentSettings
from gb10.errors import UsageError, VerifyError
from gb10.image.base.file_tree import FileTree
from gb10.image.base.found_packages import Found, distributions
from gb10.image.base.pythons import (
    PATH,
    Python,
    check_machine,
    is_python,
    look_at,
    pythons_elsewhere,
    pythons_on_path,
    started_by,
    without_dots,
)
from gb10.image.recipe.base_image import BaseImage, BaseLayer

ENGINES: Final = ("vllm", "sglang")
MOST_PYTHONS: Final = 64
CHOOSE: Final = "name the one that is meant: `python: PATH` in the recipe's base"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a reader of an image wants: the platform, and what is meant of several."""

    platform: str
    python: str = ""
    serving: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A Python of the image, with what it finds."""

    python: Python
    found: Found

    def engines(self) -> tuple[str, ...]:
        """The serving engines that it finds."""
        return tuple(name for name in ENGINES if name in self.found.installed)

    def places(self) -> frozenset[str]:
        """Where they are installed."""
        return frozenset(self.found.installed[name].metadata for name in self.engines())


def describe(
    tree: FileTree, reference: str, layers: tuple[BaseLayer, ...], config: SentConfig, wanted: Wanted
) -> BaseImage:
    """The base. Raises UsageError (no Python, several with an engine), VerifyError (it contradicts itself)."""
    settings = config.config or SentSettings()
    chosen = _chosen(tree, reference, settings, wanted)
    check_machine(tree, chosen.python.program, wanted.platform)
    engine = _engine(tree, reference, chosen, _command(settings), wanted)
    torch = chosen.found.installed.get("torch")
    base = BaseImage(
        reference=reference,
        platform=wanted.platform,
        layers=layers,
        environment=_environment(settings),
        user=settings.user or "",
        workdir=settings.workdir or "/",
        entrypoint=settings.entrypoint or (),
        command=settings.command or (),
        interpreter=chosen.python.program,
        python=chosen.python.version,
        site_packages=chosen.python.site_packages,
        glibc=_glibc(tree, wanted.platform),
        installed=dict(sorted(chosen.found.installed.items())),
        engine=engine,
        cuda=(tree.fact(f"{torch.folder}/torch/version.py") or "") if torch else "",
        system=_system(tree),
        labels=settings.labels or {},
        search=chosen.found.search,
        remarks=chosen.found.remarks,
    )
    if base.strange is not None:
        raise VerifyError(
            f"{reference} has a Python or a package at a path that none has: {ascii(base.strange)[:200]}",
            hint="its author made it so: take another image",
        )
    return base


def _chosen(tree: FileTree, reference: str, settings: SentSettings, wanted: Wanted) -> Candidate:
    """The Python that the engine runs in: the one that is named, else that of the entrypoint, else the only one that
    holds an engine, else the first on PATH.
    """
    environment = _environment(settings)
    folders = tuple(part for part in (environment.get("PATH") or PATH).split(":") if part.startswith("/"))
    started = started_by(tree, _plain(_command(settings)), folders)
    programs = [*([started] if started else ()), *pythons_on_path(tree, folders), *pythons_elsewhere(tree)]
    if wanted.python:
        if not is_python(tree, wanted.python):
            present = "\n".join(dict.fromkeys(programs))
            raise UsageError(
                f"{reference} has no Python {wanted.python}",
                where=present or "gb10 finds no Python in it",
                hint="name one of these" if present else "take an image that holds vLLM or SGLang",
            )
        programs = [wanted.python]
    if len(programs) > MOST_PYTHONS:
        raise UsageError(f"{reference} has more than {MOST_PYTHONS} Pythons", hint=CHOOSE)
    started = without_dots(tree, started) if started else started
    programs = [without_dots(tree, program) for program in programs]
    candidates, seen = list[Candidate](), set[tuple[str, ...]]()
    for program in dict.fromkeys(programs):
        python = look_at(tree, program)
        places = tuple(tree.real(one) or one for one in python.site_packages) if python else ()
        if python and places not in seen:
            seen.add(places)
            found = distributions(tree, python, environment, settings.user or "")
            candidates.append(Candidate(python=python, found=found))
    if not candidates:
        raise UsageError(
            f"{reference} holds no Python",
            hint="build on an image that holds vLLM or SGLang; `python: PATH` in the recipe's base names a Python in an"
            " unusual place",
        )
    with_engine = [one for one in candidates if one.engines()]
    if not with_engine:
        return candidates[0]
    first = with_engine[0]
    if len({one.places() for one in with_engine}) > 1 and not (started and first.python.program == started):
        rows = (f"{one.python.program}: {', '.join(_versions(one))}" for one in with_engine)
        raise UsageError(f"{reference} has several Pythons with an engine", where="\n".join(rows), hint=CHOOSE)
    return first


def _environment(settings: SentSettings) -> dict[str, str]:
    rows = (line.partition("=") for line in settings.environment or ())
    return {name: value for name, _, value in rows}


def _command(settings: SentSettings) -> tuple[str, ...]:
    return (*(settings.entrypoint or ()), *(settings.command or ()))


def _versions(one: Candidate) -> Iterator[str]:
    for name in one.engines():
        yield f"{name} {one.found.installed[name].version} in {one.found.installed[name].folder}"


def _plain(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command; those of a shell's text as words, too."""
    if len(words) > 2 and PurePosixPath(words[0]).name in ("sh", "bash") and words[1].startswith("-"):
        try:
            return tuple(word for word in shlex.split(words[2][: 1 << 14]) if word != "exec" and "=" not in word)
        except ValueError:
            return tuple(words)
    return tuple(words)


def _engine(tree: FileTree, reference: str, one: Candidate, words: Sequence[str], wanted: Wanted) -> str:
    """The serving engine. Raises UsageError for two, VerifyError for one without its package."""
    present = one.engines()
    if wanted.serving and wanted.serving not in present:
        raise UsageError(
            f"{reference} does not hold {wanted.serving}",
            where=f"{one.python.program} finds {', '.join(_versions(one)) or 'no engine'}",
            hint="leave --engine away, or take another base",
        )
    named = [name for name in present if any(name in word for word in words)]
    chosen = wanted.serving or (present[0] if len(present) == 1 else named[0] if len(named) == 1 else "")
    if len(present) > 1 and not chosen:
        raise UsageError(
            f"{reference} holds both {' and '.join(_versions(one))}", hint="say which one is meant: --engine vllm"
        )
    if chosen:
        place = f"{one.found.installed[chosen].folder}/{chosen}"
        if not tree.is_folder(place):
            raise VerifyError(
                f"{reference} holds the METADATA of {chosen}, and no such package",
                where=place,
                hint="its author removed it, or installed it in a volume: take another image",
            )
    return chosen


def _glibc(tree: FileTree, platform: str) -> str:
    machine = {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.split("/")[1], "")
    folders = (f"/lib/{machine}-linux-gnu", f"/usr/lib/{machine}-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
    return next((found for folder in folders if (found := tree.fact(f"{folder}/libc.so.6"))), "")


def _system(tree: FileTree) -> str:
    """``ubuntu 24.04``."""
    text = tree.fact("/etc/os-release") or tree.fact("/usr/lib/os-release") or ""
    fields = {
        name: value.strip().strip("\"'")[:40] for name, _, value in (line.partition("=") for line in text.splitlines())
    }
    return " ".join(filter(None, (fields.get("ID", ""), fields.get("VERSION_ID", ""))))
