"""``--patch URL`` against a real web server: fetched once, pinned, bounded, and refused where it leads elsewhere."""

import gzip
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from gb10.core import http_session
from gb10.errors import FetchError, PatchError
from gb10.image.context import Context, open_context
from gb10.image.plan.plan_record import labels
from gb10.image.plan.values import Plan
from gb10.image.request.planning import Request, make_plan
from gb10.sources import web
from tests.quiet_handler import QuietHandler

pytestmark = pytest.mark.integration

DIFF = b"--- /dev/null\n+++ b/vllm/new_thing.py\n@@ -0,0 +1,1 @@\n+x = 1\n"
SHA256 = hashlib.sha256(DIFF).hexdigest()


@dataclass
class Site:
    """A web server with these pages; ``seen``: the paths that were asked for."""

    address: str = ""
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    pause: float = 0.0
    """Seconds between two bytes."""


@pytest.fixture
def site() -> Iterator[Site]:
    here = Site()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            here.seen.append(self.path)
            status, headers, body = here.pages.get(self.path, (404, {}, b"no such page"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # the client had enough
                for part in (body[place : place + 1] for place in range(len(body))) if here.pause else (body,):
                    self.wfile.write(part)
                    time.sleep(here.pause)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        here.address = f"http://127.0.0.1:{server.server_address[1]}"
        here.pages = {"/pull/7.diff": (200, {}, DIFF)}
        yield here
        server.shutdown()


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({**os.environ, "GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=0)


def planned(ctx: Context, *patches: str) -> Plan:
    return make_plan(ctx, Request(engine="vllm", arch="12.1f", patches=patches))


def test_a_diff_is_fetched_once_and_recorded(site: Site, ctx: Context, capfd: pytest.CaptureFixture[str]) -> None:
    url = f"{site.address}/pull/7.diff"
    first = planned(ctx, url)
    (use,) = (use for use in first.options.patches if use.path)
    assert (use.name, use.sha256, use.url, use.source) == ("7.diff", SHA256, url, "vllm")
    assert use.path == str(ctx.store.root / "downloads" / SHA256 / "7.diff")
    assert labels(first)["io.github.gb10.patch-url.1"] == f"{url}#sha256={SHA256}"
    assert f"fetched {url}#sha256={SHA256}" in capfd.readouterr().err
    assert not list((ctx.store.root / "tmp").iterdir())
    site.pages.clear()
    assert planned(ctx, f"vllm={url}") == first
    assert planned(ctx, f"{url}#sha256={SHA256}") == first
    assert site.seen == ["/pull/7.diff"]
    assert "to fetch it again, remove" in capfd.readouterr().err


def test_a_damaged_copy_and_another_diff_are_told(site: Site, ctx: Context, capfd: pytest.CaptureFixture[str]) -> None:
    url = f"{site.address}/pull/7.diff"
    planned(ctx, url)
    kept = ctx.store.root / "downloads" / SHA256 / "7.diff"
    kept.write_bytes(DIFF.replace(b"1\n", b"2\n"))
    site.pages["/pull/7.diff"] = (200, {}, DIFF.replace(b"x", b"y"))
    other = planned(ctx, url)
    assert {use.sha256 for use in other.options.patches if use.path} != {SHA256}
    said = capfd.readouterr().err
    assert "7.diff is damaged in the store" in said
    assert f"gave another diff before: sha256 {SHA256}" in said


def test_a_pinned_diff_is_that_one_or_none(site: Site, ctx: Context) -> None:
    with pytest.raises(FetchError, match="is not the diff that was pinned") as caught:
        planned(ctx, f"{site.address}/pull/7.diff#sha256={'0' * 64}")
    assert SHA256 in (caught.value.where or "")
    assert not (ctx.store.root / "urls").exists()
    assert not (ctx.store.root / "downloads").exists()


def test_a_packed_answer_is_unpacked_and_bounded(site: Site, ctx: Context) -> None:
    packed = {"Content-Encoding": "gzip"}
    site.pages["/p"] = (200, packed, gzip.compress(DIFF))
    assert {use.name for use in planned(ctx, f"{site.address}/p").options.patches if use.path} == {"p"}
    site.pages["/big"] = (200, packed, gzip.compress(b"+" * (64 << 20)))
    with pytest.raises(FetchError, match="has more than 8 MiB"):
        planned(ctx, f"{site.address}/big")
    site.pages["/damaged"] = (200, packed, b"no gzip")
    with pytest.raises(FetchError, match=r"cannot fetch .*/damaged"):
        planned(ctx, f"{site.address}/damaged")


def test_redirects_lead_to_no_other_kind_of_place(site: Site, ctx: Context) -> None:
    site.pages["/moved"] = (302, {"Location": "/pull/7.diff"}, b"")
    assert {use.sha256 for use in planned(ctx, f"{site.address}/moved").options.patches if use.path} == {SHA256}
    for target in ("file:///etc/passwd", "http://h.invalid/x", "ftp://h.invalid/x", "data:text/plain,x"):
        site.pages["/away"] = (302, {"Location": target}, b"")
        with pytest.raises(FetchError, match="it redirects to"):
            planned(ctx, f"{site.address}/away")
    site.pages["/away"] = (302, {"Location": "//["}, b"")
    with pytest.raises(FetchError, match="Invalid IPv6 URL"):
        planned(ctx, f"{site.address}/away")
    site.pages["/circle"] = (302, {"Location": "/circle"}, b"")
    with pytest.raises(FetchError, match="more than 5 redirects"):
        planned(ctx, f"{site.address}/circle")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ((200, {}, b"<!DOCTYPE html><html>"), "pull is a web page, not a diff"),
        ((200, {}, b""), "pull is empty"),
        ((200, {}, b"Not a diff"), "pull is not a diff"),
    ],
)
def test_what_is_no_diff_is_not_kept(
    site: Site, ctx: Context, page: tuple[int, dict[str, str], bytes], said: str
) -> None:
    site.pages["/pull"] = page
    with pytest.raises(PatchError, match=said):
        planned(ctx, f"{site.address}/pull")
    assert not (ctx.store.root / "urls").exists()


def test_a_server_that_answers_otherwise(site: Site, ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FetchError, match="the server answered 404") as caught:
        planned(ctx, f"{site.address}/none")
    assert "check the URL" in (caught.value.hint or "")
    monkeypatch.setattr(http_session, "open_session", lambda env: requests.Session())  # tries once
    with pytest.raises(FetchError, match="the server cannot be reached"):
        planned(ctx, "http://localhost:9/1.diff")
    monkeypatch.undo()
    monkeypatch.setattr(web, "DEADLINE", 0.5)
    site.pause = 0.1
    with pytest.raises(FetchError, match="not done in"):
        planned(ctx, f"{site.address}/pull/7.diff")


@pytest.mark.parametrize("asked", ["3600", "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_a_server_that_asks_for_an_hour_is_asked_again_soon(
    site: Site, ctx: Context, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], asked: str
) -> None:
    monkeypatch.setattr(http_session, "MOST_WAIT", 0.1)
    monkeypatch.setattr(http_session, "LONG_WAIT", 0.1)
    site.pages["/busy"] = (503, {"Retry-After": asked}, b"")
    with pytest.raises(FetchError):
        planned(ctx, f"{site.address}/busy")
    assert f"the server answers 503 (Retry-After: {asked}): trying again in" in capfd.readouterr().err


def test_the_deadline_counts_the_waits_between_tries(site: Site, ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "DEADLINE", 0.5)
    site.pages["/busy"] = (503, {"Retry-After": "3600"}, b"")
    with pytest.raises(FetchError, match="not done in"):
        planned(ctx, f"{site.address}/busy")
