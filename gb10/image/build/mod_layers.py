"""Mods in a build: their contexts, the network of those that declare it, the emulation they need, their failures."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import certifi

from gb10.containers.buildx.build import Network, lent_network
from gb10.containers.buildx.progress import Event, StepStarted
from gb10.containers.connection import Engine
from gb10.containers.emulation import BINFMT, LEAST, emulated, held_version, is_new, register
from gb10.core.fetch import ca_bundle
from gb10.core.host import Host
from gb10.core.reporter import Reporter, Task
from gb10.errors import BuildError
from gb10.image.build.contexts import secret_file
from gb10.image.build.stage import note_steps
from gb10.image.plan.options import Mod
from gb10.image.plan.values import Plan
from gb10.sources.index.pip_settings import read_settings

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
NO_PROGRAM = "exec format error"
OFFLINE = (
    "it ran without a network; if that is why it failed:\nin mods/: set network: true in its mod.yaml\n"
    "from elsewhere: add --mod-network (if it has a mod.yaml, that also needs network: true)"
)
CRASH = re.compile(
    r"qemu: uncaught target signal (4|7|11)\b|run\.sh exited with (132|135|139|-4|-7|-11)$"
    r"|: line \d+: +\d+ (?:Segmentation fault|Illegal instruction|Bus error)",
    re.MULTILINE,
)
"""How qemu, our runner and bash report SIGILL, SIGBUS or SIGSEGV, by which a program ends when its emulator fails."""
ALONE = "fix the mod and run the same command again: the layers below it are cache hits"


def mod_network(plan: Plan, engine: Engine) -> Network:
    """The network for stages that declare it."""
    return lent_network(engine) if any(mod.network for mod in plan.options.mods) else "none"


@contextmanager
def mod_secrets(host: Host, plan: Plan) -> Iterator[Mapping[str, Path]]:
    """Build secrets of a mod with a network: the host's CAs, package index and proxies. No layer keeps them."""
    if not any(mod.network for mod in plan.options.mods):
        yield {}
        return
    with secret_file(host.store, json.dumps(index_variables(host.env))) as index:
        yield {"ca": ca_bundle(host.env) or Path(certifi.where()), "index": index}


def index_variables(env: Mapping[str, str]) -> dict[str, str]:
    """This host's proxies and pip's index, as variables for pip and uv; local folders are left out."""
    settings = read_settings(env)
    extra = " ".join(url for url in settings.extra_urls if not url.startswith("file:"))
    found = {
        "PIP_INDEX_URL": settings.url,
        "UV_DEFAULT_INDEX": settings.url,
        "PIP_EXTRA_INDEX_URL": extra,
        "UV_INDEX": extra,
    }
    found |= {name: value for name, value in env.items() if name.lower() in PROXIES}
    return {name: value for name, value in found.items() if value}


def ready_emulation(host: Host, engine: Engine, plan: Plan) -> None:
    """Register an emulator when a mod needs one and this machine has none. Raises EngineError."""
    if plan.options.mods:
        emulate(host, engine, plan, f"the mod {plan.options.mods[0].name}")


def emulate(host: Host, engine: Engine, plan: Plan, what: str) -> None:
    """The same for ``what``, which runs programs of the image.

    An engine with data outside this machine is remote or in a virtual machine; it needs an emulator of its own.
    """
    if is_native(plan):
        return
    host.reporter.say(f"{what}: emulated, {plan.options.platform} on {plan.options.build}; it can take minutes")
    if engine.data is None:
        return
    if not emulated(host.store, plan.options.target):
        name = register(host.store, host.env, plan.options.target, what)
        if name:
            host.reporter.say(
                f"{what}: registered {name} with the kernel (binfmt_misc) for programs of {plan.options.platform}"
            )
    host.reporter.say(_emulator(held_version(host.store, plan.options.target)))


def _emulator(version: str | None) -> str:
    """Which emulator will run, in one line. Pure."""
    if version is None:
        return "the kernel's emulator reports no version of qemu"
    old = "" if is_new(version) else f": older than {LEAST}.0, programs that import torch may crash"
    return f"the kernel's emulator is qemu {version}{old}"


@contextmanager
def naming_mods(plan: Plan) -> Iterator[None]:
    """Name the mod, and add a hint, when a build fails in a mod's stage."""
    try:
        yield
    except BuildError as error:
        mod = _failed(plan, error)
        if mod is None:
            raise
        lines = [line for line in (error.where or "").splitlines() if not line.startswith("process ")]
        hint = ALONE if mod.network else f"{ALONE}\n{OFFLINE}"
        if NO_PROGRAM in str(error):
            hint = f"the engine's machine cannot run {plan.options.platform}: install qemu-user-static there"
        message = f"the mod {mod.name} failed"
        if not is_native(plan) and CRASH.search("\n".join(lines)):
            message = f"the emulator crashed while it ran the mod {mod.name}"
            hint = (
                f"qemu failed, not necessarily the mod: build it on a machine of {plan.options.platform};\n"
                f"or see in {BINFMT} which qemu is registered: gb10 registers {LEAST}.0 when it runs as root"
            )
        raise BuildError(message, where="\n".join(lines), hint=hint) from error


def note_build(reporter: Reporter, plan: Plan, task: Task, event: Event) -> None:
    """Count finished steps and name the one that started last; a mod by its name and place."""
    if isinstance(event, StepStarted):
        event = StepStarted(mod_note(plan, event.step) or event.step)
    note_steps(reporter, task, event)


def mod_note(plan: Plan, step: str) -> str | None:
    """``mod NAME 1/2 (emulated)`` for the step that runs a mod. Pure."""
    mod = _mod_of(plan, step)
    if mod is None:
        return None
    mods = plan.options.mods
    how = "" if is_native(plan) else " (emulated)"
    return f"mod {mod.name} {mods.index(mod) + 1}/{len(mods)}{how}"


def is_native(plan: Plan) -> bool:
    """Whether this machine runs the image's programs itself."""
    return plan.options.build == plan.options.target


def _failed(plan: Plan, error: BuildError) -> Mod | None:
    """The mod that a message names."""
    _, prefix, step = error.message.partition("build step failed: ")
    return _mod_of(plan, step) if prefix else None


def _mod_of(plan: Plan, step: str) -> Mod | None:
    """The mod of BuildKit's step ``[mod-1 1/1] RUN …``; the platform may stand before its name."""
    if not step.startswith("["):
        return None
    stage = step[1:].partition("]")[0].split()
    names = [made.name for made in plan.of_kind("mod")]
    return next((mod for name, mod in zip(names, plan.options.mods, strict=True) if name in stage), None)
