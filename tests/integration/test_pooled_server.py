"""A server that pools is asked on the path that it has; engines refuse the other one by different codes."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

import pytest

from gb10.models.load.model_recipe import Answers
from gb10.models.render.rendered import RenderedRecipe, node_container
from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.serving.run.health import first_answer
from gb10.serving.run.heard_answer import heard_answer, tone
from gb10.serving.run.pooled_answer import pooled_answer
from gb10.serving.run.service import ContainerSettings, service_of
from gb10.serving.run.service_nodes import nodes_of
from tests.quiet_handler import QuietHandler
from tests.unit.serving.test_pooled_answer import GOOD, ranks, vectors

pytestmark = pytest.mark.integration


@contextmanager
def server(replies: Mapping[str, tuple[int, bytes]]) -> Iterator[Endpoint]:
    """A server that has these paths."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body = replies.get(self.path, (404, b"{}"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
        yield Endpoint(url=f"http://127.0.0.1:{found.server_port}/v1", model="m", direct=True)
        found.shutdown()


@pytest.mark.parametrize(
    ("replies", "expected", "status", "answers", "verdict"),
    [
        ({"/v1/embeddings": (200, vectors(GOOD))}, "embeddings", 200, "embeddings", Verdict.OK),
        ({"/v1/embeddings": (200, vectors(GOOD))}, "rerank", 200, "embeddings", Verdict.OK),
        ({"/v1/rerank": (200, ranks([1, 0, 1]))}, "embeddings", 200, "rerank", Verdict.OK),
        (
            {"/v1/embeddings": (501, b"no"), "/v1/rerank": (200, ranks([1, 0, 1]))},
            "embeddings",
            200,
            "rerank",
            Verdict.OK,
        ),
        ({"/v1/embeddings": (500, b"dead")}, "embeddings", 500, "embeddings", Verdict.ERROR),
        ({}, "embeddings", 404, "embeddings", Verdict.ERROR),
    ],
)
def test_a_server_is_asked_on_the_path_that_it_has(
    replies: Mapping[str, tuple[int, bytes]], expected: Answers, status: int, answers: Answers, verdict: Verdict
) -> None:
    with server(replies) as endpoint:
        found = pooled_answer(endpoint, {}, expected)
    assert (found.status, found.answers, found.judgement.verdict) == (status, answers, verdict)


def test_no_server_is_no_answer() -> None:
    found = pooled_answer(Endpoint(url="http://127.0.0.1:9/v1", model="m", direct=True), {})
    assert (found.status, found.judgement.verdict) == (0, Verdict.ERROR)


def test_a_server_that_transcribes_gets_a_file_and_the_models_name() -> None:
    got: list[tuple[str, bytes]] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Content-Type"], body))
            said = b'{"text": "Hm."}' if self.path == "/v1/audio/transcriptions" else b"{}"
            self.send_response(200 if b"Hm." in said else 501)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
        endpoint = Endpoint(url=f"http://127.0.0.1:{found.server_port}/v1", model="a/speech", direct=True)
        heard, pooled = heard_answer(endpoint, {}), pooled_answer(endpoint, {})
        found.shutdown()
    assert (heard.status, heard.answers, heard.judgement.verdict) == (200, "audio/transcriptions", Verdict.OK)
    assert pooled.status == 501
    kind, body = got[0]
    assert kind.startswith("multipart/form-data; boundary=")
    parts = body.split(f"--{kind.partition('boundary=')[2]}".encode())
    assert len(parts) == 5  # three fields between what is before and behind them
    assert b'name="file"; filename="tone.wav"' in parts[1]
    assert parts[1].endswith(tone() + b"\r\n")
    assert b'name="model"\r\n\r\na/speech\r\n' in parts[2]


@pytest.mark.parametrize("said", ["audio/transcriptions", None])
def test_a_server_without_a_chat_is_asked_what_it_hears(said: Answers | None) -> None:
    """By its recipe at once; else behind a chat and what pools, which vLLM refuses by 501."""
    paths: list[str] = []

    class Handler(QuietHandler):
        def answer(self, status: int, body: bytes) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.answer(200, b'{"data": [{"id": "a/speech"}]}')

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            hears = self.path == "/v1/audio/transcriptions"
            self.answer(200 if hears else 501, b'{"text": ""}' if hears else b'{"error": "no"}')

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
        command = f"vllm serve a/speech --port {found.server_port}"
        container = node_container("127.0.0.1", "image", command, {})
        rendered = RenderedRecipe(runtime="vllm", image="image", script=None, serve=command, containers=(container,))
        nodes = nodes_of(("127.0.0.1",))
        settings = ContainerSettings()
        service = service_of(
            name="s", model="a/speech", rendered=rendered, nodes=nodes, mods=(), settings=settings, answers=said
        )
        answers, judgement = first_answer(service, {})
        found.shutdown()
    assert (answers, judgement.verdict) == ("audio/transcriptions", Verdict.OK)
    assert ("/v1/chat/completions" in paths) is (said is None)
