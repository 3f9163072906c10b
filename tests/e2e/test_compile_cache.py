"""A compile cache that machines share, for real: Debian's redis, and two engines of separate stores as two machines."""

import json
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import HTTPServer
from urllib.parse import quote, urlsplit

import pytest

from gb10.containers.connection import Engine
from gb10.core.config import variable
from gb10.core.store import open_store
from gb10.image.build.compile import with_user
from gb10.image.build.stage import log_path, ready_engine
from gb10.image.build.wheels import Wheel, build_wheels
from gb10.image.context import Context
from gb10.inside.compile.compile_cache import check_server
from tests.integration.nodes import Redis, another_engine, free_port, redis
from tests.integration.test_pipeline import ctx as ctx  # noqa: PLC0414 - a fixture
from tests.integration.test_pipeline import small_plan
from tests.quiet_handler import QuietHandler

pytestmark = pytest.mark.e2e

NAME = "flashinfer-jit-cache"
SECRET = f"a:b/@{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of its own: its store, its engine."""

    ctx: Context
    engine: Engine

    def compile(self, url: str, *rebuild: str) -> Wheel:
        """The wheel of one small module, with a compile cache."""
        ctx = replace(self.ctx, env={**self.ctx.env, variable("compile-cache"): url})
        return build_wheels(ctx, small_plan(ctx), lambda: self.engine, rebuild=rebuild)[0]


@pytest.fixture(scope="module")
def server(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with redis(ctx.store, tmp_path_factory.mktemp("redis"), SECRET) as found:
        yield found


@pytest.fixture(scope="module")
def second(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Another machine; what it would download is there by hard links."""
    folder = tmp_path_factory.mktemp("second")
    with another_engine(ctx.store, folder) as engine:
        store = open_store({"GB10_CACHE_DIR": str(folder)})
        for name in ("downloads", "rootfss"):
            shutil.copytree(ctx.store.root / name, store.root / name, copy_function=os.link, dirs_exist_ok=True)
        yield Machine(replace(ctx, store=store), engine)


def test_what_one_machine_compiled_another_does_not(
    ctx: Context, server: Redis, second: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    first = Machine(ctx, ready_engine(ctx)).compile(server.url, NAME)
    said = capfd.readouterr().err
    units = int(server.ask("dbsize")) // 2  # a list of what it includes, and its results
    assert f"compile cache redis://***@{urlsplit(server.url).netloc.partition('@')[2]}: the compile stage has a" in said
    assert f"compile cache: units: 0 from this builder, 0 from the server, {units} compiled" in said
    other = second.compile(server.url)
    assert f"units: 0 from this builder, {units} from the server, 0 compiled" in capfd.readouterr().err
    assert f"keyspace_hits:{2 * units}" in server.ask("info", "stats").splitlines()
    assert (other.hit, other.key, other.sha256) == (False, first.key, first.sha256)
    assert cpu_seconds(first) > 2  # nvcc and ptxas
    assert cpu_seconds(other) < 2
    history = second.ctx.store.root / "engine/data/buildkit"  # of builds, with what each was told
    told = [path for path in history.rglob("*") if path.is_file()]
    assert told
    for path in (*told, *(log_path(one.store, small_plan(one).of_kind("wheel")[0]) for one in (ctx, second.ctx))):
        content = path.read_bytes()
        assert SECRET.encode() not in content, path
        assert quote(SECRET, safe="").encode() not in content, path


def cpu_seconds(wheel: Wheel) -> float:
    modules = json.loads((wheel.path.parent / "measured.json").read_text(encoding="utf-8"))
    return float(sum(module["cpu_s"] for module in modules.values()))


def test_without_the_server_it_is_said_and_compiled(second: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    made = second.compile(f"redis://127.0.0.1:{free_port()}", NAME)
    said = capfd.readouterr().err
    assert "compile cache: no answer from the server (Connection refused): compiling without it" in said
    assert "0 from this builder, 0 from the server" in said
    assert cpu_seconds(made) > 2


def test_a_login_that_redis_refuses_is_told(server: Redis) -> None:
    assert check_server(urlsplit(with_user(server.url))) is None
    place = server.url.partition("@")[2]
    assert "refused AUTH (WRONGPASS" in (check_server(urlsplit(f"redis://default:wrong@{place}")) or "")
    assert "refused PING (NOAUTH" in (check_server(urlsplit(f"redis://{place}")) or "")


class Guarded(QuietHandler):
    """A web server that has nothing, for who has the login."""

    def do_GET(self) -> None:
        self.send_response(404 if self.headers["Authorization"] == "Basic dTpw" else 401)
        self.end_headers()


@contextmanager
def web_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Guarded) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}/cache"
        running.shutdown()


def test_a_web_server_is_asked_with_the_login(server: Redis) -> None:
    with web_server() as place:
        assert check_server(urlsplit(f"http://u:p@{place}")) is None
        assert "refused a GET (HTTP 401)" in (check_server(urlsplit(f"http://{place}")) or "")
    assert "no answer" in (check_server(urlsplit(f"http://{place}")) or "")
    assert "no answer" in (check_server(urlsplit(f"http://{server.url.partition('@')[2]}")) or "")
