"""The first answer of a server that pools: what engines send, and what broken kernels would."""

import json

import pytest

from gb10.models.load.model_recipe import Answers
from gb10.models.render.rendered import RenderedRecipe, node_container
from gb10.serving.guard.finding import Verdict
from gb10.serving.run.pooled_answer import judge_answer
from gb10.serving.run.service import ContainerSettings, curl_line, service_of
from gb10.serving.run.service_nodes import nodes_of

GOOD = [[1.0, 0.0], [0.6, 0.8], [1.0, 0.001]]


def vectors(rows: object) -> bytes:
    assert isinstance(rows, list)
    return json.dumps({"data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]}).encode()


def ranks(scores: list[float | None]) -> bytes:
    rows = [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]
    return json.dumps({"results": sorted(rows, key=lambda row: -(row["relevance_score"] or 0.0))}).encode()


@pytest.mark.parametrize(
    ("answers", "text", "verdict", "why"),
    [
        ("embeddings", vectors(GOOD), Verdict.OK, ""),
        ("embeddings", vectors([GOOD[0], [None, 1.0], GOOD[2]]), Verdict.GARBAGE, "numbers that are none"),
        ("embeddings", vectors([GOOD[0], [float("inf"), 1.0], GOOD[2]]), Verdict.GARBAGE, "numbers that are none"),
        ("embeddings", vectors([[0.0, 0.0]] * 3), Verdict.GARBAGE, "all zeros"),
        ("embeddings", vectors([GOOD[0]] * 3), Verdict.GARBAGE, "two different texts have the same embedding"),
        ("embeddings", vectors([GOOD[0], GOOD[1], GOOD[1]]), Verdict.GARBAGE, "two embeddings of one text differ"),
        ("embeddings", vectors(GOOD[:2]), Verdict.ERROR, "no answer to 3 texts"),
        ("embeddings", vectors([[1.0], [1.0, 2.0], [1.0]]), Verdict.ERROR, "no answer to 3 texts"),
        ("embeddings", vectors([["x"], ["y"], ["z"]]), Verdict.ERROR, "no answer to 3 texts"),
        ("embeddings", vectors([[10**400, 1.0], GOOD[1], GOOD[2]]), Verdict.ERROR, "no answer to 3 texts"),
        ("embeddings", b"<html>", Verdict.ERROR, "no answer to 3 texts"),
        ("embeddings", b"[" * 100_000, Verdict.ERROR, "no answer to 3 texts"),
        ("rerank", ranks([0.9, 0.1, 0.9]), Verdict.OK, ""),
        ("rerank", json.dumps([{"index": at, "score": at % 2} for at in range(3)]).encode(), Verdict.OK, ""),
        ("rerank", ranks([0.004, -7.3, 0.0041]), Verdict.OK, ""),
        ("rerank", ranks([-0.001, 5.2, 0.002]), Verdict.OK, ""),
        ("rerank", ranks([0.004, -7.3, 0.4]), Verdict.GARBAGE, "two ranks of one document differ"),
        ("rerank", ranks([0.5, 0.5, 0.5]), Verdict.GARBAGE, "two different documents have the same rank"),
        ("rerank", ranks([0.9, 0.1, 0.2]), Verdict.GARBAGE, "two ranks of one document differ"),
        ("rerank", ranks([0.9, None, 0.9]), Verdict.GARBAGE, "a rank is no number"),
        ("rerank", ranks([0.9, 0.1]), Verdict.ERROR, "no answer to 3 texts"),
    ],
)
def test_what_a_body_says(answers: Answers, text: bytes, verdict: Verdict, why: str) -> None:
    found = judge_answer(answers, text)
    assert found.verdict is verdict
    assert why in found.why


@pytest.mark.parametrize(
    ("command", "answers"),
    [
        ("vllm serve m --port 8000", "chat"),
        ("vllm serve m --runner pooling", "embeddings"),
        ("vllm serve m --runner=pooling --convert classify", "rerank"),
        ("vllm serve m --task embed", "embeddings"),
        ("vllm serve m --task score", "rerank"),
        ("""vllm serve m --hf-overrides '{"classifier_from_token": ["no", "yes"]}'""", "rerank"),
        ("python3 -m sglang.launch_server --model-path m --is-embedding", "embeddings"),
        ("llama-server -m m.gguf --embeddings", "embeddings"),
        ("llama-server -m m.gguf --reranking", "rerank"),
        ("vllm serve m --task generate --embeddings-are-none x", "chat"),
    ],
)
def test_the_command_says_what_a_server_answers(command: str, answers: Answers) -> None:
    container = node_container("n", "image", command, {})
    rendered = RenderedRecipe(runtime="vllm", image="image", script=None, serve=command, containers=(container,))
    service = service_of(
        name="m", model="m", rendered=rendered, nodes=nodes_of(("n",)), mods=(), settings=ContainerSettings()
    )
    assert service.answers == answers
    line = curl_line("http://n:1", "m", service.answers)
    assert f"/v1/{'chat/completions' if answers == 'chat' else answers} " in line
