"""aiperf, when it is installed: run by a file of settings, so that the key is in no command line; its files read."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, capture, last_lines, stream
from gb10.errors import UsageError, VerifyError
from gb10.serving.load_generator.endpoint import Endpoint

NAME: Final = "aiperf"
TRIED: Final = "0.13.0"
KEY: Final = "GB10_LOAD_KEY"
LARGEST: Final = 512 << 20
TEMPLATE: Final = ("${", "{{", "{%", "{#")
"""What begins a variable, an expression, a statement or a comment of a template."""
PLAIN: Final = '{"tokenizer_class": "PreTrainedTokenizerFast"}'


def find_aiperf(env: Mapping[str, str]) -> str:
    """The program. Raises UsageError where it is not installed."""
    found = shutil.which(NAME, path=env.get("PATH"))
    if found is None:
        raise UsageError(
            "aiperf is not installed",
            hint=f"make it an environment of its own (1.2 GB): python3 -m venv ~/aiperf && ~/aiperf/bin/pip install "
            f"aiperf=={TRIED}\nthen put ~/aiperf/bin on PATH; or leave out --tool: llama-benchy comes by itself",
        )
    return found


def check_extra(extra: Mapping[str, object]) -> None:
    """Raise UsageError for a text that aiperf would not send as it is: its file of settings is a template. Pure."""
    text = json.dumps(dict(extra))
    found = next((sign for sign in TEMPLATE if sign in text), None)
    if found is not None:
        raise UsageError(
            f"aiperf replaces what follows {found!r} in its settings, so --extra-body would not be sent as it is",
            hint="omit --tool: llama-benchy sends it unchanged",
        )


def aiperf_version(env: Mapping[str, str]) -> str:
    """Its release, as it prints it. Raises UsageError."""
    try:
        return capture([find_aiperf(env), "--version"], env=env).strip()
    except CommandFailedError as error:
        raise UsageError("aiperf does not start", where=last_lines(error.tail, 4)) from error


def settings(
    endpoint: Endpoint, *, tokens: tuple[int, int], concurrency: int, runs: int, warm_up: int, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Its file of settings, without its folders. ``tokens`` are of prompt and answer. Pure."""
    kind = {"type": "concurrency", "concurrency": concurrency}
    found = {
        "model": endpoint.model,
        "endpoint": {
            "url": endpoint.url,
            "type": "chat",
            "streaming": True,
            "use_server_token_count": True,
            "extra": dict(extra),
            **({"api_key": f"${{{KEY}}}"} if endpoint.key else {}),
        },
        "dataset": {
            "type": "synthetic",
            "entries": (runs + warm_up) * concurrency,
            "prompts": {"isl": tokens[0], "osl": tokens[1]},
        },
        "profiling": {**kind, "requests": runs * concurrency},
        "gpuTelemetry": {"enabled": False},
        "serverMetrics": {"enabled": False},
    }
    return {"benchmark": found | ({"warmup": {**kind, "requests": warm_up * concurrency}} if warm_up else {})}


def run_aiperf(host: Host, endpoint: Endpoint, config: dict[str, Any], tokenizer: Path, log: Path) -> Mapping[str, Any]:
    """Run it: its records, its texts by request, its own result. Raises VerifyError, UsageError."""
    program = find_aiperf(host.env)
    with host.store.folder("aiperf") as home:
        folder, out = home / "tokenizer", home / "out"
        folder.mkdir()
        (folder / "tokenizer.json").symlink_to(tokenizer.resolve())
        (folder / "tokenizer_config.json").write_text(PLAIN, encoding="ascii")
        config["benchmark"]["tokenizer"] = {"name": str(folder)}
        config["benchmark"]["artifacts"] = {"dir": str(out), "records": ["jsonl"], "exportOutputsJson": True}
        path = home / "settings.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        argv = [program, "profile", "--config", str(path), "--ui", "none"]
        try:
            stream(argv, log=log, on_line=host.reporter.detail, env={**host.env, KEY: endpoint.key}, cwd=home)
        except CommandFailedError as error:
            where = f"{last_lines(error.tail, 6)}\nlog: {log}"
            raise VerifyError(f"aiperf ended with {error.returncode}", where=where) from error
        return {
            "records": _lines(out / "profile_export.jsonl"),
            "texts": _texts(out / "outputs.json"),
            "own": _json(out / "profile_export_aiperf.json"),
        }


def _json(path: Path) -> Any:  # noqa: ANN401 - a document of aiperf's
    try:
        return json.loads(read_plain_file(path, LARGEST))
    except (ValueError, RecursionError, UsageError) as error:
        raise VerifyError(f"aiperf wrote no {path.name}", where=str(error), hint=f"{TRIED} is the tried one") from error


def _lines(path: Path) -> list[Mapping[str, Any]]:
    try:
        lines = read_plain_file(path, LARGEST).splitlines()
        return [found for line in lines if isinstance(found := json.loads(line), dict)]
    except (ValueError, RecursionError, UsageError) as error:
        raise VerifyError(f"aiperf wrote no {path.name}", where=str(error), hint=f"{TRIED} is the tried one") from error


def _texts(path: Path) -> dict[str, str]:
    found = _json(path)
    rows = found.get("data") if isinstance(found, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {str(row.get("x_request_id")): str(row.get("response_text") or "") for row in rows}
