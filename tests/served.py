"""Made-up results of ``bench serve``: documents that follow its schema, with the figures that a test wants."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gb10.serving.benchmark.launch_line import LaunchLine, Result, result_of
from gb10.serving.benchmark.saved_serve import read_serve

BOOK = {"name": "a book", "sha256": "0" * 64}
SETTINGS: Mapping[str, Any] = {
    "prompt": 100,
    "answer": 50,
    "depth": 0,
    "concurrency": [2],
    "runs": 2,
    "warm_up": 1,
    "exact": False,
    "canary_tokens": 64,
    "extra": {},
    "tool": "llama-benchy",
    "tool_version": "0.4.0",
    "tokenizer": "1" * 64,
    "book": BOOK,
}
MACHINE: Mapping[str, Any] = {
    "gb10": "0",
    "python": "3.11",
    "kernel": "6.1",
    "machine": "aarch64",
    "boot_id": "b",
    "cores": 20,
    "governor": "performance",
    "load_1min": 0.1,
    "celsius": 50.0,
    "memory_free_mib": 90000,
    "gpu": "no nvidia-smi on this machine",
}


def run(*, warm_up: bool, steps: float, tokens: float) -> dict[str, Any]:
    """One run: steps a second, and tokens a step."""
    figures = {"tok_s": 2 * steps * tokens, "steps_s": steps, "tokens_per_step": tokens, "first_token_s": 0.25}
    return {"index": 0, "warm_up": warm_up, "decode_s": 1.0, "hint": "", **figures, "streams": []}


def canaries(when: str, right: int = 2, count: int = 2) -> dict[str, Any]:
    """A batch of canaries."""
    answers = {name: number for name, number in (("right", right), ("wrong", count - right)) if number}
    verdicts = ["OK"] * count
    return {"when": when, "count": count, "right": right, "answers": answers, "verdicts": verdicts, "flaws": []}


def document(
    steps: float, tokens: float = 1.0, *, verdict: str = "OK", right: int = 2, boot: str = "b"
) -> dict[str, Any]:
    """A benchmark of one level with two runs that count, which are 1 % apart."""
    runs = [run(warm_up=True, steps=steps / 2, tokens=tokens)]
    runs += [run(warm_up=False, steps=steps * factor, tokens=tokens) for factor in (0.995, 1.005)]
    why = "" if verdict == "OK" else "the last 256 characters are '!'"
    level = {
        "concurrency": 2,
        "verdict": verdict,
        "why": why,
        "canaries": [canaries("before", right), canaries("after", right)],
        "runs": runs,
        "looks": [],
        "counted": {"tokens_per_draft": None, "accepted": [], "preempted": None},
        "generator": {},
    }
    return {
        "schema": "gb10/serve/v1",
        "run_id": "a" * 32,
        "started": "2026-01-02T03:04:05Z",
        "endpoint": "http://a/v1",
        "model": "org/model",
        "boot": boot,
        "settings": dict(SETTINGS),
        "machine": dict(MACHINE),
        "doubts": [],
        "unknown": ["heat: no thermal zone below /sys can be read"],
        "server": {"vLLM": {"version": "0.33.0"}},
        "canaries_alone": canaries("alone", 8, 8),
        "levels": [level],
        "verdict": verdict,
        "why": why,
    }


def line(name: str, number: int, made: Mapping[str, Any], block: int = 0) -> LaunchLine:
    """A launch with this benchmark."""
    served = read_serve(json.dumps(made), "made up")
    result = result_of(served.verdict, "")
    return LaunchLine(
        kind="launch",
        name=name,
        block=block,
        number=number,
        result=result,
        why="" if result is Result.STABLE else served.why,
        cause="",
        seconds=9.0,
        facts={"command": "serve"},
        serve=served,
    )


def lines(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> list[LaunchLine]:
    """Launches of both sides in turn: A B B A, as one block."""
    rest = {"A": list(a), "B": list(b)}
    found: list[LaunchLine] = []
    while rest["A"] or rest["B"]:
        side = "ABBA"[len(found) % 4]
        side = side if rest[side] else "AB"[side == "A"]
        found.append(line(side, len(found), rest[side].pop(0)))
    return found
