"""A real server with a real, small model: real streams, real loops, and a benchmark of it."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.serving.guard.finding import Verdict
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.load_generator.canary_batch import guard_limits
from gb10.serving.load_generator.endpoint import reach
from gb10.serving.load_generator.exchange import flaws
from gb10.serving.load_generator.stream_client import ask_all, payload
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.pinned import pinned

pytestmark = pytest.mark.e2e
HERE = Path(__file__).parent
SLOTS = 2
LOOPS = "Tell a story about a lighthouse keeper."
"""At temperature 0 this model repeats a sentence for ever."""
PROMPTS = (
    "Write a poem about a mountain.",
    "Explain how a bicycle works.",
    "List ten animals and what they eat.",
    "Tell a story about a lighthouse keeper.",
    "What is photosynthesis? Answer in detail.",
    "Write a Python function that adds two numbers, and explain it.",
    "Describe a day in the life of a farmer.",
    "Why is the sky blue?",
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    site = pinned("real-server", HERE / "real-server.txt")
    argv = [sys.executable, str(HERE / "inside/real_server.py"), str(site)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout
        try:
            yield next(line.split()[1] for line in child.stdout if line.startswith("listening "))
        finally:
            child.terminate()


def verdicts(url: str, prompts: Sequence[str], tokens: int, temperature: float) -> Counter[Verdict]:
    """The verdicts of answers, as many at once as the server has slots; every stream must keep what it claims."""
    endpoint = reach(url, None, os.environ)
    bodies = [payload(endpoint.model, prompt, tokens, {"temperature": temperature, "seed": 7}) for prompt in prompts]
    found: Counter[Verdict] = Counter()
    for at in range(0, len(bodies), SLOTS):
        for one in ask_all(endpoint, bodies[at : at + SLOTS], os.environ):
            watch = StreamWatch(guard_limits())
            watch.feed(one.content)
            judgement = watch.judge(one.ending)
            found[judgement.verdict] += 1
            print(judgement.verdict, judgement.why, repr(one.content[-120:]))
            assert flaws(one) == ()
    return found


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_real_answers_are_whole_and_never_garbage(url: str, temperature: float) -> None:
    assert set(verdicts(url, PROMPTS, 120, temperature)) <= {Verdict.OK, Verdict.SUSPECT, Verdict.LOOP}


def test_the_models_own_loop_is_called_one(url: str) -> None:
    assert verdicts(url, [LOOPS], 600, 0.0) == {Verdict.LOOP: 1}


def test_a_benchmark_of_it(url: str, tmp_path: Path) -> None:
    tokenizer, out = write_byte_tokenizer(tmp_path / "tokenizer.json"), tmp_path / "result.json"
    load = ["-c", "1", "-c", "2", "--pp", "200", "--tg", "160", "--exact-tg", "--runs", "1", "--canary-tokens", "24"]
    assert main(["bench", "serve", url, "--tokenizer", str(tokenizer), "--out", str(out), *load]) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    for level in document["levels"]:
        theirs = level["generator"]["tg_throughput"]["values"]
        assert [run["tok_s"] for run in level["runs"]] == pytest.approx(theirs, rel=0.02)
    print(json.dumps(document["canaries_alone"]), [level["verdict"] for level in document["levels"]])


def test_real_launches_are_compared_and_one_that_fails_says_why(tmp_path: Path) -> None:
    site = pinned("real-server", HERE / "real-server.txt")
    axes, folder = tmp_path / "axes.yaml", tmp_path / "out"
    program = f"{sys.executable} {HERE}/inside/real_server.py"
    axes.write_text(
        f"launch: {program} {{site}} {{port}} {{slots}}\n"
        f"axes:\n  slots: {{one: {{slots: 1}}, two: {{slots: 2}}}}\n"
        f"  site: {{here: {{site: {site}}}, nowhere: {{site: {tmp_path}}}}}\n",
        encoding="utf-8",
    )
    tokenizer = write_byte_tokenizer(tmp_path / "tokenizer.json")
    load = [
        "-c",
        "2",
        "--pp",
        "100",
        "--tg",
        "24",
        "--runs",
        "1",
        "--canary-tokens",
        "24",
        "--tokenizer",
        str(tokenizer),
    ]
    assert main(["bench", "matrix", str(axes), "--out", str(folder), *load]) == 0
    rows = {row["name"]: row for row in json.loads((folder / "result.json").read_text(encoding="utf-8"))["rows"]}
    print({name: (row["result"], row["why"], row["levels"]) for name, row in rows.items()})
    for slots in ("one", "two"):
        assert rows[f"slots={slots} site=here"]["result"] == "STABLE"
        assert rows[f"slots={slots} site=here"]["levels"][0]["tok_s"] > 0
        assert "ModuleNotFoundError: No module named 'xllamacpp'" in rows[f"slots={slots} site=nowhere"]["cause"]
    sides = ["slots=1", "slots=1", "--launch", f"{program} {site} {{port}} {{slots}}", "--launches", "2"]
    assert main(["bench", "compare", *sides, "--out", str(tmp_path / "aa"), *load]) == 0
    found = json.loads((tmp_path / "aa/result.json").read_text(encoding="utf-8"))
    assert all(one["result"] == "STABLE" for side in "AB" for one in found["sides"][side]["launches"])
    assert {row["figure"] for row in found["rows"]} >= {"steps_s", "tok_s"}
    print((tmp_path / "aa/table.md").read_text(encoding="utf-8"))
