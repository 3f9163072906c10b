"""Compiling: a step's sources and headers, and the locked compilers, in a BuildKit stage.

It has no network, unless this machine shares a compile cache with others; a project's own build never has one.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gb10.containers.buildx.build import BuildRequest, lent_network
from gb10.containers.buildx.progress import Event, LogLine, StepStarted, full_disk, says_full
from gb10.containers.connection import Engine
from gb10.core.compilers_seen import object_name
from gb10.core.config import variable, without_login
from gb10.core.fetch import store_paths
from gb10.core.host import Host
from gb10.core.reporter import Task
from gb10.core.store import Store
from gb10.errors import BuildError
from gb10.image.build.bases import Bases
from gb10.image.build.contexts import BuildContext, Lay, build_context, secret_file, tree, wheels
from gb10.image.build.costs import jobs_expression, peaks
from gb10.image.build.estimate import TOOLS, outlook
from gb10.image.build.input_checks import fetch_nested, patched_source
from gb10.image.build.package_errors import package_error
from gb10.image.build.stage import log_path, run_build
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files
from gb10.image.patches.diff import parse_diff
from gb10.image.patches.patched import diffs_by_hand
from gb10.image.plan.catalog import module_path
from gb10.image.plan.compiles import INSTALLER
from gb10.image.plan.render import Compilers
from gb10.image.plan.values import Inputs, Origin, Plan, Step

STEP: Final = re.compile(r"^#\d+ ")
FAILED: Final = re.compile(r"^FAILED: (?:\[code=\d+\] )?(\S+)")
KILLED: Final = re.compile(
    r"^FAILED: \[code=(?:137|247)\]|^Killed$|Killed signal terminated program|died due to signal 9|exit code: 137$"
)
"""How ninja, a shell, gcc, nvcc and BuildKit report SIGKILL. Ninja shows Python's -9 as 247."""
CUT: Final = re.compile(
    r"nvFatbin error: empty input|fatbinary fatal +: Could not write file|\.fatbin\.c:\d+:\d+: error:"
)
"""How nvcc's programs report a file of their own that a full disk cut: none of them names the disk."""
COMPLAINT: Final = re.compile(r"\b(?:error|fatal)\s*:|undefined reference to")
KEPT: Final = "run the same command again: units in the compile cache are not recompiled"


def diagnosed(error: BuildError, log: Path, text: str, step: str) -> BuildError:
    """The error of a failed compile, from the text of its log; else ``error`` itself."""
    lines, unit = [STEP.sub("", line) for line in text.splitlines()], ""
    killed = any(KILLED.search(line) for line in lines)
    full = [line for line in lines if says_full([line]) or (CUT.search(line) and not killed)]
    if full:
        return full_disk(error.message.removeprefix("a disk is full: "), full[:3], log)
    for number, line in enumerate(lines):
        failed = FAILED.match(line)
        unit = "/".join(Path(failed[1]).parts[-2:]) if failed else unit  # module and file
        if KILLED.search(line):
            return _killed(log, unit or step)
        if failed:
            begin = number + 2  # behind the command
            end = next((at for at in range(begin, len(lines)) if FAILED.match(lines[at])), len(lines))  # another's
            first = next((at for at in range(begin, end) if COMPLAINT.search(lines[at])), None)
            if first is not None and not any(KILLED.search(other) for other in lines[begin : first + 1]):
                return _refused(log, unit, lines[first : first + 3])
    return package_error(log, lines) or error


def _refused(log: Path, unit: str, said: list[str]) -> BuildError:
    """The compiler's message, the line of source, and the caret below it."""
    verb = "link" if unit.endswith(".so") else "compile"
    below = [line for line in said[1:] if line.startswith(" ")]
    return BuildError(
        f"{unit} does not {verb}: {said[0]}",
        where="\n".join([*below, f"log: {log}"]),
        hint=f"fix that line in your patch or checkout; without changes of yours it is a defect of the release\n{KEPT}",
    )


def _killed(log: Path, unit: str) -> BuildError:
    hint = "stop other programs, or compile fewer units at once: GB10_JOBS=1\nthe largest unit takes 15 GB; "
    return BuildError(
        f"the compiler of {unit} was killed, as Linux does when memory runs out",
        where=f"log: {log}",
        hint=f"{hint}--builder NAME compiles on another machine\n{KEPT}",
    )


SCRIPT: Final = "inside/compile/compile_cache.py"
SAYS: Final = "compile cache: "
CONNECT_TIMEOUT: Final = 1000  # milliseconds; ccache's own 100 are for a network without routers


def shared_cache(env: Mapping[str, str], inputs: Inputs) -> str | None:
    """The server's URL, when this machine has one set; None for a change by hand, and for a project's own build.

    What such a compile writes, and the server's password that it could read, would reach every later build.
    """
    return None if inputs.by_hand or inputs.whole else env.get(variable("compile-cache")) or None


def reads_reviewed(inputs: Inputs) -> bool:
    """Whether what is by hand may take results of reviewed builds.

    Not with a new file: it can hide a header of the same name. ccache looks results up by the compiler's list of
    headers (CCACHE_DEPEND), which does not show that. Raises PatchError when a diff has changed since.
    """
    diffs = diffs_by_hand([use for origin in inputs.origins for use in origin.patches]).values()
    return not any(diff.kind == "add" for text in diffs for diff in parse_diff(text, "a diff"))


@contextmanager
def cache_secret(host: Host, inputs: Inputs) -> Iterator[Mapping[str, Path]]:
    """The server's URL as a build secret. The log shows it, because the stage gets a network."""
    url = shared_cache(host.env, inputs)
    if url is None:
        yield {}
        return
    host.reporter.say(f"compile cache {without_login(url)}: the compile stage has a network for it")
    with secret_file(host.store, configuration(url)) as path:
        yield {"compile-cache": path}


def configuration(url: str) -> str:
    """ccache's configuration. ``reshare``: what lies in the builder's own folder goes to the server, too."""
    return f"remote_storage = {with_user(url)}|connect-timeout={CONNECT_TIMEOUT}\nreshare = true\n"


def with_user(url: str) -> str:
    """A redis URL that names its user: ccache takes ``:secret@`` for no login, and splits at a coded colon."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    user, _, password = login.rpartition(":")
    if parts.scheme != "redis" or not at or user:
        return url
    return urlunsplit(parts._replace(netloc=f"default:{password}@{place}"))


UNKEYED = (
    "inside/compile/compile_slots.py",
    "inside/compile/markers.py",
    "inside/compile/unit_order.py",
    "inside/scan/elf.py",
    "inside/scan/fatbin.py",
)
"""They read GPU code back, or say when a compiler starts. They change no byte of a wheel, so no key.
A program's key has markers.py, which checks it in its stage."""
LEFT_OUT = "left out: "
"""Prefix of a stage's log line about a requested unit that it does not compile."""
COMPILING = "[compile "
"""How BuildKit names the steps of a compile stage."""
SOURCES = (".cu", ".cpp", ".cc")
UNITS = re.compile(r"\[(\d+)/(\d+)\] (.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileJob:
    """One compile: ``target`` of the Dockerfile among ``files``, and what its step reads."""

    plan: Plan
    step: Step
    target: str
    inputs: Inputs
    files: Mapping[str, Path | bytes]
    build_args: Mapping[str, str] = field(default_factory=dict)

    def run(self, ctx: Context, engine: Engine, out: Path) -> None:
        """Compile into the folder ``out``. Raises FetchError, PatchError, BuildError."""
        ctx.forecast.begin(TOOLS)
        # CMake targets read the image's base from its tar: the text of that stage is in their key
        bases = Bases(ctx, self.plan, engine)
        tars, images = bases.provide([name for name in self.inputs.bases if name == "base-build"])
        tars |= bases.tars(name for name in self.inputs.bases if name != "base-build")
        laid = self._context(ctx, tars)
        bases.ready_tools()
        with (
            cache_secret(ctx, self.inputs) as secrets,
            laid as context,
            ctx.reporter.task(self.step.name, unit="files", outlook=outlook(ctx, self.step.name)) as task,
            explained(ctx.store, self.step),
        ):
            request = BuildRequest(
                dockerfile=context.folder / "Dockerfile",
                target=self.target,
                platform=f"linux/{self.plan.options.build}",
                context=context.folder,
                contexts={**context.contexts, **images},
                secrets=secrets,
                network=lent_network(engine) if secrets else "none",
                out=out,
                build_args=self.build_args,
            )
            run_build(ctx, engine, request, self.step, lambda event: _note(ctx, self.step, task, event))
        ctx.forecast.end(self.step.name)

    def _context(self, ctx: Context, tars: Mapping[str, Lay]) -> AbstractContextManager[BuildContext]:
        """All inputs of the stage: fetched now, laid out when the context is entered."""
        tools, own = self.plan.step("tools"), ctx.catalog.contents
        fetch_nested(ctx, self.inputs)
        fetch_files(ctx, (tools, self.step))
        folders = {
            **{name: wheels(store_paths(ctx.store, files)) for name, files in self.inputs.wheels.items()},
            "tools-wheels": wheels(store_paths(ctx.store, tools.files)),
            "own-tools-wheels": wheels(store_paths(ctx.store, self.inputs.tools)),
            **{name: lay for origin in self.inputs.origins for name, lay in _origin(ctx, origin).items()},
        }
        scripts = {name: own[name] for name in (*UNKEYED, *((SCRIPT,) if shared_cache(ctx.env, self.inputs) else ()))}
        laid = {"install.py": own[INSTALLER], "inside/peaks.json": peaks(ctx.catalog, self.plan, self.step)}
        return build_context(ctx.store, {**stage_files({**self.files, **scripts}), **tars, **laid}, folders)


def compilers(ctx: Context, plan: Plan, step: Step, inputs: Inputs) -> Compilers:
    """How a stage compiles here. Raises PatchError when a diff given by hand has changed since."""
    return Compilers(
        jobs=jobs_expression(ctx, plan, step),
        shared=shared_cache(ctx.env, inputs) is not None,
        by_hand=inputs.by_hand,
        reviewed=reads_reviewed(inputs),
    )


def stage_files(files: Mapping[str, Path | bytes]) -> dict[str, Path | bytes]:
    """The files of a compile stage; scripts lie below /inside, which is on Python's path, as in the package gb10."""
    return {f"inside/{module_path(name)}" if name.startswith("inside/") else name: own for name, own in files.items()}


@contextmanager
def explained(store: Store, step: Step) -> Iterator[None]:
    """Raise a failed compile with the cause from its log, or unchanged when the log shows no known cause."""
    try:
        yield
    except BuildError as error:
        log = log_path(store, step)
        diagnosis = diagnosed(error, log, log.read_text(encoding="utf-8"), step.name)
        if diagnosis is error:
            raise
        raise diagnosis from error


def _origin(ctx: Context, origin: Origin) -> dict[str, Lay]:
    """The named contexts of an archive that is compiled: the archive, and the files that its patches change."""
    patched = {origin.patched: tree(patched_source(ctx, origin))} if origin.patches else {}
    return {origin.context: wheels(store_paths(ctx.store, [origin.file])), **patched}


def _note(ctx: Context, step: Step, task: Task, event: Event) -> None:
    """ninja's ``[n/m] …`` lines drive the progress of a compile. Messages for the user are passed on."""
    if isinstance(event, StepStarted) and event.step.startswith(COMPILING):
        ctx.forecast.end(TOOLS)
        ctx.forecast.begin(step.name)
    text = event.text if isinstance(event, LogLine) else ""
    if text.startswith((SAYS, LEFT_OUT)):
        ctx.reporter.say(text)
    found = UNITS.match(text)
    if found:
        ctx.forecast.begin(step.name)
        made = made_object(found[3])
        if made:
            ctx.forecast.done(step.name, made)
        ctx.reporter.update(task, int(found[1]), int(found[2]), Path(made or found[3].split(" ")[-1]).name)


def made_object(text: str) -> str:
    """The end of the path of the object that a line of ninja's names; empty for a link and other work.

    A line that names a source alone gives the name of its object, without a folder.
    """
    words = text.split()
    named = next((after for word, after in pairwise(words) if word == "-o"), words[-1] if words else "")
    return f"{Path(named).name}.o" if named.endswith(SOURCES) else object_name(named)
