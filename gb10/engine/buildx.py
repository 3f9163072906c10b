"""Builds through docker buildx: one request in, events while it runs, the image's digest or a BuildError out."""

import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TextIO

from gb10.engine.connection import Engine
from gb10.engine.context import client_folder
from gb10.engine.external import IMPORT
from gb10.engine.failure import explained
from gb10.engine.packages import Programs, unpack, unpacked
from gb10.engine.progress import Event, LogLine, Note, Parser, Plain, RawJson, StepDone, StepFailed, StepStarted
from gb10.errors import BuildError, EngineError, Gb10Error
from gb10.proc import TAIL_LINES, CommandFailedError, capture, stream
from gb10.store import Store

Network = Literal["none", "default", "host"]
LEAST_VERSION = (0, 10)
"""The first buildx with --provenance; named contexts came in 0.8."""
RAWJSON_VERSION = (0, 13)
VERSION = re.compile(r"buildx v?(\d+)\.(\d+)")
CANCELLED = "context canceled"
"""The error of a step that ended because another one failed."""
CHOICE = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
STEERING = ("BUILDX_", "BUILDKIT_", "DOCKER_BUILDKIT", "SOURCE_DATE_EPOCH")
"""Variables that would change a build behind our back: SOURCE_DATE_EPOCH becomes a build argument by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """One target of one Dockerfile. Of ``out`` and ``output`` only one can be named.

    ``network`` is for steps that say ``RUN --network=default``; ``host`` is for an engine that has no bridge.
    """

    dockerfile: Path
    target: str
    platform: str
    context: Path | None = None
    """Where ADD and COPY without --from read; None: an empty directory."""
    contexts: Mapping[str, Path] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    build_args: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    output: str | None = None
    """buildx's --output; without it and ``out`` the result stays in the build cache alone."""
    out: Path | None = None
    """A directory that receives the result's files."""
    network: Network = "none"
    cache_from: tuple[str, ...] = ()
    cache_to: tuple[str, ...] = ()
    """External caches, as buildx takes them."""

    def __post_init__(self) -> None:
        if self.out and self.output:
            raise Gb10Error(f"a build has two outputs: {self.out} and {self.output}")


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildResult:
    """What buildx says of the result; the digests are None when no image was made."""

    image: str | None
    """Digest of the manifest (without containerd's store: of the config)."""
    config: str | None
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Buildx:
    """A buildx to run: its command, its version, the environment that leads it to the engine."""

    command: tuple[str, ...]
    version: tuple[int, int]
    env: Mapping[str, str]
    store: Store


def lent_network(engine: Engine) -> Network:
    """The network for steps that say ``--network=default``: the embedded engine has no bridge, and lends the host's."""
    return "host" if engine.kind == "embedded" and engine.builder is None else "default"


def image_output(engine: Engine) -> str:
    """buildx's --output that hands an image to the engine; layers that stay on this machine are not compressed."""
    if engine.builder:
        return "type=docker,compression=uncompressed"
    return "type=image,compression=uncompressed" if engine.containerd else "type=image"


def open_buildx(engine: Engine, env: Mapping[str, str], store: Store) -> Buildx:
    """The buildx for an engine: the user's plugin for the user's engine, else our own; raises EngineError."""
    own_env = _environment(engine, env, store)
    named = (f"--builder={engine.builder}",) if engine.builder else ()
    plugin = _plugin(own_env) if engine.kind == "user" else None
    if plugin:
        return Buildx(("docker", "buildx", *named), plugin, own_env, store)
    programs = unpacked(store) or unpack(store, env)
    command = (str(programs.bin / "docker-buildx"), *named)
    with explained("buildx does not run", hint="./build.py engine down, then run the command again: it is checked"):
        text = capture([*command, "version"], env=own_env)
    return Buildx(command, _version(text), own_env, store)


def client_environment(engine: Engine, programs: Programs | None, store: Store) -> dict[str, str]:
    """The variables by which docker and buildx reach the embedded engine, no credentials of the user involved."""
    folder = store.entry("engine", "client")
    folder.mkdir(parents=True, exist_ok=True)
    plugins = {"cliPluginsExtraDirs": [str(programs.bin)]} if programs else {}
    aside = folder / f"config.json.{os.getpid()}"
    aside.write_text(json.dumps(plugins), encoding="utf-8")
    aside.replace(folder / "config.json")
    return {"DOCKER_HOST": engine.endpoint.host, "DOCKER_CONFIG": str(folder)}


def build(
    buildx: Buildx,
    request: BuildRequest,
    *,
    log: Path,
    on_event: Callable[[Event], None] = lambda event: None,
) -> BuildResult:
    """Build; the readable log goes to ``log``. Raises BuildError with the failed step and its last lines."""
    log.parent.mkdir(parents=True, exist_ok=True)
    work = buildx.store.scratch("build")
    try:
        with log.open("w", encoding="utf-8") as out:
            _run(buildx, request, work, _Record(out, log, on_event))
        return _result(work / "metadata.json")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def arguments(request: BuildRequest, *, work: Path, progress: str) -> list[str]:
    """buildx's arguments for a request. Pure."""
    argv = ["build", f"--progress={progress}", "--provenance=false", "--sbom=false"]
    argv += [f"--network={request.network}", f"--metadata-file={work / 'metadata.json'}"]
    argv += [f"--file={request.dockerfile}", f"--target={request.target}", f"--platform={request.platform}"]
    argv += [f"--build-context={name}={path}" for name, path in sorted(request.contexts.items())]
    argv += [f"--secret=id={name},{_csv(f'src={path}')}" for name, path in sorted(request.secrets.items())]
    argv += [f"--build-arg={name}={value}" for name, value in sorted(request.build_args.items())]
    argv += [f"--tag={tag}" for tag in request.tags]
    argv += [f"--cache-from={cache}" for cache in request.cache_from]
    argv += [f"--cache-to={cache}" for cache in request.cache_to]
    return [*argv, f"--output={_output(request)}", str(request.context or work / "empty")]


def _output(request: BuildRequest) -> str:
    if request.out:
        return f"type=local,{_csv(f'dest={request.out}')}"
    return request.output or "type=cacheonly"


def _csv(text: str) -> str:
    """A field as buildx's CSV options want it when it holds a comma or a quote."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


@dataclass(slots=True)
class _Record:
    """Writes the readable log and remembers what an error must tell."""

    out: TextIO
    log: Path
    on_event: Callable[[Event], None]
    numbers: dict[str, int] = field(default_factory=dict)
    tails: dict[str, deque[str]] = field(default_factory=dict)
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    failed: StepFailed | None = None

    def take(self, event: Event) -> None:
        """One more event."""
        match event:
            case StepStarted(step):
                self._write(step, step)
            case StepDone(step, seconds, cached):
                self._write(step, "CACHED" if cached else f"DONE {seconds:.1f}s")
            case StepFailed(step, error):
                first = self.failed is None or self.failed.error.endswith(CANCELLED)
                if first and not step.startswith(IMPORT):
                    self.failed = event
                self._write(step, f"ERROR: {error}")
            case LogLine(step, text):
                self.tails.setdefault(step, deque(maxlen=TAIL_LINES)).append(text)
                self._write(step, text)
            case Note(text):
                self.notes.append(text)
                self.out.write(f"{text}\n")
        self.on_event(event)

    def _write(self, step: str, text: str) -> None:
        number = self.numbers.setdefault(step, len(self.numbers) + 1)
        self.out.write(f"#{number} {text}\n")
        self.out.flush()

    def error(self, target: str) -> BuildError:
        """What went wrong: the failed step with its last lines, else buildx's own words."""
        log = f"log: {self.log}"
        if self.failed is None:
            return BuildError(f"cannot build {target}", where="\n".join([*self.notes, log]))
        lines = self.tails.get(self.failed.step, ())
        return BuildError(
            f"build step failed: {short(self.failed.step)}",
            where="\n".join([*lines, self.failed.error.rpartition('" ')[2], log]),  # without the script it quotes
        )


def short(step: str) -> str:
    """A step's name without its mounts and beyond its first line. Pure."""
    words = [word for word in step.partition("\n")[0].split() if not word.startswith("--mount=")]
    return " ".join(words)[:100]


def _run(buildx: Buildx, request: BuildRequest, work: Path, record: _Record) -> None:
    (work / "empty").mkdir()
    raw = buildx.version >= RAWJSON_VERSION
    parser: Parser = RawJson() if raw else Plain()

    def on_line(line: str) -> None:
        for event in parser.feed(line):
            record.take(event)

    argv = [*buildx.command, *arguments(request, work=work, progress="rawjson" if raw else "plain")]
    try:
        stream(argv, log=Path(os.devnull), on_line=on_line, env=buildx.env)
    except CommandFailedError as error:
        raise record.error(request.target) from error


def _result(metadata: Path) -> BuildResult:
    found = json.loads(metadata.read_text(encoding="utf-8")) if metadata.exists() else {}
    return BuildResult(
        image=found.get("containerimage.digest"), config=found.get("containerimage.config.digest"), metadata=found
    )


def client_variables(env: Mapping[str, str], store: Store) -> dict[str, str]:
    """The user's own variables for buildx, credentials' place included, without those that steer it."""
    kept = {name: value for name, value in env.items() if not name.startswith(STEERING)}
    return {**kept, "BUILDX_CONFIG": str(store.entry("engine", "buildx"))}


def _environment(engine: Engine, env: Mapping[str, str], store: Store) -> dict[str, str]:
    kept = client_variables(env, store)
    if engine.builder:  # the user's own list of builders, and the credentials that it works with
        kept["BUILDX_CONFIG"] = env.get("BUILDX_CONFIG") or str(client_folder(env) / "buildx")
        reached = {"DOCKER_HOST": engine.endpoint.host} if engine.kind == "embedded" else {}
        return {name: value for name, value in kept.items() if not reached or name not in CHOICE} | reached
    if engine.kind == "user":
        return kept
    kept = {name: value for name, value in kept.items() if not name.startswith("DOCKER_")}
    return kept | client_environment(engine, unpacked(store), store)


def _plugin(env: Mapping[str, str]) -> tuple[int, int] | None:
    """The version of the user's buildx plugin, None when there is none that can be used."""
    if shutil.which("docker", path=env.get("PATH")) is None:
        return None
    try:
        version = _version(capture(["docker", "buildx", "version"], env=env))
    except CommandFailedError:
        return None
    return version if version >= LEAST_VERSION else None


def _version(text: str) -> tuple[int, int]:
    match = VERSION.search(text)
    if match is None:
        raise EngineError(
            f"cannot read buildx's version from {text.strip()!r}", hint="install docker-buildx 0.13 or newer"
        )
    return int(match[1]), int(match[2])
