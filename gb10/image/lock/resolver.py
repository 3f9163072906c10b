"""uv resolves requirements to versions; only the package index decides, not local files."""

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Final
from urllib.parse import unquote, urlsplit

import requests
import uv
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from gb10.core import proc
from gb10.core.fields import ARCHITECTURES, Architecture, requirement_name
from gb10.core.machine import MACHINES, glibc, uv_platform
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.image.lock.kept_files import OwnIndex
from gb10.image.lock.moves import pin_of
from gb10.image.patches.release_files import version_of
from gb10.image.recipe.image_recipe import COMMIT_WHEELS, Recipe
from gb10.sources.index.client import local_path
from gb10.sources.index.page import HERE, Link
from gb10.sources.index.pip_settings import TIMEOUT, uv_index_env

OLDEST: Final[dict[Architecture, int]] = {"amd64": 5, "arm64": 17}
ALIASES: Final = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """A CPython (``3.13``) on an architecture, with glibc 2.``glibc``."""

    python: str
    architecture: Architecture
    glibc: int

    @property
    def uv_name(self) -> str:
        """The platform as ``uv --python-platform`` spells it."""
        return uv_platform(self.architecture, self.glibc)

    def tags(self) -> Iterator[Tag]:
        """Every tag that it can load, best first, in the order of packaging.tags."""
        major, minor = (int(part) for part in self.python.split("."))
        platforms = tuple(self._platforms())
        yield from cpython_tags((major, minor), [f"cp{major}{minor}"], platforms)
        yield from compatible_tags((major, minor), f"cp{major}{minor}", platforms)

    def _platforms(self) -> Iterator[str]:
        machine = MACHINES[self.architecture]
        yield f"linux_{machine}"
        for minor in range(self.glibc, OLDEST[self.architecture] - 1, -1):
            yield f"manylinux_2_{minor}_{machine}"
            if minor in ALIASES:
                yield f"{ALIASES[minor]}_{machine}"


def platform_of(suite: str, python: str, architecture: Architecture) -> Platform:
    """The platform that a suite gives; raises UsageError for a suite with an unknown glibc."""
    return Platform(python=python, architecture=architecture, glibc=glibc(suite))


def best_wheel(filenames: Iterable[str], platform: Platform) -> str | None:
    """The wheel with the best tag, then highest build number, then name; None when no wheel can be loaded."""
    ranks = {tag: rank for rank, tag in enumerate(platform.tags())}
    candidates = []
    for filename in filenames:
        _, _, build, tags = parse_wheel_filename(filename)
        found = [ranks[tag] for tag in tags if tag in ranks]
        if found:
            candidates.append((-min(found), build, filename))
    return max(candidates)[2] if candidates else None


def split(recipe: Recipe, requirements: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The requirements of projects that have an index of their own, and all others."""
    named = tuple(text for text in requirements if requirement_name(text) in recipe.index_of)
    return named, tuple(text for text in requirements if text not in named)


def bound(recipe: Recipe, named: tuple[str, ...], folders: Mapping[str, Path]) -> str:
    """A pyproject.toml that requires ``named``, each from its own index; uv uses that index for nothing else. Pure.

    uv's command line has no such binding: it searches an ``--index`` first, for every project. ``folders``: by project,
    the folder with what was kept of its index.
    """
    projects = {requirement_name(text) for text in named}
    sources = {project: name for name, index in recipe.indexes.items() for project in index.packages}
    sources |= {project: f"kept-{project}" for project in folders}
    places = {name: json.dumps(index.url) for name, index in recipe.indexes.items()}
    places |= {f"kept-{project}": f'{json.dumps(str(folder))}\nformat = "flat"' for project, folder in folders.items()}
    lines = [
        "[project]",
        'name = "the-recipe"',
        'version = "0"',
        f'requires-python = ">={recipe.python}"',
        f"dependencies = {json.dumps(named)}",
        "[tool.uv.sources]",
        *(f'{project} = {{index = "{sources[project]}"}}' for project in sorted(projects)),
    ]
    for name in sorted({sources[project] for project in projects}):
        lines += [
            "[[tool.uv.index]]",
            f'name = "{name}"',
            f"url = {places[name]}",
            "explicit = true",
        ]
    return "\n".join(lines)


def offered(session: requests.Session, recipe: Recipe, store: Store) -> dict[str, frozenset[Link]]:
    """The files of each named index; raises FetchError if it cannot be read or lacks a project.

    What an index may forget, or gives no hash of, is kept in the store, when the recipe requires one release of it.
    """
    found = {}
    for name, index in recipe.indexes.items():
        alone = f"{', '.join(index.packages)} can come only from {name}"
        for project in index.packages:
            try:
                links = _stored_links(
                    recipe, OwnIndex(session, index.url, store, forgets=name == COMMIT_WHEELS), name, project
                )
            except FetchError as error:
                raise FetchError(
                    f"the index {name} of the recipe: {error.message}",
                    where=error.where,
                    hint=f"{error.hint}\n{alone}" if error.hint else alone,
                ) from error
            if not links:
                raise FetchError(
                    f"the index {name} of the recipe has no {project}",
                    where=index.url,
                    hint=f"correct indexes in the recipe; {alone}",
                )
            found[project] = frozenset(links)
    return found


def _stored_links(recipe: Recipe, index: OwnIndex, name: str, project: str) -> tuple[Link, ...]:
    """The links of a project; those of the release that the recipe requires say the hash."""
    links = index.links(project)
    release = _required(recipe, project, links)
    best = {
        best_wheel([link.filename for link in release], platform_of(recipe.base.suite, recipe.python, architecture))
        for architecture in ARCHITECTURES
    }
    wanted = {link for link in release if link.filename in best and (name == COMMIT_WHEELS or not link.sha256)}
    return tuple(index.keep(project, link) if link in wanted else link for link in links)


def _required(recipe: Recipe, project: str, links: Iterable[Link]) -> list[Link]:
    """The wheels of the one release of a project that a recipe requires; none when it requires no exact release."""
    pins = {pin for text in recipe.requirements if requirement_name(text) == project and (pin := pin_of(text))}
    return [link for link in links if link.filename.endswith(".whl") and str(version_of(link)) in pins]


def files_in_store(recipe: Recipe, named: Mapping[str, Iterable[Link]]) -> dict[str, tuple[Link, ...]]:
    """By project, the required files that lie in the store. Pure."""
    release = {project: _required(recipe, project, links) for project, links in named.items()}
    local = {
        project: tuple(link for link in links if urlsplit(link.url).scheme == HERE)
        for project, links in release.items()
    }
    return {project: links for project, links in local.items() if links}


def check_origin(named: Mapping[str, frozenset[Link]], project: str, link: Link) -> None:
    """Raise FetchError for a file that the project's named index lacks: uv used another index."""
    if project not in named:
        return
    offered = {unquote(one.filename): one for one in named[project]}
    one = offered.get(unquote(link.filename))
    same = one is not None and (
        one.sha256 == link.sha256
        if one.sha256
        else unquote(one.url).partition("#")[0] == unquote(link.url).partition("#")[0]
    )
    if not same:
        raise FetchError(
            f"{link.filename} is not from the index that the recipe names for {project}",
            where=f"sha256 {link.sha256}",
            hint=f"require {project} itself, for every platform (no marker): uv binds what is required to an index",
        )


NO_SOLUTION = "No solution found"
MISFIT = "the requirements do not fit together"
BECAUSE = re.compile(r"[Bb]ecause (.+?), we can conclude", re.DOTALL)
YANKED = re.compile(r"^warning: `([^=`]+)==([^`]+)` is yanked(?: \(reason: \"(.*)\"\))?")
"""Seconds without a byte after which uv tries a request again, three times; it changes no resolution."""
TIMED_OUT = "operation timed out"
PROJECT = "pyproject.toml"
LONGEST_STEP = 240


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """One project at one version, and the file chosen for the platform."""

    name: str
    version: str
    link: Link


@dataclass(frozen=True, slots=True)
class Resolver:
    """uv with the main index, and the recipe's named indexes, constraints and overrides.

    ``kept``: by project, files of named indexes that the store has: uv reads these, and asks no server.
    """

    store: Store
    env: Mapping[str, str]
    index_url: str
    recipe: Recipe
    kept: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)

    def resolve(
        self,
        requirements: tuple[str, ...],
        platform: Platform,
        pins: Mapping[str, str],
        *options: str,
        present: Collection[str] = (),
    ) -> tuple[Resolved, ...]:
        """The closure, sorted by name; ``pins`` (name -> version) are kept where they fit.

        Projects that are ``present`` already are left out.

        Raises UsageError (no versions fit together, or one was yanked) and FetchError (the index cannot be read).
        """
        work = self.store.scratch("resolve")
        output = work / "pylock.toml"
        try:
            inputs = self._inputs(requirements, self._folders(work))
            for name, lines in inputs.items():
                (work / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            output.write_text(preferences(pins, self.recipe.python), encoding="utf-8")
            more = [PROJECT] if PROJECT in inputs else []
            argv = [*self._argv(platform), *more, *options]
            proc.stream(argv, log=work / "log", on_line=self._refuse_yanked, env=self._env(), cwd=work)
            return read_resolution(output.read_text(encoding="utf-8"), platform, present)
        except proc.CommandFailedError as error:
            whole = error.log.read_text(encoding="utf-8") if error.log else error.tail
            raise explained(whole, error.tail, platform) from error
        finally:
            shutil.rmtree(work)

    def _refuse_yanked(self, line: str) -> None:
        """Raise UsageError when uv warns that it uses a yanked file, because that version is pinned."""
        found = YANKED.match(line)
        if found and found[1] not in {requirement_name(one.requirement) for one in self.recipe.overrides}:
            raise UsageError(
                f"{found[1]} {found[2]} was yanked by its publishers",
                where=f"reason: {found[3] or 'none given'}",
                hint="require another release; to use this one, add an override to the recipe:\n"
                f"overrides: [{{requirement: {found[1]}=={found[2]}, why: …}}]",
            )

    def _folders(self, work: Path) -> dict[str, Path]:
        """By project, a folder with links to what was kept of it."""
        found = {project: work / "kept" / project for project in self.kept}
        for project, folder in found.items():
            folder.mkdir(parents=True)
            for link in self.kept[project]:
                (folder / link.filename).symlink_to(local_path(link.url))
        return found

    def _inputs(self, requirements: tuple[str, ...], folders: Mapping[str, Path]) -> dict[str, tuple[str, ...]]:
        named, others = split(self.recipe, requirements)
        return {
            "requirements.txt": others,
            "constraints.txt": self.recipe.constraints,
            "overrides.txt": tuple(override.requirement for override in self.recipe.overrides),
            **({PROJECT: (bound(self.recipe, named, folders),)} if named else {}),
        }

    def _argv(self, platform: Platform) -> list[str]:
        newest = self.recipe.exclude_newer
        return [
            uv.find_uv_bin(),
            "pip",
            "compile",
            "requirements.txt",
            "--no-config",
            "--no-progress",
            "--color",
            "never",
            "--constraints",
            "constraints.txt",
            "--overrides",
            "overrides.txt",
            "--format",
            "pylock.toml",
            "--output-file",
            "pylock.toml",
            "--no-header",
            "--only-binary",
            ":all:",
            "--python",
            sys.executable,
            "--python-version",
            self.recipe.python,
            "--python-platform",
            platform.uv_name,
            *(["--exclude-newer", newest.isoformat()] if newest else []),
        ]

    def _env(self) -> dict[str, str]:
        return uv_index_env(self.store, self.env, self.index_url)


def preferences(pins: Mapping[str, str], python: str) -> str:
    """Versions to keep, in uv's output format: uv prefers the versions in an existing output file."""
    head = f'lock-version = "1.0"\ncreated-by = "gb10"\nrequires-python = ">={python}"\n'
    tables = [f'\n[[packages]]\nname = "{name}"\nversion = "{pins[name]}"\n' for name in sorted(pins)]
    return head + ("".join(tables) or "packages = []\n")


def read_resolution(text: str, platform: Platform, present: Collection[str] = ()) -> tuple[Resolved, ...]:
    """The packages of a pylock.toml (PEP 751), each with the best of its wheels; raises UsageError. Pure."""
    resolved = []
    for package in tomllib.loads(text).get("packages", []):
        if package["name"] in present:
            continue
        links = {link.filename: link for link in map(_link, package.get("wheels", []))}
        best = best_wheel(links, platform)
        if best is None:
            raise UsageError(
                f"{package['name']} {package['version']} has no wheel for {platform.uv_name}",
                hint="constrain it to a version that has one",
            )
        resolved.append(Resolved(name=package["name"], version=package["version"], link=links[best]))
    return tuple(sorted(resolved, key=lambda entry: entry.name))


def _link(wheel: dict[str, object]) -> Link:
    url, hashes, size = str(wheel["url"]), wheel.get("hashes"), wheel.get("size")
    return Link(
        filename=unquote(str(wheel.get("name") or Path(urlsplit(url).path).name)),
        url=url,
        sha256=hashes.get("sha256") if isinstance(hashes, dict) else None,
        size=size if isinstance(size, int) else None,
    )


def explained(whole: str, tail: str, platform: Platform) -> UsageError | FetchError:
    """uv's reason in one sentence: the first and the last step of its derivation, which may be hundreds of lines.

    The exception's note holds all of it.
    """
    if NO_SOLUTION in whole:
        steps = [shorten(step, LONGEST_STEP, placeholder=" …") for step in BECAUSE.findall(whole)]
        reason = f": {'; and '.join(dict.fromkeys((steps[0], steps[-1])))}" if steps else ""
        misfit = UsageError(
            f"{MISFIT} on {platform.uv_name}{reason}",
            where=None if len(steps) in (1, 2) else tail,  # the steps between
            hint="change the requirement or constraint named last; when the index lags behind what a package\n"
            "declares, add an override with its reason to the recipe",
        )
        misfit.add_note(whole)
        return misfit
    if TIMED_OUT in whole:
        return FetchError(
            "a package index stopped sending: uv gave up after several tries",
            where=tail,
            hint=f"check the network and the proxy, then run again; on a slow line set {TIMEOUT} to more seconds",
        )
    return FetchError("uv could not resolve the requirements", where=tail)
