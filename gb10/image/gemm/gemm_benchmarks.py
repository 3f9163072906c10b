"""Our benchmark programs for GEMMs: compiled and proven, run where this machine can, beside published figures."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from gb10.containers.connection import Engine
from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.core.host import Host
from gb10.core.installation import ROOT
from gb10.core.proc import CommandFailedError, stream
from gb10.core.reporter import Task
from gb10.core.store import is_sealed, seal
from gb10.errors import BuildError, VerifyError
from gb10.image.build.compile import CompileJob, compilers
from gb10.image.build.estimate import with_forecast
from gb10.image.build.stage import check_exported
from gb10.image.context import Context
from gb10.image.plan.dag import SCRIPTS
from gb10.image.plan.render import program_dockerfile
from gb10.image.plan.values import Plan, Program, Step, program_inputs
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import prove
from gb10.image.proof.reading import scan_path
from gb10.image.proof.wheel_files import Manifest
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
    step, own, inputs = plan.step(program.name), ctx.catalog.contents, program_inputs(plan, program)
    ctx = with_forecast(ctx, plan, {one.name: one is not step for one in plan.steps}, engine)
    text = program_dockerfile(plan, program, step, ctx.catalog.templates, **compilers(ctx, plan, step, inputs))
    scripts = ctx.catalog.toolkit.digests_of(program.units, *program.include, *SCRIPTS)
    files = {"Dockerfile": text.encode(), **{name: own[name] for name in scripts}}
    CompileJob(plan=plan, step=step, target="program", inputs=inputs, files=files).run(ctx, engine, work)
    _prove(work, plan, step)


def _prove(work: Path, plan: Plan, step: Step) -> None:
    """Seal the program. Raises VerifyError unless it holds GPU code of exactly this arch."""
    check_exported(work, step.name, CHECKS, "measured.json")
    compiled = parse_arch(plan.options.arch.kernels)
    declared = Manifest(file=step.name, arch=compiled.sm, modules={step.name: [compiled.sm]})
    prove(Subject(scan=scan_path(work / step.name), manifests=[declared]))
    seal(work / step.name)


WRONG = 1
"""The exit code of a program that ran to its end with a failed check."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The output lines of a benchmark, by kind."""

    checks: tuple[Line, ...] = ()
    times: tuple[Line, ...] = ()
    gpu: Line | None = None
    why_not: str | None = None
    """Why no result was checked and nothing was timed."""

    @property
    def wrong(self) -> tuple[Line, ...]:
        """The checks that failed."""
        return tuple(line for line in self.checks if not line["ok"])


def measure(host: Host, plan: Plan, program: BuiltProgram) -> Measured:
    """Run the program if it is built for this machine; else return the compile stage's checks and the reason."""
    if plan.options.build == plan.options.target:
        built = [line for line in program.checks if line["kind"] == "instructions"]
        return sort_lines([*built, *run(host, program)])
    why = f"{program.name} is a program for {plan.options.platform}, this machine is linux/{plan.options.build}"
    return sort_lines([*program.checks, {"kind": "not-run", "why": why}])


def output_reader(host: Host, task: Task, found: list[Line]) -> Callable[[str], None]:
    """A reader of a program's output: lines go into ``found``, the kernel of the last one beside the task."""

    def take(line: str) -> None:
        found.extend(read_lines(line))
        host.reporter.detail(line)
        host.reporter.advance(task, 0, str(found[-1].get("kernel", "")) if found else "")

    return take


def run(host: Host, program: BuiltProgram) -> tuple[Line, ...]:
    """The output lines of a complete run. Raises BuildError when the program fails."""
    log = host.store.root / "logs" / f"bench-{program.name}-{program.key[:12]}.log"
    found: list[Line] = []
    with host.reporter.task(f"run {program.name}") as task:
        try:
            stream([str(program.path)], log=log, on_line=output_reader(host, task, found), env=host.env)
        except CommandFailedError as error:
            if error.returncode != WRONG or not sort_lines(found).wrong:
                raise BuildError(
                    f"{program.name} failed with exit code {error.returncode}",
                    where=f"{error.tail}\nlog: {log}",
                    hint="its output is above; it needs glibc 2.38 (Ubuntu 24.04, Debian 13) and a driver that works",
                ) from error
    return tuple(found)


def sort_lines(lines: Sequence[Line]) -> Measured:
    """The lines of a run, by kind."""
    gpu = [line for line in lines if line["kind"] == "gpu"]
    why = [str(line["why"]) for line in lines if line["kind"] == "not-run"]
    return Measured(
        checks=tuple(line for line in lines if "ok" in line),
        times=tuple(line for line in lines if line["kind"] == "time"),
        gpu=gpu[0] if gpu else None,
        why_not=why[0] if why else None,
    )


def judge(measured: Measured, program: BuiltProgram, *, require_gpu: bool) -> None:
    """Raise VerifyError when a check is wrong, or when there is no GPU and one is required."""
    if measured.wrong:
        raise VerifyError(
            f"{len(measured.wrong)} of {len(measured.checks)} checks of {program.name} are wrong",
            where="\n".join(json.dumps(line) for line in measured.wrong),
            hint="a bug of the kernel, the compiler or the driver: please report it",
        )
    if require_gpu and measured.why_not:
        raise VerifyError(
            f"{program.name} measured nothing, and --require-gpu needs measurements",
            where=measured.why_not,
            hint="run it on a machine with a GPU of the arch, or omit --require-gpu",
        )


FILE: Final = "recipes/bench/gemm.yaml"
UNNAMED: Final = "format not named"


class PublishedGemm(Model):
    """One figure; ``shape`` is a shape that we time, too."""

    model_config = ConfigDict(alias_generator=None)
    tflops: Annotated[int | float, Field(gt=0)]
    format: str | None = None
    shape: str | None = None
    what: str


class PublishedGemms(Model):
    """All figures of one source."""

    model_config = ConfigDict(alias_generator=None)
    source: str
    title: str
    figures: tuple[PublishedGemm, ...]

    def beside(self, line: Mapping[str, Any]) -> float | None:
        """The figure of the shape and the format of a time; on another GPU it would say nothing."""
        if line["of_peak"] is None:
            return None
        same = (
            one.tflops
            for one in self.figures
            if one.shape == line["shape"] and one.format is not None and line["kernel"].startswith(f"{one.format}_")
        )
        return next(same, None)


def published_gemms() -> PublishedGemms:
    """The figures of the checkout."""
    text = (ROOT / FILE).read_text(encoding="utf-8")
    return parse_document(text, PublishedGemms, where=FILE, what="list of published GEMMs")
