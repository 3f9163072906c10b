"""Project pages in both forms of the simple API, and folders that answer like one."""

import hashlib
import json
from pathlib import Path

import pytest

from gb10.errors import FetchError
from gb10.host.artifact import Artifact
from gb10.sources.index.client import locate, open_index_session, sources
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
