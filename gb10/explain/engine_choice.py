"""The engine's choice for one model: its own code in a child process with limits, over the config alone."""

import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gb10.errors import UsageError, VerifyError
from gb10.explain.engine_facts import EngineFacts
from gb10.explain.engine_files import OPERATORS, SITE
from gb10.explain.layer_rows import Answer, read_answer
from gb10.host.digest import digest
from gb10.host.host import Host
from gb10.host.proc import SILENT, CommandFailedError, capture_while_active
from gb10.host.store import file_sha256, note_use

CHILD: Final = Path(__file__).parent / "child"
SECONDS: Final = 600
"""Wall time for one model."""
LIMITS: Final = {"RLIMIT_CPU": 300, "RLIMIT_FSIZE": 1 << 26, "RLIMIT_AS": 32 << 30, "RLIMIT_CORE": 0}
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
CONFIG: Final = "config.json"
ANSWER: Final = "answer.json"
LINE: Final = 160
"""Characters of the engine's error: the reasons follow, each on its own line."""


def ask_engine(
    host: Host, facts: EngineFacts, files: Path, config: Mapping[str, Any], options: Mapping[str, str]
) -> Answer:
    """The engine's choice for every layer of a config. Raises UsageError when the child gives no answer.

    An engine that gives the same reason for other devices does not refuse this one.
    """
    answer = _asked(host, facts, files, config, options)
    if not answer.tried or not facts.elsewhere:
        return answer
    others = (facts.model_copy(update={"capability": one, "flags": {}}) for one in facts.elsewhere)
    alike = all(_asked(host, one, files, config, options).stopped == answer.stopped for one in others)
    return answer.model_copy(update={"tried": []}) if alike else answer


def _asked(
    host: Host, facts: EngineFacts, files: Path, config: Mapping[str, Any], options: Mapping[str, str]
) -> Answer:
    """An answer with a choice is kept under all that it follows from. An engine that stopped is asked again.

    The order of a config's fields counts: engines take the first group that matches.
    """
    scripts = sorted((path.name, file_sha256(path)) for path in CHILD.glob("*.py"))
    request = _request(facts, files, Path("work"), options)
    key = digest([json.dumps(config), request, scripts, platform.python_version()])
    kept = host.store.entry("answers", key) / ANSWER
    with host.store.locked(f"answers-{key}", host.talk.waiting_for("the engine's answer")):
        if kept.exists():
            note_use(kept)
            return read_answer(kept.read_text(encoding="utf-8"), "this config")
        with host.store.folder("explain") as work:
            answer = _run(facts, files, config, options, work)
        if answer.stopped is None:
            host.store.write_text(kept, answer.model_dump_json(by_alias=True))
        return answer


def _run(facts: EngineFacts, files: Path, config: Mapping[str, Any], options: Mapping[str, str], work: Path) -> Answer:
    """The child's answer. Raises UsageError when it ends without one."""
    (work / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    request = work / "request.json"
    request.write_text(json.dumps(_request(facts, files, work, options)), encoding="utf-8")
    argv = (sys.executable, "-I", "-S", str(CHILD / "choosing.py"), str(request))
    env = {"HOME": str(work), "PATH": os.defpath, "TMPDIR": str(work), "LANG": "C.UTF-8"}
    try:
        return read_answer(capture_while_active(argv, patience=SECONDS, env=env, cwd=work), "this config")
    except CommandFailedError as error:
        raise UsageError(
            "the engine's selection code ended without an answer" + _why(error.returncode),
            where=error.tail[-2000:],
            hint="the config may ask for more than a model has; ./build.py explain --help",
        ) from error


def refuse(answer: Answer, engine: str) -> None:
    """Raise for an engine that stopped: VerifyError when it refused every kernel of a layer, else UsageError."""
    if answer.stopped is None:
        return
    said = answer.stopped.strip()[:2000]
    if answer.tried:
        raise VerifyError(
            f"{engine} has no backend for this model on capability 12.1",
            where="\n".join([said.splitlines()[0][:LINE], *(f"{name}: {reason}" for name, reason in answer.tried)]),
            hint="another format of the model may have one; options change what is asked (docs/explain.md)",
        )
    raise UsageError(
        f"{engine} stopped before it had chosen: which kernels it would take is unknown",
        where=said,
        hint="the config may be of a model that this release does not know",
    )


def _request(facts: EngineFacts, files: Path, work: Path, options: Mapping[str, str]) -> dict[str, Any]:
    return {
        "script": facts.script,
        "model": str(work),
        "options": named_options(facts, options),
        "flags": facts.flags,
        "limits": LIMITS,
        "cuda": facts.cuda,
        "capability": facts.capability,
        "stand_ins": {**dict.fromkeys(facts.stand_ins, "9999"), **facts.versions},
        "compiled": facts.compiled,
        "operators": facts.operators,
        "schemas": json.loads((files / OPERATORS).read_text(encoding="utf-8")),
        "answers": facts.answers,
        "present": facts.present,
        "environment": {**OFFLINE, **facts.environment, "XDG_CACHE_HOME": str(work), "HF_HOME": str(work)},
        "path": [str(CHILD), str(files / SITE), *(str(files / SITE / path) for path in facts.paths)],
    }


def named_options(facts: EngineFacts, options: Mapping[str, str]) -> dict[str, str]:
    """The options by the engine's own names; raises UsageError for one that this engine has not."""
    absent = [name for name in options if name not in facts.options]
    if absent:
        known = ", ".join(f"--{name.replace('_', '-')}" for name in facts.options)
        raise UsageError(f"this engine has no --{absent[0].replace('_', '-')}", hint=f"it has {known}")
    return {facts.options[name]: value for name, value in options.items()}


def _why(code: int) -> str:
    if code == SILENT:
        return f": it ran for more than {SECONDS} s"
    return f" (exit {code})"
