"""What goes wrong with an endpoint is one sentence with its remedy, for every verb that measures one."""

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gb10.cli import main
from gb10.serving.load_generator.endpoint import Endpoint, reach
from gb10.serving.load_generator.server_pages import counter_gains, counters, server_facts
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.nodes import free_port
from tests.integration.openai_server import Handler, State, serving

pytestmark = pytest.mark.integration
LOAD = ("--pp", "60", "--tg", "40", "-c", "1", "--runs", "1", "--warm-up", "0", "--canary-tokens", "48")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_byte_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"))


@contextmanager
def over_tls(folder: Path) -> Iterator[str]:
    """A server with a certificate for 127.0.0.1 that nobody vouches for."""
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*request, *files, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"state": State(only="good")}))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """The error and what follows it."""
    return capsys.readouterr().err.partition("error: ")[2]


@pytest.mark.parametrize("verb", ["serve", "quality"])
def test_an_endpoint_that_is_down(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", verb, f"127.0.0.1:{free_port()}"]) == 11
    assert said(capsys).startswith("the endpoint does not answer\n")


def test_two_endpoints_of_which_one_is_down_are_not_compared(
    tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with serving() as (url, _):
        more = ["--model", "good", "--tokenizer", tokenizer, "--out", str(out)]
        assert main(["bench", "compare", url, f"127.0.0.1:{free_port()}", *more]) == 11
    assert said(capsys).startswith("the endpoint does not answer\n")
    assert not out.exists()


def test_a_model_that_it_does_not_serve(tokenizer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as (url, _):
        assert main(["bench", "serve", url, "--model", "gpt-7", "--tokenizer", tokenizer]) == 2
    assert said(capsys).startswith("the endpoint does not serve 'gpt-7'\n")


def test_a_key_that_is_missing(tokenizer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(key="sesame") as (url, _):
        assert main(["bench", "quality", url]) == 11
    text = said(capsys)
    assert text.startswith("the endpoint wants a key (401")
    assert "OPENAI_API_KEY" in text


@pytest.mark.slow
def test_a_certificate_that_nobody_vouches_for_and_one_that_the_user_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with over_tls(tmp_path) as url:
        assert main(["bench", "quality", url]) == 11
        text = said(capsys)
        assert text.startswith("the endpoint's certificate is not trusted")
        assert "SSL_CERT_FILE" in text
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert main(["bench", "quality", url, "--with", "canaries"]) == 0
        assert capsys.readouterr().out.startswith("64 of 64 right")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("fault: dropped", "the connection broke"),
        ("fault: no end mark", "the stream ended without [DONE]"),
        ("fault: error in the stream", "EngineCore encountered an issue"),
    ],
)
def test_half_a_stream(model: str, words: str, tokenizer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(rate=400) as (url, _):
        assert main(["bench", "serve", url, "--model", model, "--tokenizer", tokenizer, *LOAD]) == 9
    text = said(capsys)
    assert text.startswith("the answers are ")
    assert words in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["serve", "--tool", "aiperf"], "aiperf is not installed\n"),
        (["quality", "--with", "lm-eval"], "lm-eval is not installed\n"),
        (["quality", "--with", "tool-eval-bench"], "tool-eval-bench is not installed\n"),
    ],
)
def test_extras_that_are_not_installed(
    options: list[str], words: str, tokenizer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    more = ["--tokenizer", tokenizer] if options[0] == "serve" else []
    with serving() as (url, _):
        assert main(["bench", options[0], url, "--model", "good", *options[1:], *more]) == 2
    text = said(capsys)
    assert text.startswith(words)
    assert "pip install" in text


def test_quality_that_is_too_low_is_exit_9(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as (url, _):
        assert main(["bench", "quality", url, "--model", "forgetful", "--with", "canaries", "--least", "50"]) == 9
    assert said(capsys) == "0% of the answers are right, fewer than 50 %\n"


def test_the_counters_of_a_server_are_read() -> None:
    with serving() as (url, state):
        endpoint = reach(url, "luck", {})
        before = counters(endpoint, {})
        state.drafts, state.accepted = 50, 20
        found = counter_gains(before, counters(endpoint, {}))
        assert (found.tokens_per_draft, found.accepted, found.preempted) == (1.4, (0.4,), 0)
        assert server_facts(endpoint, {}) == {}
    gone = Endpoint(url=url, model="m")
    assert (counters(gone, {}), server_facts(gone, {})) == ({}, {})
