"""A serving endpoint for tests: right answers, 13 kinds of garbage, 11 faults, by the name of the model.

    python3 -m bootstrap tests/integration/openai_server.py --port 8000 --rate 200
    ./build.py bench serve localhost:8000 --model good

It answers canaries as a model would, and anything else with prose. Each model below is served.
"""

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benches.guard.collapse import COLLAPSES, SALADS, collapsed, seeded, tokens
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.canary import Fact, read_facts
from gb10.serving.guard.delta import REASONING
from tests.quiet_handler import QuietHandler

KINDS = (
    ("!", "line end", "NUL", "U+FFFD", "word", "Chinese character", "two tokens", "bytes", "scripts", "loop of 200"),
    ("word salad", "soup of a dozen tokens"),
)
GARBAGE: Final = {
    **{f"garbage: {name}": COLLAPSES[name] for name in KINDS[0]},
    **{f"garbage: {name}": SALADS[name] for name in KINDS[1]},
}
CROSSED: Final = "garbage: another's answer"
FAULTS: Final = (
    "error 500",
    "error in the stream",
    "dropped",
    "no end mark",
    "no finish reason",
    "unreadable event",
    "silent",
    "wrong usage",
    "no usage",
    "endless event",
    "no stream",
)
DIALECTS: Final = ("good", "reasoning", "reasoning_content", "both spellings", "speculation", "luck", "forgetful")
MODELS: Final = (*DIALECTS, *GARBAGE, CROSSED, *(f"fault: {name}" for name in FAULTS))
PROSE: Final = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
FACTS: Final = read_facts((ROOT / "recipes/guard/facts.toml").read_text(encoding="utf-8"))
BATCH: Final = "garbage in batches"
"""Right alone; of several requests at once, all but the first collapse into "!": the n = 8 of a broken kernel."""

UNSTEADY: Final = "another answer each time"
"""Right about a code; to one question it writes another text each time."""

IDLE_S = 2.5
"""An idle connection is closed after this time, as servers do: vLLM's after 5 s."""


@dataclass(slots=True)
class State:
    """What the requests of a server share."""

    rate: float = 0.0
    """Tokens a second of each stream; 0 is as fast as it goes."""
    pieces: int = 0
    """Bytes of a chunk of the transfer; 0 is an event a chunk."""
    start: str = "0"
    """Names this start of the server: its speed, and the luck of its drafts, depend on it."""
    spread: float = 0.0
    """How much starts differ in speed."""
    only: str = ""
    """The one model that it lists; empty is all."""
    release: str = ""
    """Of the vLLM that it says it is; empty says nothing."""
    drafts: int = 0
    accepted: int = 0
    key: str = ""
    lock: Lock = field(default_factory=Lock)
    running: int = 0
    nonces: list[str] = field(default_factory=list)
    asked: list[dict[str, object]] = field(default_factory=list)
    prompts: dict[str, int] = field(default_factory=dict)
    """The prompts without a code, in the order in which they came: each has a text of its own."""

    @property
    def step(self) -> float:
        """Seconds of a step of this start; 0 is as fast as it goes."""
        return math.exp(-seeded(self.start).gauss(0, self.spread)) / self.rate if self.rate else 0.0


class Handler(QuietHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    state: State
    counted = False
    """Whether its request is among those that run."""

    def do_GET(self) -> None:
        """Health, counters as vLLM names them, or the list of models."""
        if self._refused():
            return
        if self.path == "/health":
            self._whole(200, {})
            return
        if self.path == "/metrics":
            self._text(200, counters(self.state), "text/plain; version=0.0.4")
            return
        if self.path == "/version" and self.state.release:
            self._whole(200, {"version": self.state.release})
            return
        if not self.path.endswith("/models"):
            self._whole(404, {"detail": "Not Found"})
            return
        names = [self.state.only] if self.state.only else [*MODELS, BATCH]
        self._whole(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    def do_POST(self) -> None:
        """A chat completion, streamed or not."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        with self.state.lock:
            self.state.running += 1
            self.counted = True
            place = self.state.running
            self.state.asked.append(body)
        try:
            self._answer(body, place)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self._leave()

    def _leave(self) -> None:
        """Count the request no longer, as engines do before they send its end: the next one may come at once."""
        if self.counted:
            self.counted = False
            with self.state.lock:
                self.state.running -= 1

    def _refused(self) -> bool:
        wrong = bool(self.state.key) and self.headers.get("Authorization") != f"Bearer {self.state.key}"
        if wrong:
            self._whole(401, {"error": {"message": "invalid key"}})
        return wrong

    def _answer(self, body: dict[str, object], place: int) -> None:
        model, fault = str(body["model"]), str(body["model"]).removeprefix("fault: ")
        if model not in (*MODELS, BATCH, UNSTEADY):
            self._whole(404, {"error": {"message": f"The model `{model}` does not exist."}})
            return
        if fault == "error 500":
            self._whole(500, {"error": {"message": "CUDA error: an illegal memory access was encountered"}})
            return
        most = body.get("max_tokens", body.get("max_completion_tokens"))
        said = answer(model, prompt_of(body), self.state, place)[: most if isinstance(most, int) else 256]
        if fault == "no stream" or not body.get("stream"):
            usage = {"prompt_tokens": 9, "completion_tokens": len(said)}
            message = {"role": "assistant", "content": "".join(said)}
            self._leave()
            self._whole(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        due, step = time.monotonic(), self.state.step
        for event in events(model, said, prompt_of(body), self.state, thinks=thinks(body)):
            if event is None:  # the connection breaks
                self.close_connection = True
                self.connection.close()
                return
            if "[DONE]" in event:
                self._leave()
            self._chunks(event)
            # By the clock, not by sleeps: a machine under load must not slow it down. Nor may it catch up in a burst.
            due = max(due, time.monotonic() - 3 * step) + step
            time.sleep(max(0.0, due - time.monotonic()))
            if fault == "silent" and '"content"' in event:
                time.sleep(3)
        self.wfile.write(b"0\r\n\r\n")

    def _chunks(self, text: str) -> None:
        raw = text.encode()
        size = self.state.pieces or len(raw)
        for at in range(0, len(raw), size):
            piece = raw[at : at + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def _whole(self, status: int, document: object) -> None:
        self._text(status, json.dumps(document), "application/json")

    def _text(self, status: int, text: str, kind: str) -> None:
        raw = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def prompt_of(body: dict[str, object]) -> str:
    """The last message's text."""
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    return str(last.get("content", ""))


def thinks(body: dict[str, object]) -> bool:
    """Whether the chat template lets the model think, as Qwen3's does."""
    variables = body.get("chat_template_kwargs")
    return not (isinstance(variables, dict) and variables.get("enable_thinking") is False)


def answer(model: str, prompt: str, state: State, place: int) -> list[str]:
    """The tokens of an answer."""
    rng = seeded(f"{model} {prompt}")
    if model in GARBAGE or (model == BATCH and place > 1):
        return collapsed("", 0, GARBAGE.get(model, COLLAPSES["!"]), rng, 4000)
    code = re.findall(r"Code: (\S+)", prompt)
    if not code:
        with state.lock:
            known = f"{prompt} {len(state.prompts)}" if model == UNSTEADY else prompt
            number = state.prompts.setdefault(known, len(state.prompts))
        start = number % (len(PROSE) // 2000 - 1) * 2000  # two answers are one text, or share nothing
        return list(tokens(PROSE[start : start + 8000], rng))
    fact = next((fact for fact in FACTS if fact.ask in prompt), Fact(ask="", accept=("",)))
    nonce = code[-1]
    if model == CROSSED:
        with state.lock:
            state.nonces.append(nonce)
            nonce = state.nonces[-2] if len(state.nonces) > 1 else nonce
    if model == "forgetful":
        nonce = ""
    return list(tokens(f"{nonce}\n{fact.accept[0]}.", rng))


def counters(state: State) -> str:
    """The counters of drafts, as vLLM 0.33 writes them."""
    name = "vllm:spec_decode_num"
    return "".join(
        f'# TYPE {one} counter\n{one}{{engine="0",model_name="m"{more}}} {value}\n'
        for one, more, value in (
            (f"{name}_drafts_total", "", state.drafts),
            (f"{name}_accepted_tokens_total", "", state.accepted),
            (f"{name}_accepted_tokens_per_pos_total", ',position="0"', state.accepted),
            ("vllm:num_preemptions_total", "", 0),
        )
    )


def steps_of(model: str, said: list[str], state: State) -> list[list[str]]:
    """The tokens of each step. ``luck``: one or two, the share of twos being the luck of this start."""
    if model != "luck":
        width = 3 if model == "speculation" else 1
        return [said[at : at + width] for at in range(0, len(said), width)]
    rng = seeded(f"luck {state.start} {len(state.prompts)}")
    lucky = seeded(f"share {state.start}").uniform(0.35, 0.65)
    found, left = [], list(said)
    while left:
        take = 2 if rng.random() < lucky else 1
        found.append(left[:take])
        del left[:take]
    with state.lock:
        state.drafts += len(found)
        state.accepted += len(said) - len(found)
    return found


def events(model: str, said: list[str], prompt: str, state: State, *, thinks: bool = True) -> Iterator[str | None]:
    """The events of a stream, as text; None breaks the connection."""
    fault = model.removeprefix("fault: ")
    yield event(delta={"role": "assistant", "content": ""})
    steps = steps_of(model, said, state)
    asked = "The user gives a code and asks a question. " if prompt else ""
    thoughts = list(thought(model, asked)) if thinks else []
    yield from thoughts
    for at, step in enumerate(steps):
        if at == 3 and fault == "dropped":
            yield None
        if at == 3 and fault == "error in the stream":
            yield f"data: {json.dumps({'error': {'message': 'EngineCore encountered an issue', 'code': 500}})}\n\n"
            break
        if at == 3 and fault == "unreadable event":
            yield 'data: {"choices": [{"delta": {"content": "\n\n'
        if at == 3 and fault == "endless event":
            yield from ["data: " + "x" * (1 << 20)] + ["x" * (1 << 20)] * 6
        yield event(delta={"content": "".join(step)})
    if fault not in ("no finish reason", "error in the stream"):
        yield event(delta={}, finish_reason="stop")
    if fault != "no usage":
        count = {"wrong usage": 20 * len(said)}.get(fault, len(said) + len(thoughts))
        yield f"data: {json.dumps({'choices': [], 'usage': {'prompt_tokens': 9, 'completion_tokens': count}})}\n\n"
    if fault not in ("no end mark", "error in the stream"):
        yield "data: [DONE]\n\n"


def thought(model: str, text: str) -> Iterator[str]:
    """Reasoning, in the spelling that the model's name says."""
    names = REASONING if model == "both spellings" else (model,) if model in REASONING else ()
    for word in text.split(" ") if names else ():
        yield event(delta=dict.fromkeys(names, f"{word} "))


def event(*, delta: dict[str, str], finish_reason: str | None = None) -> str:
    """One event."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [choice]}, ensure_ascii=False)}\n\n"


class Server(ThreadingHTTPServer):
    """Python's own queue is 5 connections long: of 15 to 30 at once some broke."""

    request_queue_size = 128
    daemon_threads = True


@contextmanager
def serving(rate: float = 0.0, pieces: int = 0, key: str = "") -> Iterator[tuple[str, State]]:
    """A server on a free port while the context lasts: its URL and its state."""
    state = State(rate=rate, pieces=pieces, key=key)
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"state": state}))
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def started(path: Path | None) -> str:
    """The name of this start: how many there were before, where a file counts them."""
    if path is None:
        return str(time.time_ns())
    with path.open("a+", encoding="ascii") as counted:
        counted.write("x")
        return str(counted.tell())


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--rate", type=float, default=200.0, help="steps a second of each stream")
    parser.add_argument("--spread", type=float, default=0.0, help="how much starts differ in speed")
    parser.add_argument("--starts", type=Path, help="a file that counts starts: the same luck in the same order")
    parser.add_argument("--only", default="", help="the one model that it lists")
    parser.add_argument("--release", default="", help="the release of vLLM that it says it is")
    parser.add_argument("--drafts", type=int, default=0, help="how many drafts its counter has")
    asked = parser.parse_args()
    state = State(rate=asked.rate, spread=asked.spread, only=asked.only, start=started(asked.starts))
    state.release, state.drafts = asked.release, asked.drafts
    Server(("127.0.0.1", asked.port), type("Bound", (Handler,), {"state": state})).serve_forever()


if __name__ == "__main__":
    main()
