"""From a name on a hub to an answer by one command, with the real vLLM: four models that write, two that pool."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gb10.containers.connection import Engine, client
from gb10.core.proc import CommandFailedError
from gb10.core.store import Store
from gb10.models.render.rendered import CACHE
from tests.e2e import vllm_cpu
from tests.e2e.word_model import TEXT, write_word_model
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.hub_server import FakeHub, Repository, fake_hub
from tests.integration.nodes import another_engine, build_py, free_port

pytestmark = pytest.mark.e2e
MAKE = Path(__file__).parent / "inside/word_models.py"
CPU = ("--no-gpus", "--memory", "8", "--keep-free", "0.3")
VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HOME": "/tmp/hf",  # noqa: S108 - in the container: its volume is the test's own packages
}
Run = Callable[[str], list[str]]
FOR_CPU = ("--", "--enforce-eager", "--dtype")
"""What vLLM for the CPU wants otherwise than that of a Spark; its delta networks take BF16 alone."""


@pytest.fixture(scope="module")
def engine(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine of its own, with vLLM's image and the packages in the volume of its cache."""
    tar = vllm_cpu.image(store, tmp_path_factory.mktemp("image"))
    with another_engine(store, tmp_path_factory.mktemp("engine")) as found:
        vllm_cpu.give(found, tar)
        yield found


@pytest.fixture(scope="module")
def hub(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeHub]:
    """A hub with a model of each architecture, made by transformers in a container."""
    folder = tmp_path_factory.mktemp("models")
    write_byte_tokenizer(folder / "bytes.json")
    mounts = [f"{MAKE}:/make.py:ro", f"{CACHE[0]}:{CACHE[1]}:ro", f"{folder}:/out"]
    argv = ["python3", "/make.py", f"/{vllm_cpu.MODEL}", "/out"]
    environment = {"PYTHONPATH": CACHE[1], "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with closing(client(engine)) as sdk:
        sdk.containers.run(vllm_cpu.IMAGE, argv, volumes=mounts, environment=environment, remove=True)
    write_word_model(folder / "qwen3")
    with fake_hub() as found:
        for model in sorted(path for path in folder.iterdir() if path.is_dir()):
            files = {str(path.relative_to(model)): path.read_bytes() for path in model.rglob("*") if path.is_file()}
            found.repositories[f"org/{model.name}"] = Repository(private=False)
            found.put(f"org/{model.name}", dict(files))
        yield found


@pytest.fixture
def run(engine: Engine, hub: FakeHub, tmp_path: Path) -> Iterator[Run]:
    env = {**os.environ, "HF_ENDPOINT": hub.url, "XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"}

    def started(model: str) -> list[str]:
        """The lines that the command prints: where the server is, and a request to paste."""
        variables = {**VARIABLES, "HF_ENDPOINT": hub.url, "port": str(free_port())}
        dtype = "bfloat16" if model == "hybrid" else "float32"
        settings = [word for name, value in variables.items() for word in ("--set", _named(name, value))]
        call = ("run", f"org/{model}", "--yes", "--detach", "--image", vllm_cpu.IMAGE, "--nodes", engine.endpoint.host)
        try:
            return build_py(*call, *CPU, *settings, *FOR_CPU, dtype, env=env).splitlines()
        except CommandFailedError as error:
            pytest.fail(error.tail)

    yield started
    with closing(client(engine)) as sdk:
        for one in sdk.containers.list(all=True):
            print(one.logs(tail=40).decode())
            one.remove(force=True)


def _named(name: str, value: str) -> str:
    return f"{name}={value}" if name == "port" else f"env.{name}={value}"


def pasted(line: str) -> Any:  # noqa: ANN401 - JSON
    """The answer to the printed request."""
    said = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    return json.loads(said)


@pytest.mark.parametrize("model", ["llama", "qwen3", "moe", "hybrid"])
def test_a_name_becomes_an_answer_by_one_command(run: Run, model: str) -> None:
    """The guard accepted the first answer, or the command would have failed; the text is the model's."""
    _, request = run(model)
    answer = pasted(request)
    content = answer["choices"][0]["message"]["content"]
    assert content.split()[:12] == TEXT.split()[:12]


def test_a_model_of_vectors_answers_embeddings(run: Run) -> None:
    _, request = run("embedding")
    assert "/v1/embeddings" in request
    assert len(pasted(request)["data"][0]["embedding"]) == 128


def test_a_model_of_ranks_answers_rerank(run: Run) -> None:
    _, request = run("ranking")
    assert "/v1/rerank" in request
    assert {row["index"] for row in pasted(request)["results"]} == {0, 1}
