"""The engine's choice for one model: its own code in a child process with limits, over the config alone."""

import json
import os
import platform
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gb10.core.fields import Architecture
from gb10.core.files import digest
from gb10.core.host import Host
from gb10.core.installation import PACKAGE
from gb10.core.proc import SILENT, CommandFailedError, capture_while_active
from gb10.core.store import file_sha256, note_use
from gb10.errors import Gb10Error, UsageError, VerifyError
from gb10.image.context import Context
from gb10.image.explain.engine_files import (
    OPERATORS,
    ORIGINALS,
    SITE,
    EngineFacts,
    Packages,
    Parts,
    Patching,
    engine_files,
    read_facts,
)
from gb10.image.explain.layer_rows import Answer, read_answer, read_answers
from gb10.image.patches.patched import patched_files
from gb10.image.patches.selection import plan_patches
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedWheel

CHILD: Final = Path(__file__).parent / "child"
PLACE: Final = CHILD.relative_to(PACKAGE.parent)
"""Where its modules find each other, below a folder of Python's path."""
SECONDS: Final = 600
"""Wall time for one model."""
LIMITS: Final = {"RLIMIT_CPU": 300, "RLIMIT_FSIZE": 1 << 26, "RLIMIT_AS": 32 << 30, "RLIMIT_CORE": 0}
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
LIMIT_SIGNALS: Final = (signal.SIGXCPU, signal.SIGXFSZ, signal.SIGKILL)
CONFIG: Final = "config.json"
QUANTIZATION: Final = "quantization_config"
QUANTIZED: Final = "hf_quant_config.json"
OWN_PACKAGE: Final = PACKAGE / "inside/compile/gb10_kernels.py"
"""What becomes the ``__init__`` of our package of kernels."""
OWN_FOLDER: Final = "own"
REPORT: Final = "this is a gap of explain: please report it with these lines; the model may well be served"
WHOSE: Final = {
    "engine": "it refuses the model or an option itself",
    "config": "the config is not what its readers expect",
    "unknown": "nobody knows whether the config or explain is at fault",
}
HINTS: Final = {
    "engine": "these are the engine's own words, without a GPU",
    "config": "give the config.json as it is on the hub",
    "unknown": "if this release serves the model, this is a gap of explain: please report it with these lines",
}
ANSWER: Final = "answer.json"
SCRIPTS: Final = "scripts"
"""The folder of CHILD's modules on the child's path: nothing else of gb10, or of what lies beside it, is found."""
LINE: Final = 160
"""Characters of the engine's error: the reasons follow, each on its own line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What the image holds beside the engine: ``kernels`` is the arch of our package gb10-kernels, empty without it.

    ``stock``: the release is asked as upstream ships it, which looks for no such package. ``beside``: the stock release
    is asked, too, for what it would choose instead.
    """

    kernels: str = ""
    stock: bool = False
    beside: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What an engine is asked, but for the model."""

    facts: EngineFacts
    files: Path
    options: Mapping[str, str]
    held: Held


def ask_engine(
    host: Host,
    facts: EngineFacts,
    files: Path,
    config: Mapping[str, Any],
    options: Mapping[str, str],
    *,
    held: Held | None = None,
) -> Answer:
    """The engine's choice for every layer of a config. Raises UsageError, Gb10Error when the child gives no answer.

    An engine that gives the same reason for other devices does not refuse this one.
    """
    return ask_models(host, Question(facts=facts, files=files, options=options, held=held or Held()), [config])[0]


def ask_models(host: Host, ask: Question, configs: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """The same for several models: the engine starts once."""
    answers = _cached_answers(host, ask, configs)
    refused = [number for number, answer in enumerate(answers) if answer.tried and ask.facts.elsewhere]
    for number in refused:
        others = (ask.facts.model_copy(update={"capability": one, "flags": {}}) for one in ask.facts.elsewhere)
        again = (_cached_answers(host, replace(ask, facts=one), [configs[number]])[0] for one in others)
        if all(one.stopped == answers[number].stopped for one in again):
            answers[number] = answers[number].model_copy(update={"tried": []})
    return answers


def _cached_answers(host: Host, ask: Question, configs: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """Answers with a choice are kept under all that they follow from. An engine that stopped is asked again.

    The order of a config's fields counts: engines take the first group that matches.
    """
    scripts = [(str(path.relative_to(CHILD)), file_sha256(path)) for path in sorted(CHILD.rglob("*.py"))]
    own = file_sha256(OWN_PACKAGE)
    common = [_request(ask, Path("work"), 1), ask.held.kernels, scripts, own, platform.python_version()]
    places = [host.store.entry("answers", digest([json.dumps(config), *common])) / ANSWER for config in configs]
    with host.store.locked(
        f"answers-{digest([str(place) for place in places])}", host.reporter.waiting_for("the engine's answer")
    ):
        absent = [number for number, place in enumerate(places) if not place.exists()]
        if absent:
            with host.store.folder("explain") as work:
                answers = dict(zip(absent, _run(ask, [configs[number] for number in absent], work), strict=True))
        else:
            answers = {}
        for number, place in enumerate(places):
            if number not in answers:
                note_use(place)
                answers[number] = read_answer(place.read_text(encoding="utf-8"), "this config")
            elif answers[number].stopped is None:
                host.store.write_text(place, answers[number].model_dump_json(by_alias=True))
        return [answers[number] for number in range(len(configs))]


def _run(ask: Question, configs: Sequence[Mapping[str, Any]], work: Path) -> list[Answer]:
    """The child's answers. Raises UsageError when a limit ends it, Gb10Error when it ends without an answer."""
    for number, config in enumerate(configs):
        write_model(config, work / str(number))
    if ask.held.kernels:
        write_own_package(ask.held.kernels, work / OWN_FOLDER)
    shutil.copytree(CHILD, work / SCRIPTS / PLACE, ignore=shutil.ignore_patterns("__pycache__"))
    request = work / "request.json"
    request.write_text(json.dumps(_request(ask, work, len(configs))), encoding="utf-8")
    argv = (sys.executable, "-I", "-S", str(CHILD / "choose.py"), str(request))
    env = {"HOME": str(work), "PATH": os.defpath, "TMPDIR": str(work), "LANG": "C.UTF-8"}
    try:
        return read_answers(capture_while_active(argv, patience=SECONDS, env=env, cwd=work), "this config")
    except CommandFailedError as error:
        raise _without_answer(error) from error


def _without_answer(error: CommandFailedError) -> Gb10Error:
    """A child that a limit ended is about the config's size; one that ended by itself is a fault of explain."""
    where = error.tail[-2000:]
    if error.returncode == SILENT or -error.returncode in LIMIT_SIGNALS or "MemoryError" in where:
        why = (
            f"it ran for more than {SECONDS} s" if error.returncode == SILENT else "it needs more than explain gives it"
        )
        return UsageError(
            f"the engine's selection code ended without an answer: {why}",
            where=where,
            hint="it has 300 s of CPU time and 32 GiB: the config asks for more, or memory was short here",
        )
    return Gb10Error(f"explain's process ended without an answer (exit {error.returncode})", where=where, hint=REPORT)


def write_model(config: Mapping[str, Any], work: Path) -> None:
    """The model's files as the engine finds them in its folder.

    ModelOpt's file may be under its name; and a quantization of its form without a method is that file's: engines read
    it there.
    """
    work.mkdir(exist_ok=True)
    given = dict(config)
    own, quantized = given.pop(QUANTIZED, None), given.get(QUANTIZATION)
    if isinstance(quantized, dict) and "quantization" in quantized and "quant_method" not in quantized:
        own = given.pop(QUANTIZATION)
    if own is not None:
        (work / QUANTIZED).write_text(json.dumps(own), encoding="utf-8")
    (work / CONFIG).write_text(json.dumps(given), encoding="utf-8")


def write_own_package(arch: str, folder: Path) -> None:
    """gb10-kernels without its compiled modules: the package's own code says which devices it is for."""
    package, about = folder / "gb10_kernels", folder / "gb10_kernels-0.dist-info"
    package.mkdir(parents=True)
    about.mkdir()
    (package / "__init__.py").write_bytes(OWN_PACKAGE.read_bytes())
    (package / "manifest.json").write_text(json.dumps({"arch": arch}), encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: gb10-kernels\nVersion: 0\n", encoding="utf-8")


def refuse(answer: Answer, engine: str) -> None:
    """Raise for an engine that stopped: VerifyError when it refused every kernel of a layer.

    Gb10Error when explain lacks what the image has. Else UsageError: what the release does not know, what it or a
    reader of the config refuses, or that nobody knows whose the error is.
    """
    if answer.stopped is None:
        return
    said = answer.stopped.strip()[:2000]
    if answer.tried:
        raise VerifyError(
            f"{engine} has no backend for this model on capability 12.1",
            where="\n".join([said.splitlines()[0][:LINE], *(f"{name}: {reason}" for name, reason in answer.tried)]),
            hint="another format of the model may have one; options change what is asked (docs/explain.md)",
        )
    raise _without_choice(answer, engine, said)


def _without_choice(answer: Answer, engine: str, said: str) -> Gb10Error:
    """The error for an engine that stopped before it had a kernel to refuse."""
    if answer.missing:
        return Gb10Error(
            f"explain has no module {answer.missing}, so what {engine} would take is unknown: not the config's fault",
            where=said,
            hint=REPORT,
        )
    if answer.lacks:
        return UsageError(
            f"{engine} does not know this model: its registry has no {', '.join(answer.lacks)}",
            where=said.splitlines()[0][:LINE],
            hint="another release, or the other engine (--engine), may know it",
        )
    if answer.own_code:
        return UsageError(
            f"the config is read by code of the model itself, which explain never runs: what {engine} takes is unknown",
            where=said.splitlines()[0][:LINE],
            hint="the engine serves it with --trust-remote-code alone",
        )
    if answer.whose == "explain":
        return Gb10Error(
            f"explain has nothing in place of what {engine} asks for here: not the config's fault",
            where=said,
            hint=REPORT,
        )
    return UsageError(
        f"{engine} stopped before it had chosen, so which kernels it would take is unknown: {WHOSE[answer.whose]}",
        where=said,
        hint=HINTS[answer.whose],
    )


def _request(ask: Question, work: Path, models: int) -> dict[str, Any]:
    facts, files, held = ask.facts, ask.files, ask.held
    originals = files / ORIGINALS
    own = [str(work / OWN_FOLDER)] if held.kernels else []
    return {
        "script": facts.script,
        "models": [str(work / str(number)) for number in range(models)],
        "options": options_by_engine(facts, ask.options),
        "flags": facts.flags,
        "limits": LIMITS,
        "cuda": facts.cuda,
        "capability": facts.capability,
        "stand_ins": {**dict.fromkeys(facts.stand_ins, "9999"), **facts.versions},
        "late": facts.late,
        "without_code": facts.without_code,
        "originals": str(originals) if (held.stock or held.beside) and originals.is_dir() else "",
        "upstream": held.stock,
        "own": own,
        "compiled": facts.compiled,
        "operators": facts.registered,
        "schemas": json.loads((files / OPERATORS).read_text(encoding="utf-8")),
        "answers": facts.answers,
        "present": facts.present,
        "environment": {**OFFLINE, **facts.environment, "XDG_CACHE_HOME": str(work), "HF_HOME": str(work)},
        "path": [str(work / SCRIPTS), *own, str(files / SITE), *(str(files / SITE / path) for path in facts.paths)],
    }


def options_by_engine(facts: EngineFacts, options: Mapping[str, str]) -> dict[str, str]:
    """The options by the engine's own names; raises UsageError for one that this engine has not."""
    absent = [name for name in options if name not in facts.options]
    if absent:
        known = ", ".join(f"--{name.replace('_', '-')}" for name in facts.options)
        raise UsageError(f"this engine has no --{absent[0].replace('_', '-')}", hint=f"it has {known}")
    return {facts.options[name]: value for name, value in options.items()}


TARGET: Final = "arm64"
OWN: Final = "gb10-kernels"
"""The package of kernels of our own: a patched engine asks for it."""
ARCH: Final = "12.1f"
"""What it is compiled for where no image says it."""
TWINS: Final[Mapping[str, Architecture]] = {"x86_64": "amd64", "aarch64": "arm64"}
"""The platform of the packages of this machine, by its name in the lock of packages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedEngine:
    """An engine that can be asked: what is known of its release, and its files."""

    facts: EngineFacts
    files: Path
    held: Held

    def answer(self, ctx: Context, config: Mapping[str, Any], options: Mapping[str, str]) -> Answer:
        """The engine's choice for every layer of a config. Raises UsageError, Gb10Error when there is no answer."""
        with ctx.reporter.task(f"the engine's release {self.facts.engine} chooses"):
            return ask_engine(ctx, self.facts, self.files, config, options, held=self.held)


def ready_to_ask(ctx: Context, recipe: Recipe, lock: Lock) -> AskedEngine:
    """The engine of a recipe, its files unpacked once. Raises UsageError, LockStaleError, FetchError, PatchError."""
    facts, packages = read_facts(ctx.catalog.root, recipe.engine)
    wheels = image_wheels(recipe, lock, facts)
    twins = tuple(wheel for wheel in lock.wheels.image[TWINS[packages.machine]] if wheel.name in facts.twins)
    parts = Parts(
        whole=(*packages.wheels, *twins), image=wheels, sources=facts.sources, modules=tuple(facts.registered)
    )
    held = Held(kernels=ARCH if OWN in recipe.wheels else "")
    return AskedEngine(facts=facts, files=_files(ctx, recipe, lock, parts, packages), held=held)


def image_wheels(recipe: Recipe, lock: Lock, facts: EngineFacts) -> tuple[LockedWheel, ...]:
    """The locked wheels whose Python is run, but for those that the image leaves out.

    Raises UsageError when the lock has another release than the facts.
    """
    wheels = {wheel.name: wheel for wheel in lock.wheels.image[TARGET]}
    found = wheels[facts.from_image[0]]
    if found.version != facts.engine:
        raise UsageError(
            f"explain knows {recipe.engine} {facts.engine}, the lock has {found.version}",
            hint="recipes/explain has the facts of one release; docs/explain.md says how to renew them",
        )
    return tuple(wheels[name] for name in facts.from_image if name in wheels)


def _files(ctx: Context, recipe: Recipe, lock: Lock, parts: Parts, packages: Packages) -> Path:
    uses = [use for use in plan_patches(ctx.catalog.patches, recipe, lock, TARGET, ()) if use.installable]
    own = [use for use in uses if use.project == parts.image[0].name]
    patching = Patching(
        key=digest([use.inputs for use in own]),
        files=lambda wheel: patched_files(ctx.catalog.patches, wheel, own, ctx.reporter.detail),
    )
    return engine_files(ctx, packages, parts, patching if own else None)
