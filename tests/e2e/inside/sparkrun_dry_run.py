"""Runs in sparkrun's own environment, not in ours: ``sparkrun run --dry-run`` for each case, and what it would serve.

    PYTHON sparkrun_driver.py CASES.json OUT.json

A case has ``file``, ``nodes`` and ``overrides``. The result has ``runtime``, ``serve`` and ``ranks``, or null when
sparkrun refuses. Programs named ``git`` and ``ssh`` are never started.
"""

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

STATE = threading.local()
LOCK = threading.Lock()
SEEN: dict[str, Any] = {}
WATCHED = ("generate_command", "generate_node_command", "_build_rpc_head_command")


def watched(original: Any, name: str) -> Any:
    """The function, which notes the outermost result."""

    def call(self: Any, *args: Any, **words: Any) -> Any:
        depth = getattr(STATE, "depth", 0)
        STATE.depth = depth + 1
        try:
            found = original(self, *args, **words)
        finally:
            STATE.depth = depth
        if depth == 0:
            with LOCK:
                SEEN["runtime"] = self.runtime_name
                if name == "generate_command":
                    SEEN["serve"] = found
                else:
                    SEEN.setdefault("ranks", {})[words.get("node_rank", 0)] = found
        return found

    return call


def watch() -> None:
    """Watch every runtime of sparkrun."""
    base = importlib.import_module("sparkrun.runtimes.base")
    package = importlib.import_module("sparkrun.runtimes")
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"sparkrun.runtimes.{info.name}")
        for _, found in inspect.getmembers(module, inspect.isclass):
            if found.__module__ == module.__name__ and issubclass(found, base.RuntimePlugin):
                for name in set(WATCHED) & set(found.__dict__):
                    setattr(found, name, watched(found.__dict__[name], name))


def without_programs() -> None:
    """No git, no ssh: both fail at once."""
    run, start = subprocess.run, subprocess.Popen.__init__

    def refusing(argv: Any, *args: Any, **words: Any) -> Any:
        if isinstance(argv, list | tuple) and Path(str(argv[0])).name in ("git", "ssh"):
            return subprocess.CompletedProcess(argv, 255, "", "not here")
        return run(argv, *args, **words)

    def starting(self: Any, argv: Any, *args: Any, **words: Any) -> None:
        stopped = isinstance(argv, list | tuple) and Path(str(argv[0])).name in ("git", "ssh")
        start(self, ["false"] if stopped else argv, *args, **words)

    subprocess.run, subprocess.Popen.__init__ = refusing, starting


def main() -> None:
    """Run all cases."""
    cases = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    without_programs()
    watch()
    runner = importlib.import_module("click.testing").CliRunner()
    command = importlib.import_module("sparkrun.cli").main
    found = []
    for case in cases:
        SEEN.clear()
        argv = ["run", case["file"], "--dry-run", "--no-auto-detect", "--offline", "-H", ",".join(case["nodes"])]
        runner.invoke(
            command, [*argv, *(word for key, value in case["overrides"] for word in ("-o", f"{key}={value}"))]
        )
        ranks = [command for _, command in sorted(SEEN.get("ranks", {}).items())]
        serve = SEEN.get("serve")
        found.append(serve and {"runtime": SEEN["runtime"], "serve": serve, "ranks": ranks or [serve]})
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
