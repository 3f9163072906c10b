"""Programs of ours: each compiled in a BuildKit stage without network, proven, kept in the store under its key."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gb10.arch import parse_arch
from gb10.engine.buildx import BuildRequest
from gb10.engine.connection import Engine
from gb10.model import Plan, Program, Step
from gb10.pipeline.builder import run_build
from gb10.pipeline.context import build_context, wheels
from gb10.pipeline.estimate import jobs, kernel_cost, step_seconds
from gb10.pipeline.prepare import fetch_files, make_rootfs, store_paths
from gb10.pipeline.wheels import READERS, count_units, patched_source
from gb10.pipeline.workshop import Workshop
from gb10.programs import SCRIPTS
from gb10.render import program_dockerfile
from gb10.steps import INSTALLER
from gb10.store import is_sealed, seal
from gb10.verify.declared import check_declared, refuse
from gb10.verify.read import scan_path

Line = Mapping[str, Any]
"""One JSON object that a program printed."""
CHECKS = "checks.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltProgram:
    """A program in the store, and what the compile stage checked of it."""

    name: str
    key: str
    path: Path
    checks: tuple[Line, ...]
    hit: bool


def build_program(shop: Workshop, engine: Callable[[], Engine], plan: Plan, program: Program) -> BuiltProgram:
    """The program of a plan: from the store, or compiled now. Raises BuildError, VerifyError."""
    step = plan.step(program.name)
    final = shop.store.entry("programs", step.key)
    with shop.store.locked(f"program-{step.key}", lambda: shop.talk.say(f"another run makes {step.name}: waiting")):
        hit = is_sealed(final / program.name)
        if hit:
            shop.talk.hit(step.name)
        else:
            if final.exists():
                shop.talk.say(f"{step.name} is damaged in the store: compiling it again")
            shop.store.replace(final, lambda work: _compile(shop, engine(), plan, program, work))
        checks = read_lines((final / CHECKS).read_text(encoding="utf-8"))
    return BuiltProgram(name=step.name, key=step.key, path=final / program.name, checks=checks, hit=hit)


def read_lines(text: str) -> tuple[Line, ...]:
    """The JSON objects among the lines of a text."""
    return tuple(json.loads(line) for line in text.splitlines() if line.startswith("{"))


def _compile(shop: Workshop, engine: Engine, plan: Plan, program: Program, work: Path) -> None:
    tools, step = plan.step("tools"), plan.step(program.name)
    base = make_rootfs(shop, plan, plan.step("base-build"))
    fetch_files(shop, (tools, step))
    sdist, *headers = store_paths(shop, step.files)
    folders = {"tools-wheels": wheels(store_paths(shop, tools.files)), "target-wheels": wheels(headers),
               "source": wheels([sdist]), **patched_source(shop, plan.options.patches, sdist)}  # fmt: skip
    with (
        build_context(shop, _files(shop, plan, program, base), folders) as context,
        shop.talk.task(step.name, unit="files", expected=step_seconds(shop, plan, step)) as task,
    ):
        request = BuildRequest(
            dockerfile=context.folder / "Dockerfile",
            target="program",
            platform=f"linux/{plan.options.build}",
            context=context.folder,
            contexts=context.contexts,
            out=work,
        )
        run_build(shop, engine, request, step, lambda event: count_units(shop, task, event))
    _prove(work, plan, step)


def _files(shop: Workshop, plan: Plan, program: Program, base: Path) -> dict[str, Path | bytes]:
    own, step = shop.catalog.contents, plan.step(program.name)
    wanted = shop.catalog.toolkit.of(program.units, *program.include, *SCRIPTS)
    text = program_dockerfile(
        plan, program, step, shop.catalog.templates, jobs=jobs(shop, kernel_cost(shop, plan, step))
    )
    return {"Dockerfile": text.encode(), "base-build.tar": base, "install.py": own[INSTALLER],
            **{name: own[name] for name in (*READERS, *wanted)}}  # fmt: skip


def _prove(work: Path, plan: Plan, step: Step) -> None:
    """Raise VerifyError unless the program holds GPU code of the arch, and of no other; then seal it."""
    compiled = parse_arch(plan.options.arch.kernels)
    refuse(check_declared({step.name: [compiled.sm]}, [scan_path(work / step.name)]))
    seal(work / step.name)
