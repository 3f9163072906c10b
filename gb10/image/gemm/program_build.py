"""Benchmark programs: compiled in a BuildKit stage, proven, and kept in the store under their keys."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gb10.containers.connection import Engine
from gb10.core.store import is_sealed, seal
from gb10.image.build.compiling import compile_step, compilers
from gb10.image.build.exported import check_exported
from gb10.image.build.outlook import with_forecast
from gb10.image.context import Context
from gb10.image.plan.inputs import program_inputs
from gb10.image.plan.programs import SCRIPTS
from gb10.image.plan.render import program_dockerfile
from gb10.image.plan.values import Plan, Program, Step
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import prove
from gb10.image.proof.reading import scan_path
from gb10.image.proof.wheel_manifest import Manifest
from gb10.image.recipe.arch import parse_arch

Line = Mapping[str, Any]
"""One JSON object that a program printed."""
CHECKS = "checks.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltProgram:
    """A program in the store, with the checks of its compile stage."""

    name: str
    key: str
    path: Path
    checks: tuple[Line, ...]
    hit: bool


def build_program(ctx: Context, engine: Callable[[], Engine], plan: Plan, program: Program) -> BuiltProgram:
    """The program of a plan, from the store or compiled now. Raises BuildError, VerifyError."""
    step = plan.step(program.name)
    final = ctx.store.entry("programs", step.key)
    with ctx.store.locked(f"program-{step.key}", ctx.reporter.waiting_for(step.name)):
        hit = is_sealed(final / program.name)
        if hit:
            ctx.reporter.hit(step.name)
        else:
            if final.exists():
                ctx.reporter.say(f"{step.name} is damaged in the store: compiling it again")
            ctx.store.replace(final, lambda work: _compile(ctx, engine(), plan, program, work))
        checks = read_lines((final / CHECKS).read_text(encoding="utf-8"))
    return BuiltProgram(name=step.name, key=step.key, path=final / program.name, checks=checks, hit=hit)


def read_lines(text: str) -> tuple[Line, ...]:
    """The JSON objects among the lines of a text."""
    return tuple(json.loads(line) for line in text.splitlines() if line.startswith("{"))


def _compile(ctx: Context, engine: Engine, plan: Plan, program: Program, work: Path) -> None:
    step = plan.step(program.name)
    there = {one.name: one is not step for one in plan.steps}
    ctx = with_forecast(ctx, plan, there, engine)
    compile_step(
        ctx,
        engine,
        plan,
        step,
        work,
        target="program",
        inputs=program_inputs(plan, program),
        files=_files(ctx, plan, program, step),
        build_args={},
    )
    _prove(work, plan, step)


def _files(ctx: Context, plan: Plan, program: Program, step: Step) -> dict[str, bytes]:
    own, how = ctx.catalog.contents, compilers(ctx, plan, step, program_inputs(plan, program))
    text = program_dockerfile(plan, program, step, ctx.catalog.templates, **how)
    wanted = ctx.catalog.toolkit.of(program.units, *program.include, *SCRIPTS)
    return {"Dockerfile": text.encode(), **{name: own[name] for name in wanted}}


def _prove(work: Path, plan: Plan, step: Step) -> None:
    """Seal the program. Raises VerifyError unless it holds GPU code of exactly this arch."""
    check_exported(work, step.name, CHECKS, "measured.json")
    compiled = parse_arch(plan.options.arch.kernels)
    declared = Manifest(file=step.name, arch=compiled.sm, modules={step.name: [compiled.sm]})
    prove(Subject(scan=scan_path(work / step.name), manifests=[declared]))
    seal(work / step.name)
