"""An index of single commits over real HTTP, as vLLM's: no hashes, quoted file names, 403 for what is absent."""

import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

from gb10.image.patches.source_tree import Tree

PLATFORMS = ("aarch64", "x86_64")


@dataclass(slots=True)
class CommitIndex:
    """``downloads``: the files that were sent whole, in order."""

    folder: Path
    url: str = ""
    downloads: list[str] = field(default_factory=list)
    pages: int = 0
    forgets: bool = False

    def add(self, project: str, commit: str, version: str, python: str, tree: Tree) -> None:
        """The files of a real wheel under the version of a commit, for both platforms: two names of the same bytes."""
        page = self.folder / commit / project
        page.mkdir(parents=True)
        names = [f"{project}-{version}-{python}-{python}-manylinux_2_34_{machine}.whl" for machine in PLATFORMS]
        for name in names:
            with zipfile.ZipFile(page / name, "w") as archive:
                for path in tree.paths():
                    content = tree.read(path) or b""
                    top, _, rest = path.partition("/")
                    place = f"{project}-{version}.dist-info/{rest}" if top.endswith(".dist-info") else path
                    if rest == "METADATA":
                        lines = content.decode().splitlines(keepends=True)
                        at = next(number for number, line in enumerate(lines) if line.startswith("Version: "))
                        content = "".join([*lines[:at], f"Version: {version}\n", *lines[at + 1 :]]).encode()
                    archive.writestr(zipfile.ZipInfo(place), content)
        links = "".join(f'<a href="{quote(name)}">{name}</a>\n' for name in names)
        (page / "index.html").write_text(links, encoding="utf-8")


@contextmanager
def commit_index(folder: Path) -> Iterator[CommitIndex]:
    """A server whose URL for a commit is ``url/COMMIT``."""
    index = CommitIndex(folder)

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".whl"):
                index.downloads.append(self.path.rpartition("/")[2])
            else:
                index.pages += 1
            self.send_error(HTTPStatus.FORBIDDEN) if index.forgets else super().do_GET()

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            super().send_error(HTTPStatus.FORBIDDEN if code == HTTPStatus.NOT_FOUND else code, message, explain)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    index.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
