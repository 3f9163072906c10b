"""Project pages in both forms of the simple API, and folders that answer like one."""

import gzip
import hashlib
import io
import json
import os
from pathlib import Path

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from gb10.core.files import Artifact
from gb10.errors import FetchError
from gb10.sources.index.client import LARGEST_HTML, locate, open_index_session, read_page, sources
from gb10.sources.index.page import JSON_TYPE, Link, parse_page
from gb10.sources.index.pip_settings import IndexSettings

BASE = "https://index.invalid/simple/a/"


def test_html() -> None:
    page = """<html><a href="../../f/a-1%2Bx-py3-none-any.whl#sha256=ab" data-yanked="bad">a-1+x</a>
              <a href="https://other.invalid/a-1.tar.gz?q=1#md5=cd">a</a></html>"""
    assert parse_page(page, "text/html; charset=utf-8", BASE) == (
        Link(
            filename="a-1+x-py3-none-any.whl",
            url="https://index.invalid/f/a-1%2Bx-py3-none-any.whl",
            sha256="ab",
            yanked=True,
        ),
        Link(filename="a-1.tar.gz", url="https://other.invalid/a-1.tar.gz?q=1"),
    )


def test_html_base() -> None:
    page = '<base href="https://cdn.invalid/x/"><a href="a-1.tar.gz">a</a>'
    assert parse_page(page, "text/html", BASE)[0].url == "https://cdn.invalid/x/a-1.tar.gz"


def test_json() -> None:
    entry = {
        "filename": "a-1.tar.gz",
        "url": "../../f/a-1.tar.gz",
        "hashes": {"sha256": "ab"},
        "size": 7,
        "yanked": False,
    }
    text = json.dumps({"meta": {"api-version": "1.1"}, "files": [entry]})
    (link,) = parse_page(text, JSON_TYPE, BASE)
    assert link == Link(filename="a-1.tar.gz", url="https://index.invalid/f/a-1.tar.gz", sha256="ab", size=7)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A find-links folder and a file:// index with files of one name and other bytes."""
    for folder, content in (("find links", b"local build"), ("index/a", b"index build")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a-1-py3-none-any.whl").write_bytes(content)
    digest = hashlib.sha256(b"index build").hexdigest()
    page = f'<a href="a-1-py3-none-any.whl#sha256={digest}">a</a>'
    (tmp_path / "index/a/index.html").write_text(page, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("content", "folder"), [(b"local build", "find%20links"), (b"index build", "index/a")])
def test_the_hash_decides_which_file(wheel: Path, content: bytes, folder: str) -> None:
    settings = IndexSettings(
        url=None, extra_urls=((wheel / "index").as_uri(),), find_links=(str(wheel / "find links"),)
    )
    artifact = Artifact("a-1-py3-none-any.whl", hashlib.sha256(content).hexdigest(), len(content))
    assert locate(sources(open_index_session({}), settings), artifact).endswith(f"{folder}/a-1-py3-none-any.whl")


def test_a_file_nobody_has_is_named(wheel: Path) -> None:
    settings = IndexSettings(url=(wheel / "index").as_uri(), find_links=(str(wheel / "find links"),))
    with pytest.raises(FetchError, match=r"a-1-py3-none-any\.whl is on none of the package indexes") as caught:
        locate(sources(open_index_session({}), settings), Artifact("a-1-py3-none-any.whl", "0" * 64, 1))
    assert "./build.py lock --upgrade a" in str(caught.value)


@pytest.mark.parametrize(
    "page",
    [
        None,
        1,
        "files",
        [],
        {},
        {"files": None},
        {"files": {}},
        {"files": [1]},
        {"files": [[]]},
        {"files": [{"filename": "a-1.tar.gz"}]},
        {"files": [{"filename": ["a"], "url": "a"}]},
        {"files": [{"filename": "a-1.tar.gz", "url": 1}]},
        {"files": [{"filename": "../a-1.tar.gz", "url": "a"}]},
        {"files": [{"filename": "a\n-1.tar.gz", "url": "a"}]},
        {"files": [{"filename": "a-1.tar.gz", "url": "file:///dev/zero"}]},
        {"files": [{"filename": "a-1.tar.gz", "url": " FILE:///dev/zero"}]},
        {"files": [{"filename": "a-1.tar.gz", "url": "gopher://a.invalid/a"}]},
        {"files": [{"filename": "a-1.tar.gz", "url": "https://["}]},
    ],
)
def test_a_json_page_of_other_types_is_refused(page: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_page(json.dumps(page), JSON_TYPE, BASE)


def test_a_json_page_that_nests_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="nests too deeply"):
        parse_page("[" * 100_000, JSON_TYPE, BASE)


def test_optional_fields_of_other_types_count_as_absent() -> None:
    entry = {"filename": "a-1.tar.gz", "url": "a-1.tar.gz", "hashes": ["sha256"], "size": "7"}
    (link,) = parse_page(json.dumps({"files": [entry]}), JSON_TYPE, BASE)
    assert (link.sha256, link.size) == (None, None)


@pytest.mark.parametrize("href", ["file:///dev/zero", "FILE:///etc/passwd", " file:///a"])
@pytest.mark.parametrize("tag", ['<a href="{}">', '<base href="{}">'])
def test_a_remote_html_page_never_leads_to_a_file_of_this_machine(tag: str, href: str) -> None:
    with pytest.raises(ValueError, match="names a file of this machine"):
        parse_page(tag.format(href), "text/html", BASE)


def test_links_for_people_are_passed_over() -> None:
    page = '<a href="../">up</a><a href="mailto:a@b.invalid">us</a><a href="x%2Fy%00">x</a><a href="a-1.tar.gz">a</a>'
    assert [link.filename for link in parse_page(page, "text/html", BASE)] == ["a-1.tar.gz"]


class Replies(HTTPAdapter):
    """A server in memory: every request gets the one reply."""

    def __init__(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        super().__init__()
        self.body, self.status, self.headers = body, status, headers

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        body = io.BytesIO(self.body)
        reply = HTTPResponse(body=body, status=self.status, headers=self.headers, preload_content=False)
        return self.build_response(request, reply)


def answer(body: bytes, headers: dict[str, str], status: int = 200) -> tuple[Link, ...]:
    session = open_index_session({})
    session.mount("https://", Replies(body, status, headers))
    return read_page(session, BASE)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "FILE:/etc/passwd", " file:///dev/zero"])
def test_a_redirect_to_a_file_of_this_machine_is_refused(place: str) -> None:
    with pytest.raises(FetchError, match="it redirects to"):
        answer(b"", {"Location": place}, 302)


def test_a_page_that_unpacks_without_end_is_refused() -> None:
    bomb = gzip.compress(b"<" * (LARGEST_HTML + 1))
    assert len(bomb) < 1 << 20
    with pytest.raises(FetchError, match="not a project page") as caught:
        answer(bomb, {"Content-Encoding": "gzip", "Content-Type": "text/html"})
    assert "more than 4 MiB" in str(caught.value)


@pytest.mark.parametrize("charset", ["no-such", "hex", "punycode", "\x00"])
def test_no_charset_of_a_server_decides_how_a_page_is_read(charset: str) -> None:
    (link,) = answer(b'<a href="a-1.tar.gz">a</a>', {"Content-Type": f"text/html; charset={charset}"})
    assert link.filename == "a-1.tar.gz"


def test_a_local_index_that_names_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/index.html").write_text('<a href="/dev/a-1.tar.gz">a</a><a href="a-1.tar.gz">a</a>')
    os.mkfifo(tmp_path / "a/a-1.tar.gz")
    settings = IndexSettings(url=tmp_path.as_uri())
    with pytest.raises(FetchError, match="is on none of the package indexes"):
        locate(sources(open_index_session({}), settings), Artifact("a-1.tar.gz", "0" * 64, 1))
