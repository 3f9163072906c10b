"""How good the answers are: by a tool that is installed (tool-eval-bench, lm-eval), else by canaries."""

import json
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, last_lines, stream
from gb10.errors import UsageError, VerifyError
from gb10.serving.guard.canary import make_canaries
from gb10.serving.load_generator.canary_batch import ask_canaries, guard_facts, guard_limits
from gb10.serving.load_generator.endpoint import KEY, Endpoint

Judge = Literal["tool-eval-bench", "lm-eval", "canaries"]
PROGRAMS: Final[Mapping[Judge, str]] = {"tool-eval-bench": "tool-eval-bench", "lm-eval": "lm_eval"}
"""What to look for, in this order."""
INSTALL: Final = {
    "tool-eval-bench": "pip install tool-eval-bench (3.0.0 is the tried one)",
    "lm-eval": "pip install 'lm-eval[api]' (0.4.13 is the tried one)",
}
LARGEST: Final = 64 << 20
TASK: Final = "gsm8k"
LIMIT: Final = 100
CATEGORY: Final = ("exact_match", "acc")
"""The beginnings of the names of lm-eval's figures that count right answers, the first one that a task has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Points of an endpoint: right answers, or parts of them."""

    judge: Judge
    what: str
    points: int
    of: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.points / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """What is asked; ``task``, ``limit`` and ``tasks`` are lm-eval's."""

    judge: Judge
    task: str = TASK
    limit: int = LIMIT
    tasks: Path | None = None
    """A folder with tasks of the user's."""


def installed(env: Mapping[str, str]) -> Judge:
    """The first judge that is installed; canaries when none is."""
    found = (judge for judge, program in PROGRAMS.items() if shutil.which(program, path=env.get("PATH")))
    return next(found, "canaries")


def examine(host: Host, endpoint: Endpoint, exam: Exam, log: Path) -> Quality:
    """Let a tool ask. Raises UsageError where it is not installed, VerifyError where it fails."""
    judge = exam.judge
    if judge == "canaries" or shutil.which(PROGRAMS[judge], path=host.env.get("PATH")) is None:
        raise UsageError(f"{judge} is not installed", hint=f"{INSTALL.get(judge)}; or leave out --with: canaries ask")
    work: Callable[[Host, Endpoint, Exam, Path, Path], Quality] = _tool_eval if judge == "tool-eval-bench" else _lm_eval
    with host.store.folder("quality") as home:
        return work(host, endpoint, exam, home, log)


def _tool_eval(host: Host, endpoint: Endpoint, exam: Exam, home: Path, log: Path) -> Quality:
    result = home / "result.json"
    argv = [PROGRAMS["tool-eval-bench"], "run", "--short", "--base-url", endpoint.url.removesuffix("/v1")]
    argv += ["--model", endpoint.model, "--json-file", str(result), "--no-live", "--no-probe-engine", "--seed", "42"]
    _run(host, argv, {"TOOL_EVAL_API_KEY": endpoint.key}, home, log)
    scores = _json(result).get("scores")
    points, of = (scores.get(name) if isinstance(scores, dict) else None for name in ("total_points", "max_points"))
    return _quality(exam, "15 scenarios", points, of)


def _lm_eval(host: Host, endpoint: Endpoint, exam: Exam, home: Path, log: Path) -> Quality:
    result = home / "out"
    if "," in endpoint.model or "," in endpoint.url:  # what follows would be an argument of its own
        raise UsageError(f"lm-eval cannot be given the model {endpoint.model[:100]!r}", hint="--with canaries asks it")
    arguments = f"model={endpoint.model},base_url={endpoint.url}/chat/completions,num_concurrent=4,max_retries=1"
    argv = [PROGRAMS["lm-eval"], "--model", "local-chat-completions", "--model_args", arguments]
    argv += ["--tasks", exam.task, "--limit", str(exam.limit), "--apply_chat_template", "--output_path", str(result)]
    argv += ["--include_path", str(exam.tasks)] if exam.tasks else []
    _run(host, argv, {KEY: endpoint.key or "EMPTY"}, home, log)
    found = next(iter(sorted(result.rglob("results*.json"))), None)
    if found is None:
        raise VerifyError("lm-eval wrote no result", hint=f"log: {log}")
    document = _json(found)
    figures = document.get("results", {}).get(exam.task)
    counts = document.get("n-samples", {}).get(exam.task)
    of = counts.get("effective") if isinstance(counts, dict) else None
    known = figures if isinstance(figures, dict) else {}
    share = next((known[name] for start in CATEGORY for name in known if name.startswith(f"{start},")), None)
    points = round(share * of) if isinstance(share, int | float) and isinstance(of, int) else None
    return _quality(exam, exam.task, points, of)


def _run(host: Host, argv: list[str], secrets: Mapping[str, str], home: Path, log: Path) -> None:
    env = {**host.env, **{name: value for name, value in secrets.items() if value}}
    try:
        stream(argv, log=log, on_line=host.reporter.detail, env=env, cwd=home)
    except CommandFailedError as error:
        where = f"{last_lines(error.tail, 6)}\nlog: {log}"
        raise VerifyError(f"{argv[0]} ended with {error.returncode}", where=where) from error


def _quality(exam: Exam, what: str, points: object, of: object) -> Quality:
    if not isinstance(points, int) or not isinstance(of, int) or not 0 <= points <= of or not of:
        raise VerifyError(f"{exam.judge} reported no score", where=f"points {points}, of {of}")
    return Quality(judge=exam.judge, what=what, points=points, of=of)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_plain_file(path, LARGEST))
    except (ValueError, RecursionError, UsageError) as error:
        raise VerifyError("the judge wrote no result that can be read", where=str(error)) from error
    if not isinstance(found, dict):
        raise VerifyError("the judge wrote no result that can be read", where=str(path))
    return found


BATCHES: Final = 8
AT_ONCE: Final = 8
TOKENS: Final = 512


def by_canaries(endpoint: Endpoint, env: Mapping[str, str]) -> Quality:
    """How many of 64 canaries are answered right."""
    run, limits = uuid.uuid4().hex, guard_limits()
    right = 0
    for number in range(BATCHES):
        canaries = make_canaries(AT_ONCE, guard_facts(), f"{run} {number}")
        batch = ask_canaries(endpoint, canaries, env, limits, max_tokens=TOKENS, extra={}, when="quality")
        right += batch.right
    return Quality(judge="canaries", what="code and fact", points=right, of=BATCHES * AT_ONCE)
