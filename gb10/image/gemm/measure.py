"""Run a benchmark program where this machine can, and judge its output."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, stream
from gb10.errors import BuildError, VerifyError
from gb10.image.gemm.program_build import BuiltProgram, Line, read_lines
from gb10.image.plan.values import Plan

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


def run(host: Host, program: BuiltProgram) -> tuple[Line, ...]:
    """The output lines of a complete run. Raises BuildError when the program fails."""
    log = host.store.root / "logs" / f"bench-{program.name}-{program.key[:12]}.log"
    found: list[Line] = []
    with host.reporter.task(f"run {program.name}") as task:

        def take(line: str) -> None:
            found.extend(read_lines(line))
            host.reporter.detail(line)
            host.reporter.advance(task, 0, str(found[-1].get("kernel", "")) if found else "")

        try:
            stream([str(program.path)], log=log, on_line=take, env=host.env)
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
