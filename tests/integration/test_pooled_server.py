"""A server that pools is asked on the path that it has; engines refuse the other one by different codes."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

import pytest

from gb10.serving.guard.finding import Verdict
from gb10.serving.load.endpoint import Endpoint
from gb10.serving.run.pooled_answer import pooled_answer
from gb10.serving.run.service import Answers
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
