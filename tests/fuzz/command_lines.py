"""Command lines as inputs: verbs and options of the tool itself with odd values, in a home of their own."""

import contextlib
import io
import os
import random
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import typer

import gb10.cli
from gb10.cli.app import VERBS, app
from gb10.errors import CLOSED_PIPE, INTERRUPTED, exit_codes

ALLOWED: Final = frozenset(exit_codes()) - {1, INTERRUPTED, CLOSED_PIPE}
ACTS: Final = frozenset({("patches", "new"), ("patches", "refresh"), ("engine", "up"), ("engine", "down")})
"""Verbs whose purpose is to write into the checkout, or to start and end processes."""
VALUES: Final = (
    "",
    "-",
    "--",
    "x",
    "vllm",
    "sglang",
    "12.1f",
    "13.0",
    "a=b",
    "vllm=.",
    "vllm=nowhere",
    "=",
    "x" * 5000,
    "a\nb",
    "a\x1b[31m",
    "\udcff",
    "-1",
    "0",
    "9" * 5000,
    "1e400",
    "nan",
    "٣",
    "/dev/null",
    "/dev/zero",
    "loop",
    "fifo",
    "folder",
    "folder/file",
    "empty.whl",
    "x.patch",
    "nowhere/" * 900,
    "https://[",
    "docker.io/x:" + "y" * 300,
    "a@sha256:" + "0" * 64,
    "$(id)",
    "%s{0}",
)


@lru_cache
def verbs() -> dict[tuple[str, ...], tuple[str, ...]]:
    """Every verb with its options."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    group = typer.main.get_command(app)
    for name in VERBS:
        verb = group.get_command(None, name)  # type: ignore[attr-defined]
        below = getattr(verb, "commands", {})
        commands: dict[tuple[str, ...], Any] = (
            {(name, word): one for word, one in below.items()} if below else {(name,): verb}
        )
        for words, command in commands.items():
            found[words] = tuple(option for param in command.params for option in param.opts if option[:1] == "-")
    return {words: options for words, options in found.items() if words not in ACTS}


def some_command_line(rng: random.Random) -> bytes:
    """A verb, some options, some values; sometimes no verb at all. The words are joined by NUL."""
    verb = rng.choice(sorted(verbs()))
    words = list(verb) if rng.randrange(12) else []
    for _ in range(rng.randrange(5)):
        options = verbs()[verb] or ("--json",)
        words += rng.choice(([rng.choice(options)], [rng.choice(options), rng.choice(VALUES)], [rng.choice(VALUES)]))
    return os.fsencode("\0".join(words))


def run_command_line(data: bytes, room: Path) -> None:
    """The command line in this process; raises AssertionError for an exit code that the table does not have."""
    _furnish(room)
    os.environ.clear()
    os.environ |= {"HOME": str(room), "GB10_CACHE_DIR": str(room / "store"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    os.environ |= {"DOCKER_HOST": f"unix://{room}/no.sock", "PIP_INDEX_URL": "https://index.invalid/simple"}
    words = [os.fsdecode(word) for word in data.split(b"\0")] if data else []
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = gb10.cli.main(words)
    assert code in ALLOWED, f"exit {code} of {words!r}\n{err.getvalue()[-3000:]}"
    assert code == 0 or err.getvalue() or out.getvalue(), f"exit {code} of {words!r} without a word"


def _furnish(room: Path) -> None:
    (room / "folder").mkdir()
    (room / "folder/file").write_text("x", encoding="utf-8")
    (room / "loop").symlink_to("loop")
    os.mkfifo(room / "fifo")
    (room / "empty.whl").touch()
    (room / "x.patch").write_text("--- a/vllm/x.py\n+++ b/vllm/x.py\n@@ -1 +1 @@\n-a\n+b\n", encoding="utf-8")
