"""``bench serve`` with the real llama-benchy against a server that is right, broken in batches, or talks nonsense."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gb10.cli import main
from gb10.core.proc import CommandFailedError, capture
from gb10.core.store import open_store
from gb10.errors import FetchError
from gb10.image.context import open_context
from gb10.image.plan.catalog import ROOT
from gb10.serving.load_generator.benchy import CONNECTIONS, install
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.openai_server import BATCH, IDLE_S, State, serving

pytestmark = pytest.mark.integration
SCHEMA = json.loads((ROOT / "docs/schemas/serve-v1.schema.json").read_text(encoding="utf-8"))
RATE = 75


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, State]]:
    with serving(rate=RATE) as running:
        yield running


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_byte_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


def bench(server: tuple[str, State], model: str, tokenizer: Path, out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document."""
    words = (
        "--model",
        model,
        "--tokenizer",
        str(tokenizer),
        "--pp",
        "200",
        "--tg",
        "90",
        "--canary-tokens",
        "64",
        "--out",
        str(out),
        *more,
    )
    code = main(["bench", "serve", server[0], *words])
    document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    return code, document


@pytest.mark.slow
def test_a_good_server_has_figures_that_llama_benchy_confirms(
    server: tuple[str, State], tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = bench(
        server, "speculation", tokenizer, tmp_path / "r.json", "-c", "2", "--runs", "2", "--boot", "b"
    )
    (level,) = document["levels"]
    assert (code, document["verdict"], document["boot"]) == (0, "OK", "b")
    assert [(batch["when"], batch["right"]) for batch in level["canaries"]] == [
        ("before", 2),
        ("beside", 2),
        ("after", 2),
    ]
    assert [run["warm_up"] for run in level["runs"]] == [True, False, False]
    theirs = level["generator"]["tg_throughput"]["values"]
    assert [run["tok_s"] for run in level["runs"]] == pytest.approx(
        theirs, rel=0.5
    )  # two clocks, which see other waits
    assert {run["tokens_per_step"] for run in level["runs"]} == {3}
    assert all(run["steps_s"] > 0 for run in level["runs"])
    assert "6 of 6 right" in capsys.readouterr().out


@pytest.mark.slow
def test_garbage_that_only_batches_show_is_refused_at_that_level(
    server: tuple[str, State], tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("-c", "1", "-c", "4", "--runs", "1", "--warm-up", "0", "--json")
    code, document = bench(server, BATCH, tokenizer, tmp_path / "r.json", *more)
    assert code == 9
    assert [level["verdict"] for level in document["levels"]] == ["OK", "GARBAGE"]
    assert document["levels"][1]["generator"] == {}
    said = capsys.readouterr()
    assert json.loads(said.out) == document
    assert "the answers are GARBAGE" in said.err


WANTED = {
    "garbage: word salad": ("GARBAGE", "have neither code nor answer"),
    "garbage: another's answer": ("GARBAGE", "have the code of another request"),
    "fault: error in the stream": ("ERROR", "EngineCore encountered an issue"),
    "forgetful": ("SUSPECT", "are wrong; one at a time 0 of 8 were right"),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", WANTED)
def test_what_no_throughput_shows_has_its_verdict(
    server: tuple[str, State], tokenizer: Path, tmp_path: Path, model: str
) -> None:
    verdict, words = WANTED[model]
    more = ("-c", "2", "--runs", "1", "--warm-up", "0")
    code, document = bench(server, model, tokenizer, tmp_path / "r.json", *more)
    assert (document["verdict"], code) == (verdict, 0 if verdict == "SUSPECT" else 9)
    assert words in document["why"]


FIELDS = {"top_k": 20, "chat_template_kwargs": {"a": [1, 2], "b": "c, d"}}


@pytest.mark.slow
def test_several_lengths_are_blocks_and_every_request_has_the_users_fields(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that thinks by its template does not: of the load's requests and of the canaries."""
    more = ["-c", "1", "-c", "2", "--tg", "40", "--runs", "1", "--warm-up", "0", "--no-thinking"]
    with serving(rate=400) as server:
        extra = ["--extra-body", json.dumps(FIELDS), "--extra-body", "seed=7"]
        code, document = bench(server, "reasoning", tokenizer, tmp_path / "r.json", *more, *extra)
        asked = [
            body for body in server[1].asked if body.get("stream")
        ]  # llama-benchy counts the template's tokens first
    wanted = {**FIELDS, "seed": 7}
    wanted["chat_template_kwargs"] = {"a": [1, 2], "b": "c, d", "enable_thinking": False}
    assert [{name: body.get(name) for name in wanted} for body in asked] == [wanted] * len(asked)
    assert {body["max_tokens"] for body in asked} == {64, 90, 40}
    assert (code, document["settings"]["answer"], document["settings"]["extra"]) == (0, [90, 40], wanted)
    places = [(level["answer"], level["concurrency"]) for level in document["levels"]]
    assert places == [(90, 1), (90, 2), (40, 1), (40, 2)]
    for level in document["levels"]:
        (run,) = level["runs"]
        assert {stream["tokens"] for stream in run["streams"]} == {level["answer"]}
    table = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert [row for row in table if row and row[0] in ("90", "40")] == [[str(a), str(b)] for a, b in places]
    assert main(["bench", "show", str(tmp_path / "r.json"), "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page.index("Figures, 90 tokens out") < page.index("Figures, 40 tokens out")
    assert "200 tokens in, 90, 40 out" in page


def test_a_model_that_thinks_sends_its_thoughts_unless_it_is_told_not_to(tokenizer: Path, tmp_path: Path) -> None:
    """What the option changes, held against the same load without it."""
    tokens = []
    for more in ([], ["--no-thinking"]):
        with serving() as server:
            words = ["-c", "1", "--runs", "1", "--warm-up", "0", *more]
            _, document = bench(server, "reasoning", tokenizer, tmp_path / "r.json", *words)
        tokens.append(document["levels"][0]["runs"][0]["streams"][0]["tokens"])
    assert tokens == [100, 90]


def test_a_key_reaches_the_server_and_no_file(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame-4711")
    with serving(key="sesame-4711") as server:
        code, document = bench(
            server, "good", tokenizer, tmp_path / "r.json", "-c", "1", "--runs", "1", "--warm-up", "0"
        )
    logs = [path.read_text(encoding="utf-8") for path in (open_store(os.environ).root / "logs").glob("load-*.log")]
    said = capsys.readouterr()
    assert code == 0
    assert logs
    assert "sesame-4711" not in "".join((*logs, json.dumps(document), said.out, said.err))


BUSY = """
import asyncio, sys, time
async def main(url, busy):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(keepalive_timeout=600)) as session:
        async with session.get(url + "/v1/models") as response:
            model = (await response.json())["data"][0]["id"]
        time.sleep(busy)
        asked = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
        async with session.post(url + "/v1/chat/completions", json=asked) as response:
            print(response.status)
asyncio.run(main(sys.argv[2], float(sys.argv[3])))
"""
"""As llama-benchy: it keeps connections, and its event loop stands still while it cuts prompts."""


@pytest.mark.slow
@pytest.mark.parametrize(("connections", "ending"), [(CONNECTIONS, "200"), ("import aiohttp", "Server disconnected")])
def test_a_load_that_was_busy_with_its_prompts_meets_no_closed_connection(
    server: tuple[str, State], connections: str, ending: str
) -> None:
    site = install(open_context(os.environ, verbosity=-1))
    program = f"import sys\nsys.path.insert(0, sys.argv[1])\n{connections}\n{BUSY}"
    argv = [sys.executable, "-I", "-S", "-c", program, str(site), server[0], str(IDLE_S + 0.5)]
    if ending == "200":
        assert capture(argv).strip() == ending
    else:
        with pytest.raises(CommandFailedError) as failed:
            capture(argv)
        assert ending in failed.value.tail


def test_an_index_without_llama_benchy_is_one_sentence(
    server: tuple[str, State], tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())
    (tmp_path / "empty").mkdir()
    with pytest.raises(FetchError, match=r"cannot install llama-benchy 0\.4\.0"):
        install(open_context(os.environ, verbosity=-1))
    assert main(["bench", "serve", server[0], "--model", "good", "--tokenizer", str(tokenizer)]) == 5
