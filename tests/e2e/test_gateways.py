"""What docs/deploy.md has for Prometheus and LiteLLM, taken from the page and run beside a real server."""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import requests
import yaml

from gb10.containers.packages import fetch_packages
from gb10.core.proc import background, capture
from gb10.core.store import Store
from gb10.image.context import build_architecture
from tests.e2e.test_real_server import HERE, LOOPS
from tests.e2e.vllm_cpu import PLATFORMS
from tests.hang import until
from tests.integration.nodes import free_port
from tests.integration.pinned import pinned

pytestmark = pytest.mark.e2e
PAGE: Final = HERE.parents[1] / "docs/deploy.md"
DOCUMENTED: Final = "spark-1:8000"
MODEL: Final = "Qwen/Qwen3-0.6B"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Where llama.cpp's server listens."""
    argv = [sys.executable, str(HERE / "inside/real_server.py"), str(pinned("real-server", HERE / "real-server.txt"))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout
        try:
            address = next(line.split()[1] for line in child.stdout if line.startswith("listening "))
            yield address.removeprefix("http://")
        finally:
            child.terminate()


def documented(key: str, server: str) -> list[dict[str, Any]]:
    """The block of the page that has this key, with this server's address and model in place of the example's."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if f"{key}:" in block]
    return list(yaml.safe_load(block.replace(DOCUMENTED, server).replace(MODEL, "smollm2-135m")))


def answer(url: str, body: Mapping[str, object], key: str = "") -> dict[str, Any]:
    found = requests.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=120)
    assert found.ok, found.text
    return dict(found.json())


def test_prometheus_scrapes_the_server(server: str, store: Store, tmp_path: Path) -> None:
    with fetch_packages(store, os.environ, ("prometheus", "promtool"), build_architecture()) as programs:
        for deb in programs:
            capture(["dpkg-deb", "--extract", str(deb), str(tmp_path)])
    config, port = tmp_path / "prometheus.yml", free_port()
    text = {"global": {"scrape_interval": "1s"}, "scrape_configs": documented("job_name", server)}
    config.write_text(yaml.safe_dump(text), encoding="utf-8")
    assert "SUCCESS" in capture([str(tmp_path / "usr/bin/promtool"), "check", "config", str(config)])
    argv = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"]
    asked = {"messages": [{"role": "user", "content": LOOPS}], "max_tokens": 8}
    answer(f"http://{server}/v1/chat/completions", asked)
    with background([str(tmp_path / "usr/bin/prometheus"), *argv], log=tmp_path / "log"):
        until(lambda: scraped(port) >= 8, "a scrape that counts the tokens")


def scraped(port: int) -> float:
    """The tokens that the server made, as Prometheus knows it."""
    query = {"query": 'llamacpp:tokens_predicted_total{job="gb10"}'}
    try:
        found = requests.get(f"http://127.0.0.1:{port}/api/v1/query", params=query, timeout=5).json()["data"]["result"]
    except (requests.ConnectionError, requests.JSONDecodeError):  # it starts, and answers 503 in words
        return 0
    return float(found[0]["value"][1]) if found else 0


def test_litellm_hands_requests_on(server: str, tmp_path: Path) -> None:
    """It refuses to start without a key, so the page shows one."""
    config, port, key = tmp_path / "litellm.yaml", free_port(), f"sk-{secrets.token_hex(32)}"
    (model,) = documented("model_name", server)
    config.write_text(yaml.safe_dump({"model_list": [model]}), encoding="utf-8")
    site = pinned("litellm", HERE / "litellm.txt", python="3.11", platform=PLATFORMS)
    environment = [f"PYTHONPATH={site}", f"LITELLM_MASTER_KEY={key}"]
    argv = [
        "python3.11",
        str(site / "bin/litellm"),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    log = tmp_path / "log"
    with background(["env", *environment, *argv], log=log) as alive:
        until(lambda: "startup complete" in log.read_text(encoding="utf-8") or not alive(), "LiteLLM", seconds=180)
        asked = {"model": model["model_name"], "messages": [{"role": "user", "content": LOOPS}], "max_tokens": 8}
        found = answer(f"http://127.0.0.1:{port}/v1/chat/completions", asked, key)
    assert found["choices"][0]["message"]["content"], found
    assert found["usage"]["completion_tokens"] == 8
