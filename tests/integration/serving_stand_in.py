"""In a container: stands for ``vllm serve`` where no model is needed. It has the real one's options, ports and habits.

The model's name decides how it behaves: ``dies`` ends with a traceback while it loads, ``garbage`` answers floods,
``breaks`` fails at its first request,
``eats`` takes memory until something stops it, ``gulps`` does so at gigabytes a second, ``slow`` is healthy after a
while, ``phased`` says how far it is as vLLM does. As the real one, a headless worker
connects to the head and does not notice that it is gone.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("verb")
parser.add_argument("model")
parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - the real one's
parser.add_argument("--port", type=int, default=8000)
parser.add_argument("-tp", "--tensor-parallel-size", type=int, default=1)
parser.add_argument("--nnodes", type=int, default=1)
parser.add_argument("--node-rank", type=int, default=0)
parser.add_argument("--master-addr")
parser.add_argument("--master-port", type=int)
parser.add_argument("--headless", action="store_true")
parser.add_argument("--distributed-executor-backend")
parser.add_argument("--served-model-name")
parser.add_argument("--revision")
options, _ = parser.parse_known_args()  # the real one knows more
NAME = options.served_model_name or options.model
held: list[object] = []


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": NAME, "object": "model"}]}
        self.reply(json.dumps(models).encode() if self.path == "/v1/models" else b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "breaks" in NAME:
            print("(EngineCore pid=7) RuntimeError: no kernel image is available", file=sys.stderr, flush=True)
            self.begin("text/event-stream")
            self.wfile.write(b'data: {"error": {"message": "EngineCore failed"}}\n\n')
            return
        text = "!" * 3000 if "garbage" in NAME else f"You wrote: {asked['messages'][-1]['content'][:200]}"
        if not asked.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            self.reply(json.dumps({"choices": [choice]}).encode())
            return
        pieces = [{"delta": {"content": word}, "index": 0} for word in text.replace(" ", " \0").split("\0")]
        pieces.append({"delta": {}, "index": 0, "finish_reason": "stop"})
        self.begin("text/event-stream")
        for piece in pieces:  # a word each 4 ms
            self.wfile.write(f"data: {json.dumps({'choices': [piece]})}\n\n".encode())
            time.sleep(0.004)
        self.wfile.write(b"data: [DONE]\n\n")

    def reply(self, body: bytes) -> None:
        self.begin("application/json", len(body))
        self.wfile.write(body)

    def begin(self, kind: str, size: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.end_headers()


def meet() -> None:
    """The head waits for all workers; a worker tries until the head listens."""
    if options.nnodes == 1:
        return
    if options.node_rank == 0:
        listening = socket.create_server((options.master_addr, options.master_port))
        while len(held) < options.nnodes - 1:
            held.append(listening.accept())
            print(f"{len(held) + 1} of {options.nnodes} nodes are there", flush=True)
        return
    while True:
        try:
            held.append(socket.create_connection((options.master_addr, options.master_port)))
            return
        except OSError:
            time.sleep(0.1)


def eat(size: int, pause: float) -> None:
    while True:
        held.append(bytearray(b"x") * size)
        time.sleep(pause)


def look_at_files() -> None:
    """The files of a commit, as the Hub's client finds them, and whether this process may change them."""
    hub = os.environ.get("HF_HOME", "/var/cache/gb10/huggingface") + "/hub"
    folder = f"{hub}/models--{options.model.replace('/', '--')}/snapshots/{options.revision}"
    with open(f"{folder}/config.json", encoding="utf-8") as stream:  # noqa: PTH123
        print(f"offline {os.environ.get('HF_HUB_OFFLINE')}: {stream.read()}", flush=True)
    try:
        os.unlink(f"{folder}/config.json")  # noqa: PTH108
        print("the files can be changed", flush=True)
    except OSError as error:
        print(f"not changed: {error.strerror}", flush=True)


if options.revision:
    look_at_files()
print(f"loading {options.model}, rank {options.node_rank} of {options.nnodes}", flush=True)
meet()
if "dies" in NAME:
    print('Traceback (most recent call last):\n  File "engine.py", line 7, in load', file=sys.stderr)
    print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", file=sys.stderr)
    sys.exit("RuntimeError: Engine core initialization failed. See root cause above.")
time.sleep(3 if "slow" in NAME else 0)
if options.headless:
    print("worker ready", flush=True)
    time.sleep(3600)
if "eats" in NAME or "gulps" in NAME:
    how = (8 << 20, 0.25) if "eats" in NAME else (16 << 20, 0.0)
    threading.Thread(target=eat, args=how, daemon=True).start()
if "phased" in NAME:
    for line in ("vLLM API server version 0.33.0", "Starting to load model", "Application startup complete."):
        print(f"INFO 11-27 10:00:00 [stand_in.py:1] {line}", flush=True)
        time.sleep(0.3)
ThreadingHTTPServer((options.host, options.port), Page).serve_forever()
