"""The client of one index: project pages, sizes, and where a locked file lies; a local folder works like an index."""

import io
import mimetypes
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import requests
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from gb10.core.fetch import redact, stored
from gb10.core.files import Artifact
from gb10.core.http_session import download, network_error, open_session
from gb10.core.store import Store, file_sha256
from gb10.errors import FetchError
from gb10.sources.index.page import ACCEPT, LONGEST, REMOTE, Link, is_json, parse_page
from gb10.sources.index.pip_settings import IndexSettings, read_settings

FOUND = 200
NOT_FOUND = 404
NO_OBJECT = (403, NOT_FOUND)
"""What stores of objects answer for what they do not have."""
TIMEOUT_S = 60
BLOCK = 1 << 16
LARGEST_JSON = 16 << 20  # bytes of a page
LARGEST_HTML = 4 << 20


class FileAdapter(HTTPAdapter):
    """``file://`` for requests: a folder is its index.html, as a web server has it."""

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        """Answer 200 with the file, or 404."""
        path = local_path(request.url or "")
        path = path / "index.html" if path.is_dir() else path
        body = path.open("rb") if path.is_file() else io.BytesIO()
        headers = {"Content-Type": mimetypes.guess_type(path.name)[0] or "application/octet-stream"}
        headers |= {"Content-Length": str(path.stat().st_size)} if path.is_file() else {}
        status = FOUND if path.is_file() else NOT_FOUND
        return self.build_response(
            request, HTTPResponse(body=body, headers=headers, status=status, preload_content=False)
        )


class Index:
    """One simple-API index; ``url`` is its root, ``absent`` are its answers for what it does not have."""

    def __init__(self, session: requests.Session, url: str, absent: Collection[int] = (NOT_FOUND,)) -> None:
        self.session = session
        self.absent = absent
        self.url = url.rstrip("/")

    @property
    def local(self) -> bool:
        """Whether asking costs no network."""
        return self.url.startswith("file:")

    def links(self, project: str) -> tuple[Link, ...]:
        """Every file of a project, none when the index does not know it. Raises FetchError."""
        return read_page(self.session, f"{self.url}/{canonicalize_name(project)}/", self.absent)


class Folder:
    """pip's find-links: a folder of files, or a page of links."""

    local = True

    def __init__(self, session: requests.Session, place: str) -> None:
        self.session = session
        self.url = place

    def links(self, project: str) -> tuple[Link, ...]:
        """Every file there, whatever its project. Raises FetchError."""
        folder = local_path(self.url)
        if folder.is_dir():
            return tuple(Link(filename=path.name, url=path.absolute().as_uri()) for path in sorted(folder.iterdir()))
        return read_page(self.session, self.url) if "://" in self.url else ()


def open_index_session(env: Mapping[str, str]) -> requests.Session:
    """A session that also reads ``file://`` indexes."""
    session = open_session(env)
    session.mount("file://", FileAdapter())
    session.hooks["response"].append(refuse_local)
    return session


def refuse_local(reply: requests.Response, **_: object) -> None:
    """Raise InvalidSchema for a redirect that leads to a file of this machine."""
    target = urljoin(reply.url, reply.headers.get("location", "").strip())
    if reply.is_redirect and urlsplit(target).scheme not in REMOTE:
        raise requests.exceptions.InvalidSchema(f"it redirects to {ascii(target)[:LONGEST]}", request=reply.request)


def sources(session: requests.Session, settings: IndexSettings) -> tuple[Index | Folder, ...]:
    """Every place that may hold a locked file, those that cost no network first."""
    urls = (*((settings.url,) if settings.url else ()), *settings.extra_urls)
    places: list[Index | Folder] = [
        *(Folder(session, place) for place in settings.find_links),
        *(Index(session, url) for url in urls),
    ]
    return tuple(sorted(places, key=lambda place: not place.local))


def locate(places: Iterable[Index | Folder], artifact: Artifact) -> str:
    """The URL of the very file that was locked. Raises FetchError."""
    project, asked = project_of(artifact.filename), []
    for place in places:
        for link in place.links(project):
            if _is(link, artifact):
                return link.url
        asked.append(redact(place.url))
    where = "\n".join([f"sha256 {artifact.sha256}", *(f"looked at {url}" for url in asked)])
    again = f"pin another file:\n./build.py lock --upgrade {project}"
    if artifact.index:
        raise FetchError(
            f"{artifact.filename} is not on the index that the recipe names for {project}",
            where=where,
            hint=f"no other index may have it: correct indexes in the recipe, or {again}",
        )
    raise FetchError(
        f"{artifact.filename} is on none of the package indexes",
        where=where,
        hint=f"point PIP_INDEX_URL to an index that has it, or {again}",
        absent=True,
    )


def _is(link: Link, artifact: Artifact) -> bool:
    """By hash; a link without one is taken by name, and checked here if it is local, else by the download."""
    if link.sha256:
        return link.sha256 == artifact.sha256
    if link.filename != artifact.filename:
        return False
    path = local_path(link.url)
    if not link.url.startswith("file:"):
        return True
    return path.is_file() and path.stat().st_size == artifact.size and file_sha256(path) == artifact.sha256


def project_of(filename: str) -> str:
    """The project of a wheel or source archive, from its file name; raises packaging's InvalidWheelFilename."""
    if filename.endswith(".whl"):
        return str(parse_wheel_filename(filename)[0])
    return str(parse_sdist_filename(filename)[0])


def local_path(url: str) -> Path:
    """The path of a ``file://`` URL, or of what is a path already."""
    return Path(unquote(urlsplit(url).path) if url.startswith("file:") else url)


def read_page(session: requests.Session, url: str, absent: Collection[int] = (NOT_FOUND,)) -> tuple[Link, ...]:
    """The links of one page, none when it does not exist. Raises FetchError."""
    message = f"cannot read the package index at {urlsplit(url).hostname or url}"
    try:
        with session.get(
            url, headers={"Accept": ACCEPT}, timeout=TIMEOUT_S, verify=session.verify, stream=True
        ) as reply:
            if reply.status_code in absent:
                return ()
            reply.raise_for_status()
            kind = reply.headers.get("Content-Type", "")
            return parse_page(_text(reply, LARGEST_JSON if is_json(kind) else LARGEST_HTML), kind, reply.url)
    except requests.RequestException as error:
        raise network_error(error, message) from error
    except ValueError as error:
        raise FetchError(f"{message}: its page is not a project page", where=f"{redact(url)}: {error}") from error


def _text(reply: requests.Response, largest: int) -> str:
    """The page; raises ValueError for one that is larger when it is unpacked."""
    whole = bytearray()
    for block in reply.iter_content(BLOCK):
        whole += block
        if len(whole) > largest:
            raise ValueError(f"it has more than {largest >> 20} MiB")
    return whole.decode("utf-8", "replace")


def size_of(session: requests.Session, link: Link) -> int:
    """Bytes of a file, by the index, else by its server. Raises FetchError."""
    if link.size is not None:
        return link.size
    try:
        reply = session.head(
            link.url,
            allow_redirects=True,
            timeout=TIMEOUT_S,
            headers={"Accept-Encoding": "identity"},
            verify=session.verify,
        )
        reply.raise_for_status()
        return int(reply.headers["Content-Length"])
    except requests.RequestException as error:
        raise network_error(error, f"cannot ask for the size of {link.filename}") from error
    except (KeyError, ValueError) as error:
        raise FetchError(f"the index does not say the size of {link.filename}", where=redact(link.url)) from error


STREAMS = 4


def fetch_all(
    files: Iterable[Artifact],
    store: Store,
    env: Mapping[str, str],
    on_bytes: Callable[[int], None] = lambda count: None,
) -> dict[str, Path]:
    """Each file by its sha256, in the store; only absent ones are fetched. Raises FetchError, UsageError.

    A file whose recipe names an index for it comes from there, or from a folder of this machine (its sha256 decides):
    it comes from no other index, and no other file comes from that one.
    ``on_bytes`` gets the bytes of each block as it arrives, from any of the streams.
    """
    wanted = {file.sha256: file for file in files}
    absent = [artifact for artifact in wanted.values() if not stored(store, artifact).exists()]
    if absent:
        _fetch(absent, store, env, on_bytes)
    return {sha256: stored(store, artifact) for sha256, artifact in wanted.items()}


def _fetch(absent: list[Artifact], store: Store, env: Mapping[str, str], on_bytes: Callable[[int], None]) -> None:
    session = open_index_session(env)
    places = sources(session, read_settings(env))
    folders = [place for place in places if isinstance(place, Folder)]

    stop = threading.Event()

    def on_block(count: int) -> None:
        if stop.is_set():
            raise CancelledError
        on_bytes(count)

    def fetch(artifact: Artifact) -> None:
        named: Sequence[Index | Folder] = (*folders, Index(session, artifact.index)) if artifact.index else places
        download(session, store, artifact, lambda: locate(named, artifact), on_block)

    largest_first = sorted(absent, key=lambda artifact: -artifact.size)
    with ThreadPoolExecutor(STREAMS) as pool:
        try:
            list(pool.map(fetch, largest_first))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
