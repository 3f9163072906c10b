"""Points of an endpoint, as a tool that is installed reports them; here the tool is a script that writes its file."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gb10.core.host import Host
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import UsageError, VerifyError
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.serving.load_generator.quality import INSTALL, PROGRAMS, Exam, Judge, Quality, examine, installed

ENDPOINT = Endpoint(url="http://spark:8000/v1", model="org/m", key="k")
LM_EVAL = {"results": {"gsm8k": {"alias": "g", "exact_match,strict": 0.5}}, "n-samples": {"gsm8k": {"effective": 8}}}


def host(tmp_path: Path) -> Host:
    (tmp_path / "bin").mkdir(exist_ok=True)
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    return Host(env=env, store=Store(tmp_path / "store"), reporter=Reporter({}))


def program(tmp_path: Path, judge: Judge, result: object, code: int = 0) -> Host:
    """A judge that writes a result where its arguments say, and notes how it was called."""
    found = host(tmp_path)
    text = result if isinstance(result, str) else json.dumps(result)
    script = f"""#!{sys.executable}
import json, os, pathlib, sys
argv = sys.argv[1:]
keys = {{name: os.environ.get(name) for name in ("TOOL_EVAL_API_KEY", "OPENAI_API_KEY")}}
pathlib.Path({str(tmp_path / "call")!r}).write_text(json.dumps([argv, keys]))
place = argv[argv.index("--json-file") + 1] if "--json-file" in argv else argv[argv.index("--output_path") + 1]
path = pathlib.Path(place)
path = path if path.suffix else path / "org__m" / "results_1.json"
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text({text!r}) if {text!r} else None
print("a line")
sys.exit({code})
"""
    file = tmp_path / "bin" / PROGRAMS[judge]
    file.write_text(script, encoding="utf-8")
    file.chmod(0o755)
    return found


def call(tmp_path: Path) -> Any:  # noqa: ANN401
    return json.loads((tmp_path / "call").read_text(encoding="utf-8"))


def test_the_first_judge_that_is_installed_is_taken(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path / "bin")}
    assert installed(env) == "canaries"
    program(tmp_path, "lm-eval", {})
    assert installed(env) == "lm-eval"
    program(tmp_path, "tool-eval-bench", {})
    assert installed(env) == "tool-eval-bench"


@pytest.mark.parametrize("judge", ["tool-eval-bench", "lm-eval", "canaries"])
def test_a_judge_that_is_not_installed_is_an_error_with_its_command(tmp_path: Path, judge: Judge) -> None:
    with pytest.raises(UsageError, match=f"{judge} is not installed") as caught:
        examine(host(tmp_path), ENDPOINT, Exam(judge=judge), tmp_path / "log")
    assert (caught.value.hint or "").startswith(str(INSTALL.get(judge)))


def test_scenarios_of_tools_are_counted(tmp_path: Path) -> None:
    found = program(tmp_path, "tool-eval-bench", {"scores": {"total_points": 27, "max_points": 30}})
    quality = examine(found, ENDPOINT, Exam(judge="tool-eval-bench"), tmp_path / "log")
    assert quality == Quality(judge="tool-eval-bench", what="15 scenarios", points=27, of=30)
    assert quality.share == 0.9
    argv, keys = call(tmp_path)
    assert argv[:4] == ["run", "--short", "--base-url", "http://spark:8000"]
    assert keys["TOOL_EVAL_API_KEY"] == "k"


@pytest.mark.parametrize("tasks", [None, Path("/my/tasks")])
def test_right_answers_of_a_task_are_counted(tmp_path: Path, tasks: Path | None) -> None:
    found = program(tmp_path, "lm-eval", LM_EVAL)
    keyless = Endpoint(url=ENDPOINT.url, model="org/m")
    quality = examine(found, keyless, Exam(judge="lm-eval", tasks=tasks), tmp_path / "log")
    assert quality == Quality(judge="lm-eval", what="gsm8k", points=4, of=8)
    argv, keys = call(tmp_path)
    assert "model=org/m,base_url=http://spark:8000/v1/chat/completions,num_concurrent=4,max_retries=1" in argv
    assert argv[-2:] == (["--include_path", "/my/tasks"] if tasks else argv[-2:])
    assert keys["OPENAI_API_KEY"] == "EMPTY"


def changed(name: str, value: object) -> dict[str, object]:
    return {**LM_EVAL, name: {"gsm8k": value}}


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (changed("results", {"exact_match,a": 0.0, "acc,none": 1.0}), ""),
        (changed("results", {"acc,none": 1.0}), ""),
        (changed("results", {"bleu,none": 1.0}), "reported no score"),
        (changed("results", [1]), "reported no score"),
        (changed("results", {"acc,none": "1"}), "reported no score"),
        (changed("results", {"acc,none": 1.5}), "reported no score"),
        (changed("results", {"acc,none": -0.5}), "reported no score"),
        (changed("n-samples", {"effective": 0}), "reported no score"),
        (changed("n-samples", {"effective": "8"}), "reported no score"),
        (changed("n-samples", None), "reported no score"),
        ("", "wrote no result"),
        ("[]", "wrote no result that can be read"),
        ("{", "wrote no result that can be read"),
    ],
)
def test_a_result_without_a_score_is_an_error(tmp_path: Path, result: object, complaint: str) -> None:
    found = program(tmp_path, "lm-eval", result)
    if complaint:
        with pytest.raises(VerifyError, match=complaint):
            examine(found, ENDPOINT, Exam(judge="lm-eval"), tmp_path / "log")
    else:
        assert examine(found, ENDPOINT, Exam(judge="lm-eval"), tmp_path / "log").of == 8


def test_a_judge_that_fails_is_an_error_with_its_last_lines(tmp_path: Path) -> None:
    found = program(tmp_path, "tool-eval-bench", {}, code=3)
    with pytest.raises(VerifyError, match="tool-eval-bench ended with 3") as caught:
        examine(found, ENDPOINT, Exam(judge="tool-eval-bench"), tmp_path / "log")
    assert (caught.value.where or "").startswith("a line\nlog: ")
    program(tmp_path, "tool-eval-bench", {"scores": 3})
    with pytest.raises(VerifyError, match="reported no score"):
        examine(found, ENDPOINT, Exam(judge="tool-eval-bench"), tmp_path / "log")


@pytest.mark.parametrize(("url", "model"), [("http://spark/v1", "a,b"), ("http://spark/a,b/v1", "m")])
def test_a_name_that_would_be_two_arguments_is_refused(tmp_path: Path, url: str, model: str) -> None:
    found = program(tmp_path, "lm-eval", LM_EVAL)
    with pytest.raises(UsageError, match="lm-eval cannot be given the model"):
        examine(found, Endpoint(url=url, model=model), Exam(judge="lm-eval"), tmp_path / "log")


def test_no_points_are_no_share() -> None:
    assert Quality(judge="canaries", what="x", points=0, of=0).share == 0
