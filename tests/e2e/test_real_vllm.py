"""The real vLLM measured, on one machine and over two: its own client's counts, a killed matrix, a comparison."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gb10.containers.connection import client
from gb10.containers.docker_containers import run_inside
from gb10.core.store import Store
from gb10.image.plan.catalog import ROOT
from gb10.serving.benchmark.launch_journal import JOURNAL
from gb10.serving.load_generator.endpoint import reach
from gb10.serving.load_generator.request_fields import request_fields
from gb10.serving.load_generator.server_pages import counter_gains, counters
from gb10.serving.load_generator.stream_client import ask_all, payload
from tests.e2e import vllm_cpu
from tests.e2e.matrices import measured, rows_of
from tests.e2e.word_model import TEXT
from tests.hang import until
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.machines import Machine, Pair
from tests.integration.services import containers, ran

pytestmark = pytest.mark.e2e
CPU = ("--no-gpus", "--memory", "6", "--keep-free", "0.5")
LOAD = ("-c", "1", "-c", "2", "--pp", "64", "--tg", "16", "--runs", "1", "--warm-up", "0", "--canary-tokens", "24")
QUESTIONS = 8
AXES = f"""\
recipe: {{recipe}}
axes:
  model:
    talker: {{{{weights: /opt/talker, image: {vllm_cpu.TALKER}}}}}
    words: {{{{weights: /opt/words}}}}
  mode:
    plain: {{{{}}}}
    uncached: {{{{args: --no-enable-prefix-caching}}}}
    refused: {{{{args: --attention-backend NO_SUCH}}}}
left_out:
  - {{{{when: {{{{model: words, mode: uncached}}}}, why: one is enough}}}}
  - {{{{when: {{{{model: words, mode: refused}}}}, why: one is enough}}}}
"""


@pytest.fixture(scope="module")
def two(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with vllm_cpu.two_machines(store, tmp_path_factory.mktemp("two")) as found:
        vllm_cpu.give_talker([one.engine for one in found.machines], tmp_path_factory.mktemp("talker"))
        yield found


@pytest.fixture(autouse=True)
def _user(two: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", two.env["PATH"])
    yield
    left = [name for machine in two.machines for name in containers(machine.engine)]
    for machine in two.machines:
        with closing(client(machine.engine)) as sdk:
            sdk.containers.prune()
            for one in sdk.containers.list():
                one.remove(force=True)
    assert left == []


@pytest.fixture
def load(tmp_path: Path) -> tuple[str, ...]:
    return (*LOAD, "--tokenizer", str(write_byte_tokenizer(tmp_path / "tokenizer.json")))


def give_questions(machine: Machine, container: str) -> None:
    """Questions that hold much of the answer, in the form of ShareGPT, for vLLM's client."""
    said = [[word for at, word in enumerate(TEXT.split()) if at % (one + 3)] for one in range(QUESTIONS)]
    asked = [{"conversations": [{"value": " ".join(words)}, {"value": TEXT}]} for words in said]
    script = "import sys; open('/opt/questions.json', 'w').write(sys.argv[1])"
    assert run_inside(machine.engine, container, ["python3", "-c", script, json.dumps(asked)])[0] == 0


def test_vllms_own_client_counts_what_the_counters_say(two: Pair, tmp_path: Path) -> None:
    """Acceptance at each position, of the same requests: `vllm bench serve` in the container, and gb10 from outside."""
    machine, name = two.machines[0], "gb10-words-0"
    guess = ["--spec-method", "ngram", "--spec-tokens", "3"]
    run = ("run", str(vllm_cpu.recipe(tmp_path, nodes=1)), *CPU, "--nodes", machine.host, "--detach", "--", *guess)
    endpoint = reach(ran(*run).splitlines()[0], None, os.environ)
    give_questions(machine, name)
    asked = "vllm bench serve --backend openai-chat --base-url http://127.0.0.1:8000 --endpoint /v1/chat/completions"
    asked += f" --model words --tokenizer /{vllm_cpu.MODEL} --dataset-name sharegpt --dataset-path /opt/questions.json"
    asked += f" --num-prompts {QUESTIONS} --ready-check-timeout-sec 0 --temperature 0 --disable-tqdm"
    asked += " --save-result --result-dir /opt --result-filename result.json"
    before = counters(endpoint, os.environ)
    code, said = run_inside(machine.engine, name, ["timeout", "300", *asked.split()])
    ours = counter_gains(before, counters(endpoint, os.environ))
    assert code == 0, said
    theirs = json.loads(run_inside(machine.engine, name, ["cat", "/opt/result.json"])[1])
    ran("stop", "words", "--nodes", machine.host)
    print(ours, {key: value for key, value in theirs.items() if key.startswith("spec_decode")})
    assert theirs["completed"] == QUESTIONS
    assert theirs["spec_decode_num_drafts"] > QUESTIONS
    assert ours.accepted == tuple(theirs["spec_decode_per_position_acceptance_rates"])
    assert ours.tokens_per_draft == theirs["spec_decode_acceptance_length"]
    assert 1 > ours.accepted[0] > ours.accepted[1] > ours.accepted[2] > 0


def test_lengths_of_answers_and_fields_of_requests(two: Pair, load: tuple[str, ...], tmp_path: Path) -> None:
    """vLLM takes the fields: its chat template reads the variable, and a value of the wrong type is an error of 400."""
    machine = two.machines[0]
    run = ("run", str(vllm_cpu.recipe(tmp_path, nodes=1)), *CPU, "--nodes", machine.host, "--detach")
    endpoint = reach(ran(*run).splitlines()[0], None, os.environ)
    fields = [request_fields([]), request_fields([], no_thinking=True), request_fields(["top_k=many"])]
    bodies = [payload(endpoint.model, "Go on.", 6, one) for one in fields]
    thinks, answers, wrong = (ask_all(endpoint, [body], os.environ)[0] for body in bodies)
    words = TEXT.split()
    assert (thinks.content.split(), answers.content.split()) == (words[:6], words[1:7])
    assert (wrong.status, "top_k" in wrong.error) == (400, True)
    ran("stop", "words", "--nodes", machine.host)
    talker = ("--image", vllm_cpu.TALKER, "--set", "weights=/opt/talker")
    url, out = ran(*run, *talker).splitlines()[0], tmp_path / "result.json"
    more = ["--tg", "24", "--no-thinking", "--extra-body", '{"top_k": 20, "chat_template_kwargs": {"a": [1, "b, c"]}}']
    said = ran("bench", "serve", url, *load, *more, "--exact-tg", "--out", str(out))
    ran("stop", "words", "--nodes", machine.host)
    print(said)
    levels = json.loads(out.read_text(encoding="utf-8"))["levels"]
    assert [(one["answer"], one["concurrency"]) for one in levels] == [(16, 1), (16, 2), (24, 1), (24, 2)]
    for level in levels:
        assert {stream["tokens"] for run in level["runs"] for stream in run["streams"]} == {level["answer"]}


def in_row_2(folder: Path, machine: Machine) -> bool:
    return measured(folder) == 1 and bool(containers(machine.engine))


def test_a_matrix_that_is_killed_goes_on(two: Pair, load: tuple[str, ...], tmp_path: Path) -> None:
    """One row is stable, one is refused by the engine, one says the same for ever; the tool is killed in the second."""
    axes, folder, machine = tmp_path / "axes.yaml", tmp_path / "out", two.machines[0]
    axes.write_text(AXES.format(recipe=vllm_cpu.recipe(tmp_path, nodes=1)), encoding="utf-8")
    matrix = ["bench", "matrix", str(axes), "--nodes", machine.host, "--out", str(folder), *CPU, *load]
    with subprocess.Popen([sys.executable, str(ROOT / "build.py"), *matrix]) as tool:
        until(lambda: in_row_2(folder, machine) or tool.poll() is not None, "row 2", seconds=900)
        tool.kill()
    kept = (folder / JOURNAL).read_bytes()
    assert measured(folder) == len(containers(machine.engine)) == 1
    print(said := ran(*matrix))
    assert (folder / JOURNAL).read_bytes().startswith(kept)
    rows = rows_of(folder)
    for mode in ("plain", "uncached"):
        row = rows[f"model=talker mode={mode}"]
        assert (row["result"], [level["tok_s"] > 0 for level in row["levels"]]) == ("STABLE", [True, True])
    refused, words = rows["model=talker mode=refused"], rows["model=words mode=plain"]
    assert refused["result"] == "FAIL"
    assert "Unknown attention backend: 'NO_SUCH'" in refused["cause"]
    assert (words["result"], words["cause"]) == ("GARBAGE", "")
    assert "2 STABLE, 1 FAIL, 1 GARBAGE, 2 left out" in said


def test_a_service_over_two_nodes_is_compared_with_one_on_one(two: Pair, load: tuple[str, ...], tmp_path: Path) -> None:
    folder, more = tmp_path / "out", ["--image", vllm_cpu.TALKER, "--set", "weights=/opt/talker"]
    sides = ["tensor_parallel=1", "tensor_parallel=2"]
    path = str(vllm_cpu.recipe(tmp_path, nodes=2))
    asked = ["--nodes", two.nodes, *more, *CPU, *load, "--launches", "1", "--out", str(folder)]
    print(ran("bench", "compare", "--recipe", path, *sides, *asked))
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    one, other = (found["sides"][side]["launches"] for side in "AB")
    assert {launch["result"] for launch in (*one, *other)} == {"STABLE"}
    assert [len(launch["facts"]["command"]) for launch in (one[0], other[0])] == [1, 2]
    with closing(client(two.machines[1].engine)) as sdk:
        assert other[0]["facts"]["digest"][two.machines[1].host] == sdk.images.get(vllm_cpu.TALKER).id
