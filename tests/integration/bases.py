"""Images of others to build on, of real parts: Debian's Python, wheels of PyPI; pushed without a container engine.

``make_base(layout, place)`` makes one and returns its reference. Layouts: Debian's Python, a Python in /usr/local, a
venv, conda, and an engine in an editable checkout.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Literal
from zipfile import ZipFile

import requests
import uv

from gb10.core.files import digest
from gb10.core.http_session import open_session
from gb10.core.proc import capture
from gb10.core.store import Store, file_sha256
from gb10.image.base.layer_stream import zstd
from gb10.image.plan.catalog import ROOT
from gb10.image.rootfs.unpack import write_rootfs
from gb10.sources.debian.mirror import LockedDeb, fetch_debs
from tests.integration.debian_roots import EPOCH, kept, resolved

Layout = Literal["debian", "docker", "venv", "conda", "editable"]
LAYOUTS: Final[tuple[Layout, ...]] = ("debian", "docker", "venv", "conda", "editable")
PYTHON: Final = "3.13"
"""Debian trixie's, in every layout."""
SYSTEM: Final = (
    *(
        "base-files",
        "base-passwd",
        "bash",
        "coreutils",
        "dash",
        "debianutils",
        "dpkg",
        "findutils",
        "gcc-14-base",
        "grep",
        "libacl1",
    ),
    *("libattr1", "libbz2-1.0", "libc-bin", "libc6", "libcap2", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1"),
    *("libgmp10", "liblzma5", "libncursesw6", "libpcre2-8-0", "libpython3-stdlib", "libpython3.13-minimal"),
    *("libpython3.13-stdlib", "libreadline8t64", "libselinux1", "libsqlite3-0", "libssl3t64", "libstdc++6"),
    "libsystemd0",
    *("libtinfo6", "libuuid1", "python3", "python3-minimal", "python3.13", "python3.13-minimal", "sed", "zlib1g"),
)
"""What a Python and a shell need; the other packages that they depend on are left out."""
PACKAGES: Final = (
    "packaging==25.0",
    "jinja2==3.1.6",
    "markupsafe==3.0.3",
    "pyyaml==6.0.3",
    "typing-extensions==4.15.0",
)
OLDER: Final = "packaging==24.2"
"""A layer above replaces it, and hides its files."""
VERSIONS: Final = {"vllm": "0.33.0", "sglang": "0.5.23", "torch": "2.14.0"}
PIP: Final = "pip==25.3"
MACHINES: Final = {"linux/arm64": "aarch64-manylinux_2_39", "linux/amd64": "x86_64-manylinux_2_39"}
TORCH: Final = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = '13.0'
git_version = '0000000000000000000000000000000000000000'
hip: Optional[str] = None
"""
UPSTREAM: Final = {
    b'"dist-packages"': b'"site-packages"',
    b'"local/lib"': b'"lib"',
    b"prefix_scheme = 'posix_local'": b"prefix_scheme = 'posix_prefix'",
}
"""Words of Debian's site.py and sysconfig, and what makes them those of upstream."""
SIMPLE: Final = "application/vnd.pypi.simple.v1+json"
OCI: Final = "application/vnd.oci.image"
SUFFIX: Final = {"gzip": "+gzip", "zstd": "+zstd", "none": ""}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where bases are made and served. ``folder`` is for temporary files."""

    host: str
    """The registry's, without TLS: ``127.0.0.1:5000``."""
    store: Store
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A layer that the registry has."""

    kind: str
    digest: str
    size: int
    diff_id: str


@dataclass(kw_only=True)
class Tree:
    """A layer before it is packed: files of folders, links, texts, whiteouts; by path in the image."""

    folders: dict[str, Path] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    programs: tuple[str, ...] = ()
    """Those of the texts that can be executed."""

    def write(self, tar: tarfile.TarFile) -> None:
        """Everything, parents first."""
        made: set[str] = set()
        for path, text in sorted((*self.texts.items(), *((f"{_hidden(one)}", "") for one in self.gone))):
            _parents(tar, path, made)
            info = _entry(path)
            info.mode, info.size = 0o755 if path in self.programs else 0o644, len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
        for path, target in self.links.items():
            _parents(tar, path, made)
            info = _entry(path)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        for path, folder in self.folders.items():
            _parents(tar, f"{path}/x", made)
            for file in sorted(folder.rglob("*")):
                name = f"{path}/{file.relative_to(folder)}"
                if name not in made:
                    tar.add(file, name, recursive=False, filter=_plain)


def _hidden(path: str) -> str:
    above, _, name = path.rpartition("/")
    return f"{above}/.wh.{name}"


def _entry(path: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mtime = EPOCH
    return info


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = EPOCH
    return info


def _parents(tar: tarfile.TarFile, path: str, made: set[str]) -> None:
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        if str(parent) not in made:
            made.add(str(parent))
            info = _entry(str(parent))
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)


class Sums:
    """A file that counts and hashes what is written through it."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.sha256, self.size = out, hashlib.sha256(), 0

    def write(self, block: bytes) -> int:
        """One block."""
        self.sha256.update(block)
        self.size += len(block)
        return self.out.write(block)

    def flush(self) -> None:
        """As a file has it."""
        self.out.flush()

    def tell(self) -> int:
        """As a file has it."""
        return self.size

    @property
    def digest(self) -> str:
        """Of all that was written."""
        return f"sha256:{self.sha256.hexdigest()}"


def _packer(out: Sums, compression: str) -> AbstractContextManager[Any]:
    """What compresses what is written to it."""
    plain: Any = out
    if compression == "gzip":
        return gzip.GzipFile(fileobj=plain, mode="wb", compresslevel=1, mtime=0)
    return zstd.ZstdFile(plain, "wb", level=1) if compression == "zstd" else nullcontext(plain)


def push_layer(
    place: Place, name: str, write: Callable[[IO[bytes]], object], *, compression: str = "gzip", kind: str = ""
) -> Blob:
    """Pack what ``write`` writes (a tar, or what a hostile author calls one), and push it."""
    path = place.folder / f"layer-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        return push_file(place, name, path, replace(pack(path, write, compression), kind=kind or _kind(compression)))
    finally:
        path.unlink(missing_ok=True)


def pack(path: Path, write: Callable[[IO[bytes]], object], compression: str) -> Blob:
    """Pack what ``write`` writes."""
    with path.open("wb") as file:
        outer = Sums(file)
        with _packer(outer, compression) as packed:
            inner = Sums(packed)
            write(inner)  # type: ignore[arg-type]
    return Blob(kind=_kind(compression), digest=outer.digest, size=outer.size, diff_id=inner.digest)


def push_file(place: Place, name: str, path: Path, blob: Blob) -> Blob:
    """Push a packed layer."""
    with path.open("rb") as file:
        _upload(place.host, name, file, blob.digest, blob.size)
    return blob


def _kind(compression: str) -> str:
    return f"{OCI}.layer.v1.tar{SUFFIX[compression]}"


def _pushed_once(
    place: Place, name: str, inputs: object, write: Callable[[IO[bytes], Path], object], compression: str
) -> Blob:
    """A layer that is packed once for these inputs and this code, for all runs; then pushed."""

    def make(folder: Path) -> None:
        with place.store.folder("base") as scratch:
            blob = pack(folder / "layer", lambda out: write(out, scratch), compression)
        (folder / "blob.json").write_text(json.dumps(asdict(blob)))

    key = digest([inputs, compression, file_sha256(Path(__file__))])
    entry = kept().ensure("base-layers", key, make)
    return push_file(place, name, entry / "layer", Blob(**json.loads((entry / "blob.json").read_text())))


def push_tree(place: Place, name: str, tree: Tree, *, compression: str = "gzip") -> Blob:
    """A layer of a tree."""
    return push_layer(place, name, lambda out: write_tree(out, tree), compression=compression)


def write_tree(out: IO[bytes], tree: Tree) -> None:
    """The tar of a tree."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        tree.write(tar)


def _upload(host: str, name: str, content: IO[bytes] | bytes, sha256: str, size: int) -> None:
    base = f"http://{host}/v2/{name}/blobs"
    if requests.head(f"{base}/{sha256}", timeout=60).ok:
        return
    started = requests.post(f"{base}/uploads/", timeout=60)
    started.raise_for_status()
    sign = "&" if "?" in started.headers["Location"] else "?"
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
    done = requests.put(
        f"{started.headers['Location']}{sign}digest={sha256}", data=content, headers=headers, timeout=600
    )
    done.raise_for_status()


def push_image(
    place: Place,
    name: str,
    layers: Sequence[Blob],
    settings: Mapping[str, Any],
    *,
    platform: str = "linux/arm64",
    tag: str = "1",
) -> str:
    """Push the config and the manifest of an image; its reference by digest. It has the tag, too."""
    system, _, machine = platform.partition("/")
    config = {
        "os": system,
        "architecture": machine,
        "config": dict(settings),
        "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in layers]},
        "history": [{"created_by": f"layer {number}"} for number, _ in enumerate(layers, 1)],
    }
    content = json.dumps(config).encode()
    own = f"sha256:{hashlib.sha256(content).hexdigest()}"
    _upload(place.host, name, content, own, len(content))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": {"mediaType": f"{OCI}.config.v1+json", "digest": own, "size": len(content)},
        "layers": [{"mediaType": one.kind, "digest": one.digest, "size": one.size} for one in layers],
    }
    return push_manifest(place, name, manifest, tag=tag)


def push_manifest(place: Place, name: str, manifest: Mapping[str, Any], *, tag: str = "1") -> str:
    """Push a manifest, or an index, under its tag; its reference by digest."""
    text = json.dumps(manifest).encode()
    answer = requests.put(
        f"http://{place.host}/v2/{name}/manifests/{tag}",
        data=text,
        headers={"Content-Type": str(manifest["mediaType"])},
        timeout=60,
    )
    answer.raise_for_status()
    return f"{place.host}/{name}@sha256:{hashlib.sha256(text).hexdigest()}"


def make_base(
    layout: Layout,
    place: Place,
    *,
    platform: str = "linux/arm64",
    engine: str | None = None,
    packages: Sequence[str] = PACKAGES,
    metadata: Mapping[str, str] | None = None,
    compression: str = "gzip",
    settings: Mapping[str, Any] | None = None,
    name: str = "",
    system_site: bool = False,
    above: Callable[[str], Tree] | None = None,
) -> str:
    """Make a base of others in the place's registry, and return its reference, ``HOST/bases/LAYOUT@sha256:…``.

    engine: ``vllm`` or ``sglang``, the Python and JSON files of its real wheel of VERSIONS; ``""`` for a base without;
    None for the layout's own. packages: requirements that uv installs, whole, from PyPI, without what they depend on.
    metadata: further distributions (name, version) by their real METADATA alone, as FlashInfer. torch is one of these,
    with a version.py that says CUDA 13.0, unless packages name it. settings: of the config, beside those that the
    layout has. system_site: the venv sees Debian's packages, too. above: one more layer, by the folder of the packages.

    Its layers: Debian's Python; packages; the engine; a newer `packaging` above whiteouts of the older one. The first
    call of a day asks Debian's mirror and PyPI; later ones take seconds.
    """
    made = _Layout(layout, platform, system_site)
    own = ("sglang" if layout in ("conda", "editable") else "vllm") if engine is None else engine
    called = name or f"bases/{layout}"
    older = [OLDER, PIP, *(one for one in packages if not one.startswith("packaging=="))]
    newer = next((one for one in packages if one.startswith("packaging==")), OLDER)
    real = any(one.startswith("torch==") for one in packages)
    stubs = {**({} if real else {"torch": VERSIONS["torch"]}), **(metadata or {})}
    inputs = (layout, platform, system_site)
    makers: list[tuple[object, Callable[[Path], Tree]]] = [
        (older, lambda folder: made.packages_tree(folder, older)),
        ([own, stubs, VERSIONS], lambda folder: made.engine_tree(folder, own, stubs)),
        (newer, lambda folder: made.upgrade_tree(folder, newer)),
    ]
    root = [made.prefix, _locked(platform.partition("/")[2])]
    layers = [_pushed_once(place, called, root, lambda out, _: made.write_system(out), compression)]
    for more, make in makers:
        writes = partial(_write_made, make)
        layers.append(_pushed_once(place, called, [inputs, more], writes, compression))
    if above:
        layers.append(push_tree(place, called, above(made.site), compression=compression))
    return push_image(place, called, layers, {**made.settings(own), **(settings or {})}, platform=platform)


def _write_made(make: Callable[[Path], Tree], out: IO[bytes], folder: Path) -> None:
    write_tree(out, make(folder))


@dataclass(frozen=True)
class _Layout:
    layout: Layout
    platform: str
    system_site: bool = False

    @property
    def prefix(self) -> str:
        """Where its own Python is installed."""
        return {"docker": "usr/local", "conda": "opt/conda"}.get(self.layout, "usr")

    @property
    def programs(self) -> str:
        """The folder of the Python that is to be used."""
        return {"venv": "opt/venv/bin", "conda": "opt/conda/bin", "debian": "usr/local/bin"}.get(
            self.layout, "usr/local/bin"
        )

    @property
    def interpreter(self) -> str:
        """The Python that is to be used."""
        return {"debian": "/usr/bin/python3", "editable": "/usr/bin/python3"}.get(
            self.layout, f"/{self.programs}/python3"
        )

    @property
    def site(self) -> str:
        """The folder of its packages."""
        return {
            "docker": f"usr/local/lib/python{PYTHON}/site-packages",
            "conda": f"opt/conda/lib/python{PYTHON}/site-packages",
            "venv": f"opt/venv/lib/python{PYTHON}/site-packages",
        }.get(self.layout, f"usr/local/lib/python{PYTHON}/dist-packages")

    def settings(self, engine: str) -> dict[str, Any]:
        """Of the config."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        first = {"venv": "/opt/venv/bin:", "conda": "/opt/conda/bin:"}.get(self.layout, "")
        started = {"vllm": ["vllm", "serve"], "sglang": ["python3", "-m", "sglang.launch_server"]}
        found: dict[str, Any] = {"Env": [f"PATH={first}{path}", "LANG=C.UTF-8"]}
        if engine:
            found |= {"Entrypoint": started[engine]}
        if self.layout == "editable":
            found |= {"WorkingDir": "/sgl-workspace", "Entrypoint": ["/opt/entrypoint.sh"], "Cmd": started["sglang"]}
        if self.layout == "docker":
            found |= {"User": "1000:1000", "Labels": {"org.opencontainers.image.licenses": "Apache-2.0"}}
        return found

    def write_system(self, out: IO[bytes]) -> None:
        """The first layer: Debian's files, with Python in the layout's prefix, as upstream makes it beside /usr."""
        root = _root(self.platform.partition("/")[2])
        if self.prefix == "usr":
            with root.open("rb") as file:
                shutil.copyfileobj(file, out)
            return
        with tarfile.open(root) as source, tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            made: set[str] = set()
            for info in source:
                content = source.extractfile(info) if info.isreg() else None
                moved = self._moved(info.name).removeprefix("./").rstrip("/")
                if info.isdir() and moved in made:
                    continue  # an engine refuses a layer that has a path twice
                _parents(tar, moved, made)
                made.add(moved)
                if info.islnk():
                    info.linkname = self._moved(info.linkname).removeprefix("./")
                info.name = moved
                if content and moved.endswith((f"python{PYTHON}/site.py", f"python{PYTHON}/sysconfig/__init__.py")):
                    text = content.read()
                    for debians, upstreams in UPSTREAM.items():
                        text = text.replace(debians, upstreams)
                    info.size, content = len(text), io.BytesIO(text)
                info.pax_headers = {}
                tar.addfile(info, content)

    def _moved(self, path: str) -> str:
        """Python's own files in the layout's prefix."""
        for part in ("bin/python3", f"lib/python{PYTHON}", "lib/python3"):
            if path.removeprefix("./").startswith(f"usr/{part}"):
                return f"{self.prefix}/{path.removeprefix('./').removeprefix('usr/')}"
        return path

    def packages_tree(self, folder: Path, packages: Sequence[str]) -> Tree:
        """The second layer: the environment, and packages in it."""
        tree = Tree(folders={self.site: self._installed(folder / "packages", packages)})
        if self.layout == "venv":
            seen = str(self.system_site).lower()
            config = f"home = /usr/bin\ninclude-system-site-packages = {seen}\nversion = {PYTHON}.5\n"
            tree.texts["opt/venv/pyvenv.cfg"] = f"{config}executable = /usr/bin/python{PYTHON}\n"
            tree.links |= {
                "opt/venv/bin/python": "python3",
                "opt/venv/bin/python3": "/usr/bin/python3",
                f"opt/venv/bin/python{PYTHON}": "python3",
                "opt/venv/lib64": "lib",
            }
        if self.layout == "conda":
            for name, version in (("python", f"{PYTHON}.5"), ("openssl", "3.5.1")):
                text = json.dumps({"name": name, "version": version, "build": "h0_0", "files": []})
                tree.texts[f"opt/conda/conda-meta/{name}-{version}-h0_0.json"] = text
            tree.texts["opt/conda/conda-meta/history"] = ""
            tree.links["opt/conda/bin/python"] = "python3"
        if self.layout == "docker":
            tree.links["usr/local/bin/python"] = "python3"
        return tree

    def engine_tree(self, folder: Path, engine: str, metadata: Mapping[str, str]) -> Tree:
        """The third layer: the engine's Python files, torch as its METADATA."""
        place = folder / "engine"
        place.mkdir()
        for name, version in metadata.items():
            write_metadata(place, name, version)
        if "torch" in metadata:
            torch = place / "torch"
            torch.mkdir()
            (torch / "__init__.py").write_text("from torch.version import __version__ as __version__\n")
            (torch / "version.py").write_text(TORCH.format(version=f"{metadata['torch']}+cu130"))
        tree = Tree(folders={self.site: place})
        if not engine:
            return tree
        with ZipFile(engine_wheel(engine, self.platform)) as wheel:
            chosen = [one for one in wheel.namelist() if one.endswith((".py", ".json")) or ".dist-info/" in one]
            wheel.extractall(place, chosen)  # noqa: S202 - a wheel of PyPI by its sha256
        text = f"#!{self.interpreter}\nimport sys\nfrom {engine}.cli.main import main\nsys.exit(main())\n"
        tree.texts[f"{self.programs}/{engine}"] = text
        tree.programs = (f"{self.programs}/{engine}",)
        if self.layout == "editable":
            _edit(tree, place, engine, folder)
        return tree

    def upgrade_tree(self, folder: Path, package: str) -> Tree:
        """The fourth layer: what `pip install --upgrade` leaves of the newer, and whiteouts of the older."""
        name, _, version = OLDER.partition("==")
        tree = Tree(folders={self.site: self._installed(folder / "upgrade", [package])})
        if package != OLDER:
            tree.gone.append(f"{self.site}/{name}-{version}.dist-info")
        return tree

    def _installed(self, target: Path, packages: Iterable[str]) -> Path:
        install(target, packages, self.platform)
        shutil.rmtree(target / "bin", ignore_errors=True)  # uv's scripts name this machine's Python
        return target


def install(target: Path, packages: Iterable[str], platform: str) -> None:
    """Install wheels of PyPI for a platform, without what they depend on."""
    argv = [uv.find_uv_bin(), "pip", "install", "--quiet", "--no-config", "--no-deps", "--only-binary", ":all:"]
    argv += ["--python", sys.executable, "--python-platform", MACHINES[platform], "--python-version", PYTHON]
    capture([*argv, "--target", str(target), *packages], env={**os.environ, "UV_CACHE_DIR": str(kept().root / "uv")})
    for left in (".lock", ".gitignore"):
        (target / left).unlink(missing_ok=True)


def _edit(tree: Tree, place: Path, engine: str, folder: Path) -> None:
    """An engine as `pip install -e` leaves it: a checkout, a .pth, and a dist-info that names the checkout."""
    checkout = folder / "checkout"
    checkout.mkdir()
    (place / engine).rename(checkout / engine)
    info = next(place.glob(f"{engine}-*.dist-info"))
    (info / "direct_url.json").write_text(
        json.dumps({"dir_info": {"editable": True}, "url": f"file:///sgl-workspace/{engine}/python"})
    )
    (place / f"__editable__.{info.name.removesuffix('.dist-info')}.pth").write_text(f"/sgl-workspace/{engine}/python\n")
    tree.folders[f"sgl-workspace/{engine}/python"] = checkout
    tree.texts |= {
        f"sgl-workspace/{engine}/python/pyproject.toml": f'[project]\nname = "{engine}"\n',
        "opt/entrypoint.sh": '#!/bin/bash\nexec "$@"\n',
    }
    tree.programs = (*tree.programs, "opt/entrypoint.sh")


def write_metadata(site: Path, name: str, version: str) -> None:
    """A dist-info with the real METADATA of a release, read from its wheel by a few ranges."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    shutil.copyfile(_metadata(name, version), folder / "METADATA")
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: made up\nRoot-Is-Purelib: false\n")
    (folder / "INSTALLER").write_text("pip\n")
    (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n{folder.name}/WHEEL,,\n{folder.name}/RECORD,,\n")


class _Remote(io.RawIOBase):
    """A file of a server, read by ranges."""

    def __init__(self, session: requests.Session, url: str, size: int) -> None:
        self.session, self.url, self.size, self.at = session, url, size, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = (0, self.at, self.size)[whence] + offset
        return self.at

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self.at + size)
        if end <= self.at:
            return b""
        reply = self.session.get(self.url, headers={"Range": f"bytes={self.at}-{end - 1}"}, timeout=60)
        reply.raise_for_status()
        self.at += len(reply.content)
        return reply.content


def _chosen(session: requests.Session, name: str, version: str, machine: str) -> Mapping[str, Any]:
    """The wheel of a release for a machine and PYTHON, as the index lists it."""
    page = session.get(f"https://pypi.org/simple/{name}/", headers={"Accept": SIMPLE}, timeout=60)
    page.raise_for_status()
    begin = f"{name.replace('-', '_')}-{version}-"
    wheels = [one for one in page.json()["files"] if one["filename"].lower().startswith(begin)]
    fit = [one for one in wheels if one["filename"].endswith((f"{machine}.whl", "-any.whl"))]
    for_python = [one for one in fit if f"cp{PYTHON.replace('.', '')}-cp" in one["filename"]]
    found: Mapping[str, Any] = (for_python or fit)[0]
    return found


def _metadata(name: str, version: str) -> Path:
    def fetch(folder: Path) -> None:
        with open_session(os.environ) as session:
            url = _chosen(session, name, version, "aarch64")["url"]
            size = int(session.head(url, timeout=60).headers["Content-Length"])
            with ZipFile(_Remote(session, url, size)) as wheel:
                inner = next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
                (folder / "METADATA").write_bytes(wheel.read(inner))

    return kept().ensure("base-wheels", digest([name, version, "METADATA"]), fetch) / "METADATA"


def engine_wheel(engine: str, platform: str) -> Path:
    """The real wheel of an engine: 333 MB of vLLM, some of SGLang; kept between runs."""
    machine = {"linux/arm64": "aarch64", "linux/amd64": "x86_64"}[platform]

    def fetch(folder: Path) -> None:
        with open_session(os.environ) as session:
            chosen = _chosen(session, engine, VERSIONS[engine], machine)
            path = folder / chosen["filename"]
            with session.get(chosen["url"], stream=True, timeout=60) as reply, path.open("wb") as out:
                reply.raise_for_status()
                for block in reply.iter_content(1 << 20):
                    out.write(block)
        assert file_sha256(path) == chosen["hashes"]["sha256"]

    return next(kept().ensure("base-wheels", digest([engine, VERSIONS[engine], machine]), fetch).iterdir())


def _locked(architecture: str) -> list[str]:
    """The sha256 of each package of the system."""
    return [deb.sha256 for deb in _debs(architecture)]


def _debs(architecture: str) -> list[LockedDeb]:
    found = resolved("python3", "base-files", "findutils", "grep", "libstdc++6", "sed", architecture=architecture)
    return [deb for deb in found if deb.name in SYSTEM]


def _root(architecture: str) -> Path:
    """Debian's Python and a shell for an architecture, as a tar."""
    locked = _debs(architecture)

    def pack_root(folder: Path) -> None:
        with open_session(os.environ) as session:
            write_rootfs(fetch_debs(session, kept(), os.environ, locked), folder / "root.tar", epoch=EPOCH)

    key = digest([_locked(architecture), EPOCH])
    return kept().ensure("debian-roots", key, pack_root) / "root.tar"


def make_large_base(place: Place, *, compression: str = "gzip") -> str:
    """A base of all wheels of our lock of vLLM, whole, for aarch64: 8 GB in three layers, as `pip install` makes them.

    It takes minutes, 4 GB of downloads the first time, and 15 GB of the disk for as long as it lasts.
    """
    made, name = _Layout("debian", "linux/arm64"), "bases/large"
    lock = json.loads((ROOT / "recipes/images/vllm.lock.json").read_text(encoding="utf-8"))
    rows = lock["wheels"]["image"]["arm64"]
    parts: dict[str, list[str]] = {"nvidia": [], "torch": [], "rest": []}
    for row in rows:
        part = (
            "nvidia" if row["name"].startswith("nvidia-") else "torch" if row["name"] in ("torch", "triton") else "rest"
        )
        parts[part].append(f"{row['name']}=={row['version']}")
    layers = [push_layer(place, name, made.write_system, compression=compression)]
    with place.store.folder("base") as folder:
        for part, packages in parts.items():
            install(folder / part, packages, "linux/arm64")
            layers.append(push_tree(place, name, Tree(folders={made.site: folder / part}), compression=compression))
            shutil.rmtree(folder / part)
    return push_image(place, name, layers, made.settings("vllm"))
