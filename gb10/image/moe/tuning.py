"""``moe tune``: batch sizes shared between GPUs, every finding kept at once, and an interrupted run continued."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from threading import Lock
from typing import Any, Final

from gb10.containers.image_programs import run_worker
from gb10.containers.images import find_image
from gb10.containers.node import reached
from gb10.core.files import digest
from gb10.core.host import Host
from gb10.core.installation import PACKAGE
from gb10.core.journal import Journal
from gb10.core.log_words import first_error
from gb10.core.proc import CommandFailedError, stream
from gb10.core.reporter import Reporter
from gb10.errors import EngineError, UsageError, VerifyError
from gb10.image.moe.release_lookups import SITE, Judge
from gb10.image.moe.row_rules import candidates, kernel_count, upstream_space
from gb10.image.moe.seeding import ABOUT, Model, Seed, make_seed
from gb10.image.moe.tile_findings import (
    LEAST_WIN,
    Choice,
    Done,
    Finding,
    Machine,
    Refused,
    Screened,
    finished,
    read_line,
)
from gb10.image.moe.tuned_name import DEVICE

HEAD: Final = "job"
GROUPS: Final = 2
"""Rows of each batch size that a worker tries again with groups of tiles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is tuned: a shape of one engine's release, its batch sizes and default rows; ``memory`` in bytes."""

    engine: str
    version: str
    shape: Mapping[str, Any]
    hidden: int
    topk: int
    defaults: Mapping[int, Mapping[str, int]]
    rows: tuple[Mapping[str, int], ...]
    memory: int
    source: str
    seed: int = 7

    @property
    def identity(self) -> str:
        """What must be equal for findings to go on: not where it runs, nor how much memory it may take."""
        return digest(
            [
                self.engine,
                self.version,
                dict(self.shape),
                self.hidden,
                self.topk,
                self.seed,
                [dict(r) for r in self.rows],
            ]
        )

    def request(self, sizes: Sequence[int], known: Iterable[Finding], source: str) -> dict[str, Any]:
        """What one worker gets."""
        screened = [one for one in known if isinstance(one, Screened) and one.size in sizes]
        return {
            "engine": self.engine,
            "shape": dict(self.shape),
            "hidden": self.hidden,
            "topk": self.topk,
            "sizes": list(sizes),
            "defaults": {str(size): dict(self.defaults[size]) for size in sizes},
            "rows": [dict(row) for row in self.rows],
            "memory": self.memory,
            "source": source,
            "seed": self.seed,
            "known": [{"size": one.size, "row": one.row, "us": one.us} for one in screened],
        }


def kernel_counts(job: Job) -> tuple[int, int]:
    """Kernels that this run compiles at most, and that upstream's tuner compiles, for the whole ladder."""
    own = kernel_count([*job.rows, *job.defaults.values()]) + 2 * GROUPS * len(job.defaults)
    return own, kernel_count(upstream_space())


def rows_for(engine: str, shape: Mapping[str, Any]) -> tuple[Mapping[str, int], ...]:
    """The rows to screen; raises UsageError for a type that cannot be tuned here."""
    if shape["dtype"] not in (None, "fp8_w8a8", "int8_w8a8"):
        raise UsageError(
            f"moe tune does not know inputs of {shape['dtype']}", hint="it tunes bf16, fp8_w8a8 and int8_w8a8"
        )
    return tuple(candidates(engine, shape))


def make_job(judge: Judge, later: Judge, model: Model, sizes: Iterable[int], memory: int) -> tuple[Seed, Job]:
    """The seed of a shape, and the job that starts from its rows; ``memory`` in bytes. Raises UsageError."""
    shape = model.meant.shape
    rows = rows_for(judge.engine, shape)
    with judge.host.store.folder("moe") as work:
        seed = make_seed(judge, later, model, work)
    job = Job(
        engine=judge.engine,
        version=judge.version,
        shape=shape,
        hidden=model.hidden,
        topk=model.topk,
        defaults={at: next(s.row for s in seed.spans if s.first <= at <= s.last) for at in sorted(set(sizes))},
        rows=rows,
        memory=memory,
        source=str(judge.files / SITE / (judge.kernel("moe") or "")),
    )
    return seed, job


Lane = Callable[[dict[str, Any], Callable[[str], None]], None]
"""Runs one worker with a request; its second argument gets each line that the worker prints."""


class TuningJournal:
    """The findings, one line each, in a file that is appended to and never rewritten."""

    def __init__(self, path: Path, job: Job) -> None:
        """Continue the record of this job, or begin it. Raises UsageError for a record of another."""
        head = {"kind": HEAD, "identity": job.identity, "engine": job.engine}
        self.lock, self.journal = Lock(), Journal(path, head)
        self.findings: list[Finding] = [found for line in self.journal.lines if (found := read_line(line))]

    def take(self, line: str, host: str) -> Finding | None:
        """Keep a worker's line; None for one that is no finding."""
        found = read_line(line)
        if found is None:
            return None
        found = found.model_copy(update={"host": host})
        with self.lock:
            self.findings.append(found)
            self.journal.append(found.model_dump_json())
        return found


def run(job: Job, lanes: Mapping[str, Lane], record: TuningJournal, reporter: Reporter) -> None:
    """Tune what is not finished yet, on all lanes at once. Raises VerifyError when a lane refuses or ends early."""
    left = sorted(set(job.defaults) - finished(record.findings), reverse=True)
    shares = {name: tuple(left[number :: len(lanes)]) for number, name in enumerate(lanes)}
    reporter.say(f"{len(job.defaults) - len(left)} of {len(job.defaults)} batch sizes are finished")

    def run_lane(name: str) -> list[str]:
        """Run a worker to its end; returns the lines that were no findings."""
        other: list[str] = []

        def on_line(line: str) -> None:
            found = record.take(line, name)
            if found is None:
                other.append(line)
            elif isinstance(found, Machine):
                reporter.say(f"{name}: {found.gpu}, Triton {found.triton}, PyTorch {found.torch}")
            elif isinstance(found, Done):
                done = f"{name}: batch size {found.size} in {found.seconds:.0f} s"
                reporter.say(f"{done}, {found.compiled} kernels compiled so far")

        lanes[name](job.request(shares[name], list(record.findings), job.source), on_line)
        return other

    with ThreadPoolExecutor(len(lanes)) as pool:
        working = {name: pool.submit(run_lane, name) for name, sizes in shares.items() if sizes}
        for name, one in working.items():
            _judge(name, shares[name], record, one.result())


def _judge(name: str, sizes: Sequence[int], record: TuningJournal, other: Sequence[str]) -> None:
    absent = sorted(set(sizes) - finished(record.findings))
    if not absent:
        return
    own = [one for one in record.findings if one.host == name]
    refused = next((one for one in own if isinstance(one, Refused)), None)
    if refused:
        raise VerifyError(
            f"{name}: this shape needs {refused.need >> 20:,} MiB, the limit is {refused.memory >> 20:,} MiB",
            hint="raise --memory, or tune a smaller shape of the same width",
        )
    last = "\n".join(other[-10:])
    if not any(isinstance(one, Machine) for one in own):
        raise VerifyError(
            f"{name} cannot tune",
            where=first_error("\n".join(other).splitlines()) or last or None,
            hint="it needs an NVIDIA GPU, and a Python that has PyTorch and Triton for it",
        )
    raise VerifyError(
        f"{name} ended before batch sizes {', '.join(map(str, absent))}",
        where=last,
        hint="run the command again: it continues where this one ended",
    )


START: Final = "import sys; sys.path.insert(0, {root!r}); from gb10.image.moe.child.tune_worker import main; main()"
WORK: Final = "/tmp/gb10-tune"  # noqa: S108 - in a container of its own
CODE: Final = ("__init__.py", "image/__init__.py", "image/moe/__init__.py", "image/moe/child")


def local_lane(host: Host, python: str, work: Path) -> Lane:
    """A worker by a Python of this machine; its kernels stay in the store's cache between runs."""
    cache = host.store.root / "triton-cache"

    def lane(request: dict[str, Any], on_line: Callable[[str], None]) -> None:
        path = work / "request.json"
        path.write_text(json.dumps(request), encoding="utf-8")
        argv = (python, "-c", START.format(root=str(PACKAGE.parent)), str(path))
        try:
            stream(argv, log=work / "worker.log", on_line=on_line, env={**host.env, "TRITON_CACHE_DIR": str(cache)})
        except CommandFailedError as error:
            on_line(error.tail)

    return lane


@contextmanager
def container_lane(host: str, image: str) -> Iterator[Lane]:
    """A worker in a container of an image on a node, without a network, with its GPU. Raises EngineError."""
    with reached(host) as engine:
        found = find_image(engine, image)
        if found is None:
            raise EngineError(f"{host} has no image {image}", hint=f"./build.py pull {image} --host {host}")

        def lane(request: dict[str, Any], on_line: Callable[[str], None]) -> None:
            source = Path(request["source"])
            files = {**worker_files(), "kernel.py": source.read_bytes()}
            asked = {**request, "source": f"{WORK}/kernel.py"}
            files["request.json"] = json.dumps(asked).encode()
            command = ["python3", "-c", START.format(root=WORK), f"{WORK}/request.json"]
            code_of_end = run_worker(engine, found, command, on_line, folder=WORK, files=files)
            if code_of_end:
                on_line(f"the worker's exit code is {code_of_end}")

        yield lane


def worker_files() -> Mapping[str, bytes]:
    """The files of the worker, by their path below the folder that it imports from."""
    found = {}
    for name in CODE:
        place = PACKAGE / name
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            found[f"{PACKAGE.name}/{path.relative_to(PACKAGE).as_posix()}"] = path.read_bytes()
    return found


WIDTH: Final = 760
HEIGHT: Final = 300
LEFT: Final = 48
BOTTOM: Final = 250
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:currentColor}line{stroke:currentColor;stroke-opacity:.4}"
    ".win{fill:#2a8a4a}.kept{fill:#888}svg{color:#222;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#161616}}"
)


def plot(title: str, choices: Sequence[Choice]) -> str:
    """An SVG: a bar for each batch size, grey where the default stays; the dashed line is the least win that counts."""
    top = max([*(choice.win for choice in choices), 2 * LEAST_WIN])
    step = (WIDTH - LEFT - 12) / max(len(choices), 1)
    scale = (BOTTOM - 40) / top
    bars = "".join(_bar(choice, LEFT + number * step, step, scale) for number, choice in enumerate(choices))
    line = BOTTOM - LEAST_WIN * scale
    marks = "".join(
        f'<text x="4" y="{BOTTOM - share * scale + 4:.1f}">{share:.0%}</text>' for share in (0.0, LEAST_WIN, top)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><style>{STYLE}</style>'
        f'<text x="{LEFT}" y="20">{escape(title)}</text>{marks}{bars}'
        f'<line x1="{LEFT}" y1="{BOTTOM}" x2="{WIDTH - 8}" y2="{BOTTOM}"/>'
        f'<line x1="{LEFT}" y1="{line:.1f}" x2="{WIDTH - 8}" y2="{line:.1f}" stroke-dasharray="4"/>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}">batch size; bars: time saved against the engine\'s default</text></svg>\n'
    )


def _bar(choice: Choice, left: float, step: float, scale: float) -> str:
    high = max(choice.win * scale, 1.0)
    kind = "kept" if choice.is_default else "win"
    tooltip = f"batch {choice.size}: {choice.win:.1%}, spread {choice.spread:.1%}"
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{BOTTOM - high:.1f}" width="{step * 0.7:.1f}" height="{high:.1f}">'
        f"<title>{tooltip}</title></rect>"
        f'<text x="{left:.1f}" y="{BOTTOM + 16}">{choice.size}</text>'
    )


def write_tuned(
    judge: Judge, seed: Seed, choices: Sequence[Choice], findings: Iterable[Finding], out: Path
) -> list[str]:
    """Write the picture, and the file when a row won. Sizes that were not tuned keep the engine's own rows."""
    picture = out / f"{seed.name.removesuffix('.json')}.svg"
    picture.write_text(plot(f"{seed.name}, {judge.engine} {judge.version}", choices), encoding="utf-8")
    if all(choice.is_default for choice in choices):
        return [str(picture)]
    rows = {**seed.rows, **{choice.size: choice.row for choice in choices}}
    folder = out / "configs" / f"triton_{judge.triton.replace('.', '_')}" if judge.engine == "sglang" else out
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({str(size): dict(rows[size]) for size in sorted(rows)}, indent=1) + "\n"
    (folder / seed.name).write_text(text, encoding="ascii")
    (folder / f"{seed.name}{ABOUT}").write_text(tuned_on(judge, seed, choices, findings), encoding="utf-8")
    return [str(folder / seed.name), str(picture)]


def tuned_on(judge: Judge, seed: Seed, choices: Sequence[Choice], findings: Iterable[Finding]) -> str:
    """The text beside the file: engine, GPU, driver, Triton, PyTorch, clock, and what each winner won."""
    machines = {one.host: one for one in findings if isinstance(one, Machine)}
    lines = [f"file: {seed.name}", f"made by: moe tune, for {judge.engine} {judge.version}"]
    for host, one in machines.items():
        clock = "a clock not known" if one.clock_mhz is None else f"{one.clock_mhz} MHz"
        lines += [
            f"tuned on {host}: {one.gpu}, {one.units} units, {clock} at the start",
            f"  {one.driver}",
            f"  Triton {one.triton}, PyTorch {one.torch}",
        ]
        if one.gpu != DEVICE:
            lines.append(f"  this is no {DEVICE}: its timings say nothing of one")
    won = [choice for choice in choices if not choice.is_default]
    lines += [f"batch {choice.size}: {choice.win:.1%} faster, spread {choice.spread:.1%}" for choice in won]
    return "\n".join([*lines, f"the default stays for {len(choices) - len(won)} of {len(choices)} batch sizes"]) + "\n"
