"""Our look-up of libraries and symbols against glibc's own loader: `ldd -r` and `ldd -d` in a root of Debian's."""

import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from gb10.core.proc import capture
from gb10.core.store import open_store
from gb10.inside.scan.ld_so import Loader, split, wants
from gb10.inside.scan.linked import link
from gb10.inside.scan.scan import scanned_tree
from tests.integration.debian_roots import unpacked_root

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PACKAGES = ("g++", "python3-numpy")
UNDEFINED = re.compile(r"^undefined symbol: (\w[^\s,]*)(?:, version \S+)?\s+\((\S+)\)$", re.MULTILINE)
MISSING = re.compile(r"^\s*(\S+) => not found$", re.MULTILINE)
EVERY = 5
"""One of so many libraries of Debian's is asked of its loader."""


class Told(NamedTuple):
    """What a loader says of one library."""

    absent: frozenset[str]
    at_load: frozenset[str]
    at_all: frozenset[str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a compiler, Python and numpy, and the cases of `seeds` below /seeded."""
    made = unpacked_root(open_store(os.environ), tmp_path_factory.mktemp("ld-so"), *PACKAGES)
    os.mknod(made / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    seed(made)
    return made


def seed(root: Path) -> None:
    """Libraries that fit and that do not, compiled in the root."""
    here = root / "seeded"
    for name in ("lib", "deep"):
        (here / name).mkdir(parents=True)
    sources = {
        "base.c": "int f(void) { return 1; } int d = 2;",
        "user.c": "int f(void); extern int d; int g(void) { return f() + d; }",
        "top.c": "int g(void); int h(void) { return g(); }",
        "weak.c": "__attribute__((weak)) int none(void); int w(void) { return none ? none() : 0; }",
        "base.map": "V1 { global: f; d; };",
        "other.map": "V2 { global: f; d; };",
    }
    for name, text in sources.items():
        (here / name).write_text(text + "\n", encoding="ascii")
    build(root, "-o lib/libbase.so -Wl,-soname,libbase.so base.c -Wl,--version-script,base.map")
    use = "user.c -Llib -lbase"
    build(root, f"-o user-runpath.so {use} -Wl,--enable-new-dtags,-rpath,$ORIGIN/lib")
    build(root, f"-o user-rpath.so {use} -Wl,--disable-new-dtags,-rpath,${{ORIGIN}}/lib")
    build(root, f"-o user-now.so {use} -Wl,-z,now -Wl,-rpath,$ORIGIN/lib")
    build(root, f"-o user-lost.so {use}")
    build(root, "-o deep/libuser.so -Wl,-soname,libuser.so " + use)
    for kind in ("enable", "disable"):
        build(
            root,
            f"-o top-{kind}.so top.c -Ldeep -luser -Wl,--{kind}-new-dtags,-rpath,/seeded/deep:/seeded/lib"
            " -Wl,--allow-shlib-undefined",
        )
    build(root, "-o weak.so weak.c")
    for broken, options in {"gone": "user.c", "renamed": f"{use} -Wl,-rpath,$ORIGIN/other"}.items():
        build(root, f"-o {broken}.so {options}")
    (here / "other").mkdir()
    build(root, "-o other/libbase.so -Wl,-soname,libbase.so base.c -Wl,--version-script,other.map")
    (here / "link").symlink_to("../seeded/lib")
    build(root, f"-o linked.so {use} -Wl,-rpath,/seeded/link/../link")


def build(root: Path, options: str) -> None:
    """A shared library, lazily bound unless said otherwise."""
    compiled = f"cd /seeded && exec gcc -shared -fPIC -Wl,-z,lazy -Wl,--no-as-needed {options}".replace("$", "\\$")
    capture(["chroot", str(root), "/bin/sh", "-c", compiled])


def ldd(root: Path, path: str) -> Told:
    """What glibc says: with -d it looks up data alone, as when a library is loaded lazily; with -r functions, too."""
    texts = [
        capture(["chroot", str(root), "/bin/sh", "-c", f'ldd {option} "$0" 2>&1 || true', path])
        for option in ("-d", "-r")
    ]
    at_load, at_all = (frozenset(name for name, where in UNDEFINED.findall(text) if where == path) for text in texts)
    return Told(frozenset(MISSING.findall(texts[1])), at_load, at_all)


class Strict(Loader):
    """The loader alone: nothing was loaded before, and nobody loads the library."""

    def loaded_before(self, name: str) -> str:
        return ""


def ours(loader: Loader, path: str) -> Told:
    """What we say of the same library."""
    scope, _ = loader.scope(path)
    names = {library.linkage.soname for library in map(loader.libraries.__getitem__, scope)}
    names |= {one.rpartition("/")[2] for one in scope}
    absent = {name for one in scope for name in loader.libraries[one].linkage.needed if name not in names}
    lacking = [
        (when, name)
        for when, line in wants(loader.libraries[path].linkage)
        for name, version in (split(line),)
        if not any(loader.libraries[one].has(name, version) for one in scope)
    ]
    at_load = frozenset(name for when, name in lacking if when == "load")
    return Told(frozenset(absent), at_load, frozenset(name for _, name in lacking))


@pytest.fixture(scope="module")
def loader(root: Path) -> Loader:
    return Strict(scanned_tree(root, "layer").symbols)


def compared(root: Path, loader: Loader, paths: list[str]) -> Iterator[tuple[str, Told, Told]]:
    """The libraries on which we and glibc differ."""
    with ThreadPoolExecutor(4) as pool:
        told = pool.map(lambda path: ldd(root, path), paths)
        for path, theirs in zip(paths, told, strict=True):
            if ours(loader, path) != theirs:
                yield path, ours(loader, path), theirs


def test_seeded_libraries_fail_where_glibc_says_so(root: Path, loader: Loader) -> None:
    paths = sorted(path for path in loader.libraries if path.startswith("/seeded/"))
    assert len(paths) == 13
    assert list(compared(root, loader, paths)) == []
    broken = {path.rpartition("/")[2] for path in paths if any(ours(loader, path))}
    assert broken == {"user-lost.so", "libuser.so", "top-enable.so", "gone.so", "renamed.so"}
    now = ours(loader, "/seeded/renamed.so")
    assert (sorted(now.at_load), sorted(now.at_all)) == (["d"], ["d", "f"])


def test_debians_libraries_are_what_glibc_says_of_them(root: Path, loader: Loader) -> None:
    paths = sorted(path for path in loader.libraries if not path.startswith("/seeded/"))
    some = [path for path in paths if ".so" in path][::EVERY]
    assert len(some) > 80
    assert list(compared(root, loader, some)) == []


def test_plug_ins_find_the_rest_in_their_programs_and_nothing_of_debian_is_unresolved(root: Path) -> None:
    found = link(scanned_tree(root, "layer").symbols)
    left = {one.path.rpartition("/")[2]: one.symbol for one in found.unresolved}
    assert left.keys() == {"libthread_db.so.1", "renamed.so"}
    assert left["renamed.so"].endswith("@V1")
    assert "gone.so" in {one.path.rpartition("/")[2] for one in found.elsewhere}  # its symbols have no version
    assert [one.library for one in found.absent] == []
    assert found.symbols > 20_000
