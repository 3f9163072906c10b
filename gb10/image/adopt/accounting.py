"""Every line of a Dockerfile accounted for: what a recipe takes, what runs as a mod, what is left out, and why."""

import posixpath
import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from gb10.containers.reference import is_reference
from gb10.errors import UsageError
from gb10.image.adopt.adopted import Adopted, Block, Line, Need, Verdict
from gb10.image.adopt.build_files import AbsentError, BuildFile, BuildFiles
from gb10.image.adopt.dockerfile import Dockerfile, Instruction, Stage, expand, too_long
from gb10.image.adopt.hiding import HIDDEN, LOGIN, hidden, holds_secret, is_secret, is_secret_file
from gb10.image.adopt.ignore_file import exclude_rules
from gb10.image.adopt.run_lines import (
    NO_SUCCESSOR,
    PROGRAMS,
    WILD,
    Image,
    Later,
    Mounts,
    RunReader,
    finished,
    is_shell,
    quoted,
)
from gb10.image.adopt.shell import Command, parse_commands
from gb10.image.patches.owners import SITE
from gb10.image.patches.releases import Releases

BUILTIN: Final = {"TARGETPLATFORM": "linux/arm64", "TARGETOS": "linux", "TARGETARCH": "arm64", "TARGETVARIANT": ""}
"""ARGs that BuildKit knows, for a GB10."""
PLATFORMS: Final = ("linux/arm64", "linux/amd64")
BARE: Final = re.compile(r"(^|/)(cuda|ubuntu|debian|alpine|python|rockylinux|almalinux|fedora|centos|busybox)$")
"""Images that hold no engine, by the last part of their name."""
NAME: Final = re.compile(r"[A-Za-z_]\w{,199}", re.ASCII)
OCTAL: Final = re.compile(r"0?[0-7]{3}")
MOUNT_MODE: Final = re.compile(r"[0-7]{1,5}")
ID: Final = re.compile(r"[0-9]{1,10}")
ROOT: Final = re.compile(r"(root|0)(:(root|0))?")
MARKER: Final = "<-\"'"
SOME: Final = 8
MOST_READINGS: Final = 16
"""Of a Dockerfile, until no more ENV names what is not taken."""
LONGEST_SETTING: Final = 4096
LONGEST_PATH: Final = 4096
"""As Linux has it."""
MOST_CHARACTERS: Final = 1 << 23
"""Of all values and paths of a Dockerfile together, after their variables are put in."""
VARIABLE: Final = re.compile(r"\$\{?(\w+)")
LAUNCH: Final = {
    "ENTRYPOINT": "the base's entrypoint stays; a model recipe has the command",
    "CMD": "the base's command stays; a model recipe has the command",
    "VOLUME": "folders of the host are given at the start",
    "HEALTHCHECK": "`run` asks the server itself",
    "STOPSIGNAL": "`stop` sends the signal that the engine knows",
}
SILENT: Final = {
    "EXPOSE": "a note for people; it opens no port",
    "MAINTAINER": "a note for people",
    "ONBUILD": "it is for images that are built on this one",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DockerfileInputs:
    """What the user says beside the Dockerfile: values of ARG, the stage, the image in place of FROM."""

    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    base: str = ""
    environment: Mapping[str, str] | None = None
    """The variables of the base; None when they are not known."""
    modules: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names that packages are imported by, as far as they are known."""


def account(file: Dockerfile, context: BuildFiles, given: DockerfileInputs, releases: Releases, name: str) -> Adopted:
    """The parts of a recipe, and a verdict for each line. Reads the files that the image gets, runs nothing.

    Raises UsageError for a stage that is not there.
    """
    later = Later()
    for _ in range(MOST_READINGS):
        reader = _Account(file, context, given, releases, later)
        found = tuple(reader.lines())
        if (after := reader.later()) == later:
            break
        later = after
    else:
        raise UsageError("its lines name too many paths that only lines after them make", hint="name fewer of them")
    lines = tuple(_public(found))
    instructions = (*file.before, *(one for stage in file.stages for one in (stage.start, *stage.instructions)))
    image = reader.image
    return Adopted(
        base=reader.base,
        platform=reader.platform,
        requirements=tuple(image.requirements.values()),
        constraints=tuple(image.constraints.values()),
        env=dict(image.env),
        overlay=dict(sorted(image.overlay.items())),
        patches=dict(image.patches),
        mods=finished(image.drafts, name),
        wheels=tuple(image.wheels.values()),
        lines=lines,
        remarks=tuple(hidden(reader.remarks, names=False)) if reader.remarks else (),
        instructions=instructions,
        unsure=tuple(sorted(image.unsure - {""})),
    )


def _public(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines without secrets: a NUL parts the texts, and none of theirs has one. The reasons are sentences of ours:
    what follows a name in them is no value."""
    texts = hidden([line.text.replace("\0", "?") for line in lines])
    reasons = hidden([line.why.replace("\0", "?") for line in lines], names=False)
    for line in lines:
        yield replace(line, text=next(texts), why=next(reasons))


class _Account:
    """One pass over the stages that make the image. ``later``: what the pass before it found."""

    def __init__(
        self,
        file: Dockerfile,
        context: BuildFiles,
        given: DockerfileInputs,
        releases: Releases,
        later: Later,
    ) -> None:
        self.file = file
        self.settings = dict[tuple[int, str], str]()
        """Values of ENV that are taken, by line."""
        self.context = BuildFiles(context.root, context.rules, links=True)
        self.mounted = BuildFiles(context.root, context.rules)
        """The same files for the mounts of all RUN: they do not count as copied ones."""
        self.given = given
        self.base = given.base
        self.characters = 0
        self.platform = ""
        self.remarks = list[str]()
        self.secrets = set[str]()
        self.globals: dict[str, str | None] = {**BUILTIN}
        self.before = list(self._global_arguments())
        self.unknown = set[str]()
        """Variables that read one of the base."""
        self.image = Image(
            releases=releases,
            values={},
            base=given.environment or {},
            secrets=self.secrets,
            later=later,
            modules=given.modules,
        )
        self.wanted = self._final()
        self.chain = self._chain()
        self.sources = self._copied_from()

    def _expand(self, text: str, values: Mapping[str, str | None]) -> str | None:
        """As ``expand``, for what is kept; raises UsageError when all of it is more than a person writes."""
        found = expand(text, values)
        self.characters += len(found or "")
        if self.characters > MOST_CHARACTERS:
            raise UsageError("the values of the Dockerfile are too long", where=f"{text[:80]!r}")
        return found

    def _final(self) -> Stage:
        target = self.given.target.lower()
        if not target:
            return self.file.stages[-1]
        found = next((stage for stage in self.file.stages if target in (stage.name, str(stage.number))), None)
        if found is None:
            names = ", ".join(stage.name or str(stage.number) for stage in self.file.stages)
            raise UsageError(f"the Dockerfile has no stage {target}", hint=f"it has {names}")
        return found

    def _stage(self, name: str, before: int) -> Stage | None:
        """An earlier stage by its name or number."""
        known = self.file.stages[:before]
        return next((stage for stage in known if name.lower() == stage.name), None) or next(
            (stage for stage in known if name == str(stage.number)), None
        )

    def _from(self, stage: Stage) -> str | None:
        """The image or the stage that a stage begins with; None when an ARG of it has no value."""
        return expand(stage.start.words[0], self.globals) if stage.start.words else None

    def _chain(self) -> list[Stage]:
        """The stages that are the image, the first one FROM an image of others."""
        chain = [self.wanted]
        while (name := self._from(chain[0])) and (below := self._stage(name, chain[0].number)):
            chain.insert(0, below)
        return chain

    def _copied_from(self) -> dict[int, str]:
        """Stages that the image copies from, each with what it takes of it."""
        found: dict[int, list[str]] = {}
        waiting = list(self.chain)
        while waiting:
            stage = waiting.pop()
            taken = [
                (value, " ".join(one.words[:-1]))
                for one in stage.instructions
                for option, value in one.options
                if option == "from"
            ]
            for one in stage.instructions:
                mounts = (
                    dict(part.partition("=")[::2] for part in value.split(","))
                    for option, value in one.options
                    if option == "mount"
                )
                taken += [(parts["from"], "files for one step") for parts in mounts if "from" in parts]
            if stage.number in found:
                taken.append((self._from(stage) or "", "what stands above it"))
            for name, what in taken:
                source = self._stage(name, stage.number)
                if source is not None and source not in self.chain:
                    waiting += [] if source.number in found else [source]
                    found.setdefault(source.number, []).append(what)
        return {number: ", ".join(dict.fromkeys(names))[:200] for number, names in found.items()}

    def _compiled_in(self, stage: Stage) -> None:
        """Note the projects that a stage compiles of which the image takes files."""
        beside = Image(releases=self.image.releases, values=dict(self.globals))
        for one in stage.instructions:
            if one.name == "ARG":
                for word in one.words:
                    name, equals, value = word.partition("=")
                    known = self.given.arguments.get(name, self._expand(value, beside.values) if equals else None)
                    beside.values[name] = known if known is not None else self.globals.get(name)
            elif one.name == "RUN":
                RunReader(beside, Mounts()).read(self._commands(one, beside.values))
        self.image.wheels |= beside.wheels

    def _global_arguments(self) -> Iterator[Line]:
        for one in self.file.before:
            if one.name != "ARG":
                verdict: Verdict = "unread" if not one.name else "not-taken"
                yield _line(one, verdict, one.unread or "it stands before FROM")
                continue
            for word in one.words:
                name, equals, value = word.partition("=")
                known = self.given.arguments.get(name)
                if known is None and equals:  # nothing else has a value here
                    known = self._expand(value, ChainMap(self.globals, dict.fromkeys(VARIABLE.findall(value), "")))
                self.globals[name] = self._public(name, known)
            yield self._argument(one, self.globals)

    def _public(self, name: str, value: str | None) -> str | None:
        """A value that a recipe may keep; None for a secret, whose name is noted."""
        if is_secret(name, HIDDEN if value is None else value):
            self.secrets.add(name)
            return None
        self.secrets.discard(name)
        return value

    def later(self) -> Later:
        """What the next pass has to know: why a variable or a removal is not taken, as only a line after it would have
        made what it names, or what takes its place; and the variables at the end."""
        values = ((line, value) for line, value in self.settings.items() if ":" not in value)
        late = {line: why for line, value in values if (why := self._absent(value))}
        late |= {(one.line, one.text): NO_SUCCESSOR for one in self.image.removals if self.image.replaced(one)}
        return Later(withheld={**self.image.later.withheld, **late}, env=self.image.env if self.image.drafts else None)

    def _absent(self, value: str) -> str:
        """Why the value of a variable names what is not there; empty when it does not."""
        return self.image.lost_in(f" {value} ", {}, pythons=True) or self.image.hollow(posixpath.normpath(value))

    def lines(self) -> Iterator[Line]:
        """A verdict for every line, in the order of the Dockerfile."""
        yield from self.before
        numbers = {stage.number for stage in self.chain}
        for stage in self.file.stages:
            if stage.number in numbers:
                yield self._begin(stage)
                for one in stage.instructions:
                    yield from self._instruction(one)
            else:
                yield from self._elsewhere(stage)

    def _elsewhere(self, stage: Stage) -> Iterator[Line]:
        name = stage.name or str(stage.number)
        taken = self.sources.get(stage.number)
        why = (
            f"stage {name}: the image takes {taken} of it" if taken else f"stage {name}: the image takes nothing of it"
        )
        if taken:
            self._compiled_in(stage)
        for one in (stage.start, *stage.instructions):
            yield _line(one, "unread" if one.unread else "other-stage", one.unread or why)

    def _begin(self, stage: Stage) -> Line:
        """FROM: the image of others, or the stage below."""
        start = stage.start
        self.image.values = {**self.image.base, **self.image.env}
        if stage is not self.chain[0]:
            return _line(start, "taken", "the stage below is taken, too")
        if self.given.base:
            return _line(start, "taken", f"{self.given.base} takes its place")
        reference = self._from(stage)
        if reference is None:
            return _line(start, "not-taken", "an ARG of it has no value: --build-arg NAME=VALUE", "value")
        if reference == "scratch" or not is_reference(reference):
            return _line(start, "not-taken", f"{reference[:200]!a} is no image", "base")
        self.base = reference
        self.platform = next((one for one in PLATFORMS if one == start.option("platform")), "")
        if BARE.search(reference.partition("@")[0].rpartition(":")[0] or reference.partition("@")[0]):
            self.remarks.append(f"{reference} holds no engine: what the Dockerfile compiles of it is not taken")
        if "@" in reference:
            return _line(start, "taken", "the base, by its digest")
        self.remarks.append(f"{reference} names no digest: `lock` asks its registry once, and keeps the digest")
        return _line(start, "taken", "the base, by a tag that may move: `lock` keeps its digest")

    def _instruction(self, one: Instruction) -> Iterable[Line]:
        read: dict[str, Callable[[Instruction], Iterable[Line]]] = {
            "RUN": self._run,
            "COPY": self._copy,
            "ADD": self._copy,
            "ENV": self._env,
            "ARG": self._arg,
            "WORKDIR": self._workdir,
        }
        return read.get(one.name, self._setting)(one)

    def _setting(self, one: Instruction) -> Iterator[Line]:
        """What an image says of itself, and what our grammar cannot read."""
        if one.unread:
            yield _line(one, "unread", one.unread)
        elif one.name == "SHELL":
            self.image.shell = one.words
            yield _line(one, "taken" if is_shell(one.words) else "not-taken", "the shell of the commands after it")
        elif one.name == "USER":
            yield self._as_user(one)
        elif one.name in SILENT:
            yield _line(one, "no-effect", SILENT[one.name])
        elif one.name == "LABEL":
            yield _line(one, "not-taken", "gb10 writes labels of its own", "label")
        elif one.name in LAUNCH:
            yield _line(one, "not-taken", LAUNCH[one.name], "launch")
        else:
            yield _line(one, "not-taken", f"a recipe has nothing for {one.name}")

    def _as_user(self, one: Instruction) -> Line:
        """USER: mods run as root, and the image keeps the base's."""
        name = self._expand(one.words[0], self.image.values) if one.words else None
        self.image.user = "" if name and ROOT.fullmatch(name) else name or "a user that is not known here"
        if not self.image.user:
            return _line(one, "taken", "mods run as root")
        return _line(one, "not-taken", "the base's user stays; name another at the start: docker run --user", "launch")

    def _arg(self, one: Instruction) -> Iterator[Line]:
        for word in one.words:
            self._declare(word)
        yield self._argument(one, self.image.values)

    def _declare(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if name in self.image.env or name in self.image.base:
            return  # ENV goes before ARG, also the base's
        known = self.given.arguments.get(name)
        if known is None and equals:
            known = self._expand(value, ChainMap(self.image.values, self.globals))
        if known is None and name in self.globals:
            self.image.values[name] = self.globals[name]
        else:
            self.image.values[name] = self._public(name, known)

    def _argument(self, one: Instruction, values: Mapping[str, str | None]) -> Line:
        names = [word.partition("=")[0] for word in one.words]
        if secret := next((name for name in names if name in self.secrets), ""):
            return _line(one, "not-taken", f"{secret} is a secret: no recipe keeps it", "launch")
        absent = [name for name in names if values.get(name) is None]
        if not absent:
            return _line(one, "taken", "its value is put in where it is read")
        given = " ".join(f"--build-arg {name}=VALUE" for name in absent)
        return _line(one, "not-taken", f"it has no value here: {given}", "value")

    def _env(self, one: Instruction) -> Iterator[Line]:
        """A verdict for each variable: they read what was set before the instruction."""
        absent: dict[str, str | None] = {}
        if self.given.environment is not None:  # what the base does not have is empty
            absent |= dict.fromkeys(VARIABLE.findall(" ".join(one.words)), "")
        before = ChainMap[str, str | None](self.image.values, absent)
        made: dict[str, str | None] = {}
        withheld: dict[str, str] = {}
        rows = one.text.split("\n")
        for word in one.words:
            name, _, text = word.partition("=")
            row = next((index for index, line in enumerate(rows) if name in line), 0)
            line = replace(_line(one, "taken", "env"), first=one.first + row, last=one.first + row, text=f"ENV {word}")
            value = self._expand(text, before)
            if name == "PATH":
                self.image.first = self._expand(text.partition(":")[0], before) or ""
            unset = [
                known
                for known in VARIABLE.findall(text)
                if known in before and before[known] is None and known not in self.unknown
            ]
            (self.unknown.add if value is None and not unset else self.unknown.discard)(name)
            made[name] = value
            if value is None:
                self.image.env.pop(name, None)
            if value is None and unset and unset[0] in self.secrets:
                self.secrets.add(name)
                why = f"{unset[0]} is a secret, which no recipe keeps: give {name} at the start"
                yield replace(line, verdict="not-taken", why=why, need="launch")
            elif value is None and unset:
                why = f"{unset[0]} has no value here: --build-arg {unset[0]}=VALUE"
                yield replace(line, verdict="not-taken", why=why, need="value")
            elif value is None:
                why = f"{name} reads a variable of the base, whose config is not here"
                yield replace(line, verdict="unchecked", why=why, need="base")
            elif self._public(name, value) is None:
                made[name] = None
                self.image.env.pop(name, None)
                why = f"{name} is a secret: give it at the start"
                yield replace(line, verdict="not-taken", text=f"ENV {name}={HIDDEN}", why=why, need="launch")
            elif not NAME.fullmatch(name) or len(value) > LONGEST_SETTING or not value.isprintable():
                yield replace(line, verdict="not-taken", why=f"{name[:80]!a} is no variable that a recipe can have")
            elif (why := self._lost(line, value)) and ":" not in value:
                withheld[name] = why
                yield replace(line, verdict="not-taken", why=f"it names what is not taken: {why}", need="lost")
            else:
                self.image.env[name] = value
                self.settings[line.first, line.text] = value
                yield replace(line, why=f"env; a part of it is not taken: {why}") if why else line
        self.image.values |= made
        self.image.withheld = {
            name: why
            for name, why in {**self.image.withheld, **withheld}.items()
            if name in withheld or name not in made
        }

    def _lost(self, line: Line, value: str) -> str:
        """Why the value of a variable names what is not there; empty when it does not."""
        return self.image.later.withheld.get((line.first, line.text), "") or self._absent(value)

    def _workdir(self, one: Instruction) -> Iterator[Line]:
        place = self._expand(one.words[0], self.image.values) if one.words else None
        if place is not None and len(place) + len(self.image.workdir or "") > LONGEST_PATH:
            raise too_long(one.text)
        if place is None or not (place.startswith("/") or self.image.workdir):
            self.image.workdir = None
            yield _line(one, "not-taken", "a folder that is not known here", "value")
            return
        self.image.workdir = posixpath.normpath(posixpath.join(self.image.workdir or "/", place))
        if not self.image.lost_in(f" {self.image.workdir}/ ", {}):
            self.image.make([self.image.workdir])
            self.image.held.add(self.image.workdir)
        yield _line(one, "taken", "the folder of what stands below; at the start the base's stays")

    def _copy(self, one: Instruction) -> Iterator[Line]:
        """Files of the build context, or texts of the Dockerfile: an overlay, or files of the mod after a command."""
        words = [self._expand(word, self.image.values) for word in one.words if not word.startswith("<<")]
        places = tuple(word for word in words[:-1] if word is not None)
        if not words or None in words:
            yield _line(one, "not-taken", "an ARG of it has no value: --build-arg NAME=VALUE", "value")
            return
        target = words[-1] or ""
        where = target if target.startswith("/") else f"{self.image.workdir}/{target}" if self.image.workdir else ""
        if where and target in (".", "./"):
            where = f"{self.image.workdir}/"
        if one.option("from"):
            self.image.left = True
            yield self._from_elsewhere(one, places, where)
        elif not where:
            why = "it copies into the base's working directory, which is not known here"
            yield _line(one, "unchecked", why, "base")
        elif why := _no_plain_copy(one, places):
            self.image.lose(posixpath.normpath(where), "what ADD fetches or unpacks")
            yield _line(one, "not-taken", why, "download")
        else:
            try:
                texts = self._inline(one, where)
                secrets = (
                    path
                    for path, file in texts.items()
                    if is_secret_file(path, file.content) or holds_secret(file.content.decode("utf-8", "replace"))
                )
                if secret := next(secrets, ""):
                    self.image.lose(secret, "a text that holds a secret")
                    why = "its text holds a secret, which no recipe keeps"
                    yield _line(one, "not-taken", why, "value")
                    return
                found = texts | self._copied(one, places, where)
            except AbsentError as error:
                self.image.lose(posixpath.normpath(where), "a file that is not in the folder")
                yield _line(one, "unchecked", str(error), "lost" if places else "base")
            else:
                yield self._lay(one, found, where)

    def _copied(self, one: Instruction, places: tuple[str, ...], where: str) -> dict[str, BuildFile]:
        """The files of the build context that a COPY means. Raises AbsentError."""
        if not places:
            return {}
        patterns = [self._expand(value, self.image.values) for name, value in one.options if name == "exclude"]
        known = [one for one in patterns if one is not None]
        if len(known) < len(patterns):
            raise AbsentError("--exclude has no value here: --build-arg NAME=VALUE")
        try:
            without = exclude_rules(known)
        except UsageError as error:
            raise AbsentError(error.message) from error
        parents = any(name == "parents" and value in ("", "true") for name, value in one.options)
        found = self.context.copied(places, where, parents=parents, without=without)
        self.remarks += [f"line {one.first}: {name} means no file here" for name in self.context.unmatched]
        return self._without_secrets(one, found, places)

    def _without_secrets(
        self, one: Instruction, found: Mapping[str, BuildFile], places: Sequence[str]
    ) -> dict[str, BuildFile]:
        """The files without those that hold secrets, which are named: one that is copied by its own name stays."""
        own = {posixpath.normpath(place) for place in places}
        secret = {path: file for path, file in found.items() if is_secret_file(file.source, file.content)}
        out = {path for path, file in secret.items() if file.source not in own}
        # A URL with a name and a password may be an example.
        secret |= {path: file for path, file in found.items() if path not in secret and LOGIN.search(file.content)}
        for what, some in (("is left out", out), ("is copied as it is", secret.keys() - out)):
            names = sorted({secret[path].source for path in some})
            more = f" and {len(names) - SOME} more" if len(names) > SOME else ""
            if names:
                self.remarks.append(f"line {one.first}: what may be a secret {what}: {', '.join(names[:SOME])}{more}")
        return {path: file for path, file in found.items() if path not in out}

    def _from_elsewhere(self, one: Instruction, places: Sequence[str], where: str) -> Line:
        """COPY --from: files that a stage makes, or that another image has."""
        source = one.option("from")
        what = f"stage {source}" if self._stage(source, len(self.file.stages)) else f"the image {source}"
        into = where.endswith("/") or len(places) > 1
        for place in places if into else [where]:
            path = posixpath.normpath(f"{where}/{posixpath.basename(place)}" if into else where)
            self.image.lose(WILD.split(path)[0] or "/", f"files of {what}")
        top = posixpath.normpath(where)
        folders = [place for place in places if top not in PROGRAMS or posixpath.basename(place) in ("bin", "sbin", "")]
        if into and folders:  # what is in a folder goes there itself
            self.image.fill(top, f"files of {what}")
        why = f"files of {what}, which is not built here: {' '.join(places)}"
        return _line(one, "not-taken", why[:300], "stage")

    def _inline(self, one: Instruction, where: str) -> dict[str, BuildFile]:
        """The texts of the Dockerfile itself."""
        names = [word for word in one.words if word.startswith("<<")]
        found: dict[str, BuildFile] = {}
        texts = " ".join(text.content for text in one.heredocs if not text.literal)
        known = self.given.environment is not None  # what the base does not have is empty
        absent: dict[str, str | None] = dict.fromkeys(VARIABLE.findall(texts), "") if known else {}
        values = ChainMap[str, str | None](self.image.values, absent)
        for marker, text in zip(names, one.heredocs, strict=False):
            content = text.content if text.literal else self._expand(text.content, values)
            if content is None:
                raise AbsentError("its text reads a variable of the base, or one that has no value here")
            into = where.endswith("/") or len(one.words) > 2
            path = posixpath.normpath(f"{where}/{marker.strip(MARKER)}" if into else where)
            found[path] = BuildFile("", content.encode())
        return found

    def _lay(self, one: Instruction, found: Mapping[str, BuildFile], where: str) -> Line:
        """Files for the overlay. After a command of a mod, and with an owner or a mode of their own, they go into the
        mod, in their place in the order."""
        owner, mode = (self._expand(one.option(name), self.image.values) for name in ("chown", "chmod"))
        if owner is None or mode is None:
            self.image.lose(posixpath.normpath(where), "a file whose owner or mode is not known here")
            why = f"--{'chown' if owner is None else 'chmod'} has no value here: --build-arg NAME=VALUE"
            return _line(one, "unchecked", why, "value")
        links = {path: file.link for path, file in found.items() if file.link}
        self.image.make(found)
        found = {path: file for path, file in found.items() if not file.link}
        if OCTAL.fullmatch(mode):
            found = {path: replace(file, executable=bool(int(mode, 8) & 0o111)) for path, file in found.items()}
        before, after = _rights(owner, mode, found, where)
        site = sum(1 for path in found if SITE.match(path))
        what = f"{len(found)} {'file' if len(found) == 1 else 'files'}" + (f", {site} in site-packages" if site else "")
        self.image.lost = {path: why for path, why in self.image.lost.items() if path not in found}
        late = bool(self.image.drafts)
        plain = not late and not after
        if plain:
            self.image.overlay |= found
        if plain and not links:
            return _line(one, "taken", f"overlay: {what}")
        draft = self.image.draft(network=False)
        folder = f"files/{one.first}"
        if found and not plain:
            draft.files |= {f"{folder}{path}": file for path, file in found.items()}
            after.insert(0, f'cp -a --no-preserve=ownership "$here/{folder}/." /')
            self.image.added |= found
        for path, leads in sorted(links.items()):
            above = quoted(posixpath.dirname(path))
            after.append(f"mkdir -p {above} && ln -sfT {quoted(leads)} {quoted(path)}")
        text = "\n".join([f"# line {one.first} of the Dockerfile", *before, *after])
        draft.blocks.append(Block(one.first, one.last, text))
        whys = [] if plain else ["laid after the commands before it" if late else "with owner and mode"]
        whys += [f"links that stay links: {len(links)}"] if links else []
        return _line(one, "mod", f"{what}, {', '.join(whys)}")

    def _run(self, one: Instruction) -> Iterator[Line]:
        if not is_shell(self.image.shell):
            yield _line(one, "not-taken", "SHELL names a shell that is not known here")
            return
        lines = RunReader(self.image, self._mounts(one)).read(self._commands(one, self.image.values))
        yield from lines or [_line(one, "no-effect", "it has no command")]

    def _commands(self, one: Instruction, known: Mapping[str, str | None]) -> tuple[Command, ...]:
        """The commands of a RUN: of its shell text, of its JSON array, or of its heredoc."""
        values = {**known, **dict.fromkeys(self.secrets, HIDDEN)}
        if one.exec_form:
            written = tuple(quoted(word) for word in one.words)
            return (Command(first=one.first, last=one.last, text=" ".join(written), words=one.words, written=written),)
        head = re.match(r"<<-?\s*[\"']?(\w+)[\"']?[ \t]*(.*)\n", one.body)
        if head is None or not one.heredocs:
            return parse_commands(one.body, one.rows, values)
        content = one.heredocs[0].content
        if not head[2] and not content.startswith("#!"):
            return parse_commands(content, one.rows[1:], values)
        program = head[2] or content.partition("\n")[0].removeprefix("#!").removeprefix("/usr/bin/env ").strip()
        end = "END_OF_THEIR_TEXT"
        text = f"{program} - <<'{end}'\n{content}{end}"
        found = parse_commands(text, (one.first, *one.rows[1:], one.last), values)
        return tuple(replace(command, first=one.first, last=one.last) for command in found)

    def _mounts(self, one: Instruction) -> Mounts:
        """What a RUN alone has: files of the build context, folders that no image keeps, and what is not taken."""
        lost, empty, folders = dict[str, str](), dict[str, tuple[str, str]](), dict[str, dict[str, BuildFile]]()
        for value in (value for option, value in one.options if option == "mount"):
            parts = dict(part.partition("=")[::2] for part in value.split(","))
            kind, name = parts.get("type", "bind"), parts.get("id") or parts.get("source") or parts.get("src") or ""
            given = next((parts[key] for key in ("target", "dst", "destination") if parts.get(key)), "")
            target = self._expand(given, self.image.values)
            if kind in ("secret", "ssh"):
                variable = [parts["env"]] if parts.get("env") else []
                lost |= dict.fromkeys((target or f"/run/secrets/{name}", *variable), "a secret of the build")
                continue
            place = posixpath.normpath(posixpath.join(self.image.workdir or "", target or ""))
            if target is None or not place.startswith("/") or place == "/":
                lost[target or given or value] = "a mount whose place is not known here"
                continue
            lost.pop(place, None)  # the last one of a place hides those before it
            empty.pop(place, None)
            folders.pop(place, None)
            if kind in ("cache", "tmpfs") and "from" not in parts:
                mode, user, group = parts.get("mode", "755"), parts.get("uid", "0"), parts.get("gid", "0")
                if kind == "tmpfs":
                    empty[place] = ("1777", "")
                elif MOUNT_MODE.fullmatch(mode) and ID.fullmatch(user) and ID.fullmatch(group):
                    empty[place] = (mode, "" if (user, group) == ("0", "0") else f"{user}:{group}")
                else:
                    lost[place] = "a mount whose rights are not known here"
            elif kind == "bind" and "from" not in parts:
                source = self._expand(parts.get("source") or parts.get("src") or ".", self.image.values) or ""
                try:
                    files = self.mounted.copied((source,), place)
                except AbsentError as error:
                    lost[place] = f"a mount: {error}"
                else:
                    folders[place] = self._without_secrets(one, files, (source,))
            else:
                lost[place] = f"it reads {'stage ' + parts['from'] if 'from' in parts else kind} by a mount"
        return Mounts(lost=lost, empty=empty, folders=folders)


def _rights(owner: str, mode: str, found: Mapping[str, BuildFile], where: str) -> tuple[list[str], list[str]]:
    """Commands before and after files are laid: for an owner that is not root, and for a mode that no overlay has.

    As Docker does it: a folder that is made for them has the owner, one that is copied has owner and mode.
    """
    top = posixpath.normpath(where)
    above = {str(one) for path in found for one in PurePosixPath(path).parents}
    copied = sorted(path for path in above if path.startswith(f"{top.rstrip('/')}/"))
    paths = " ".join(quoted(path) for path in (*copied, *found))
    before, after = list[str](), list[str]()
    if owner and not ROOT.fullmatch(owner):
        group = "" if ":" in owner else f":{owner}" if owner.isdecimal() else ":"
        whose = quoted(f"{owner}{group}")
        made = " ".join(quoted(path) for path in sorted(above - {"/", *copied}))
        if made:
            make = f'{{ mkdir "$folder" && chown {whose} "$folder"; }}'
            before.append(f'for folder in {made}; do [ -e "$folder" ] || {make}; done')
        after.append(f"chown {whose} {paths}")
    if mode and not (OCTAL.fullmatch(mode) and int(mode, 8) in (0o644, 0o755) and not copied):
        after.append(f"chmod {quoted(mode)} {paths}")
    return before, after


def _no_plain_copy(one: Instruction, places: Sequence[str]) -> str:
    """Why a COPY or ADD is more than plain files of the build context; empty when it is not."""
    if url := next((place for place in places if "://" in place or place.startswith("git@")), ""):
        return f"{url[:200]} is fetched by the build, and no lock has it: add the file by COPY"
    if one.name == "ADD" and any(re.search(r"\.(tar|tgz|tar\.\w+)$", place) for place in places):
        return "ADD unpacks an archive: unpack it in the folder, and COPY that"
    return ""


def _line(one: Instruction, verdict: Verdict, why: str, need: Need = "") -> Line:
    return Line(
        first=one.first, last=one.last, instruction=one.name, text=one.text, verdict=verdict, why=why, need=need
    )
