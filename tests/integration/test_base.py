"""Real bases from the real mirror, compared with what dpkg itself makes of the same packages."""

import hashlib
import os
import platform
import shlex
import stat
import struct
from pathlib import Path

import pytest

from gb10.containers.emulation import PROGRAMS, fetch_emulator
from gb10.core.http_session import open_session
from gb10.core.proc import capture
from gb10.core.store import Store, file_sha256, open_store
from gb10.errors import FetchError, UsageError
from gb10.image.rootfs.configure import User
from gb10.image.rootfs.unpack import is_dropped, merged, write_rootfs
from gb10.sources.debian.mirror import LockedDeb, fetch_debs
from gb10.sources.debian.resolve import resolve_set
from tests.integration.debian_roots import resolved

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SUITE = "trixie"
SUITES = {"trixie": {"python3.13", "g++-14"}, "bookworm": {"python3.11", "g++-12"}}
MERGED = ("bin", "lib", "lib64", "sbin")
PACKAGES = ("ca-certificates", "g++", "libibverbs1", "libnuma1", "libpython3-dev", "python3")
EPOCH = 1_789_000_000
USER = User(name="gb10", uid=10001, home="/home/gb10")
HOST = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
FOREIGN = {"amd64": "arm64", "arm64": "amd64"}[HOST]
ELF_MACHINES = {"amd64": 62, "arm64": 183}
PROGRAM = (
    '#include <cstdio>\n#include <vector>\nint main() { std::vector<int> v{42}; std::printf("%d\\n", v.at(0)); }\n'
)
SCRIPT = (
    "import bz2, ctypes, lzma, sqlite3, ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'] > 99)"
)
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}

DIFFERENT = (
    "etc/ca-certificates.conf",  # ours has no comment
    "etc/ld.so.cache",  # compared by ldconfig -p
    "etc/python3/debian_config",  # ours has another comment
    "var/cache/ldconfig/",
    "var/lib/dpkg/",  # compared by dpkg-query and dpkg --audit
)
ONLY_DPKG_MAKES = (
    "etc/.pwd.lock",
    "etc/group-",
    "etc/gshadow-",
    "etc/passwd-",
    "etc/shadow-",
    "etc/hosts",
    "etc/rc",  # bookworm's links to start scripts
    "etc/systemd/",
    "usr/local/share/man/man",  # base-files makes this link anew on each run
    "run/",
    "var/cache/debconf/",
    "var/lib/pam/",
    "var/lib/python",
    "var/lib/shells.state",
    "var/lib/systemd/",
    "var/log/",
)
"""Logs, locks, caches and units of an init that no container runs."""


class Base:
    """One architecture's packages, tar and unpacked tree."""

    def __init__(self, store: Store, folder: Path, architecture: str, suite: str = SUITE) -> None:
        self.folder, self.suite = folder, suite
        self.locked = resolved(*PACKAGES, suite=suite, architecture=architecture)
        with open_session(os.environ) as session:
            self.debs = fetch_debs(session, store, os.environ, self.locked)
        self.tar = folder / "rootfs.tar"
        write_rootfs(self.debs, self.tar, epoch=EPOCH, user=USER)
        self.root = self.extract("root")

    def extract(self, name: str) -> Path:
        """The tree anew, for a test that changes it."""
        root = self.folder / name
        root.mkdir()
        capture(
            [
                "tar",
                "--extract",
                "--preserve-permissions",
                "--numeric-owner",
                f"--file={self.tar}",
                f"--directory={root}",
            ]
        )
        return root


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store(os.environ)


@pytest.fixture(
    scope="module", params=[SUITE, *(pytest.param(one, marks=pytest.mark.long) for one in SUITES if one != SUITE)]
)
def native(store: Store, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Base:
    assert os.geteuid() == 0, "these tests unpack owners and call chroot: run them as root"
    return Base(store, tmp_path_factory.mktemp("native"), HOST, request.param)


@pytest.fixture(scope="module")
def foreign(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(store, tmp_path_factory.mktemp("foreign"), FOREIGN)


def inside(root: Path, *argv: str) -> str:
    return capture(["chroot", str(root), *argv], env=ENVIRONMENT)


def scan(root: Path) -> dict[str, tuple[object, ...]]:
    """Every path with its mode, owner and content or target."""
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        status = path.lstat()
        content: object = None
        if stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(root))] = (oct(status.st_mode), status.st_uid, status.st_gid, content)
    return found


def elf_machine(path: Path) -> int | None:
    with path.open("rb") as file:
        head = file.read(20)
    return int(struct.unpack_from("<H", head, 18)[0]) if head[:4] == b"\x7fELF" else None


def test_the_lock_names_packages_by_pool_path_and_holds_the_essentials(native: Base) -> None:
    names = {deb.name for deb in native.locked}
    assert {"bash", "dpkg", "libc6", "perl-base", *SUITES[native.suite]} <= names
    assert all(deb.path.startswith("pool/") and deb.architecture in (HOST, "all") for deb in native.locked)
    assert [path.stat().st_size for path in native.debs] == [deb.size for deb in native.locked]


def test_the_same_packages_in_another_order_give_the_same_bytes(native: Base) -> None:
    small = [path for path in native.debs if path.stat().st_size < 2_000_000]
    tars = [native.folder / "one.tar", native.folder / "two.tar"]
    for tar, debs in zip(tars, (small, small[::-1]), strict=True):
        write_rootfs(debs, tar, epoch=EPOCH, user=USER)
    assert file_sha256(tars[0]) == file_sha256(tars[1])


def test_every_packaged_file_is_the_one_dpkg_unpacks(native: Base) -> None:
    reference = native.folder / "reference"
    (reference / "usr").mkdir(parents=True)
    for name in MERGED:
        (reference / name).symlink_to(f"usr/{name}")
        (reference / "usr" / name).mkdir()
    for deb in native.debs:
        capture(["dpkg-deb", "--extract", str(deb), str(reference)])
    expected, ours = scan(reference), scan(native.root)
    assert all(native.root.joinpath(name).readlink() == Path("usr", name) for name in MERGED)
    replaced = ("var/run", "var/lock", *MERGED)  # the latter are directories in bookworm's packages
    wrong = [p for p, entry in expected.items() if not is_dropped(p) and p not in replaced and ours[merged(p)] != entry]
    assert not wrong


def test_dpkg_sees_every_package_as_installed(native: Base) -> None:
    query = ["dpkg-query", f"--admindir={native.root}/var/lib/dpkg", "--show", "--showformat"]
    listed = capture([*query, "${Package} ${Version} ${Architecture} ${db:Status-Status}\\n"]).splitlines()
    assert sorted(listed) == sorted(f"{deb.name} {deb.version} {deb.architecture} installed" for deb in native.locked)
    assert inside(native.root, "dpkg", "--audit") == ""
    missing = [line.split()[-1] for line in inside(native.root, "dpkg", "--verify").splitlines()]
    assert [path for path in missing if not is_dropped(path.lstrip("/"))] == []


def test_maintainer_scripts_have_nothing_left_to_do(native: Base) -> None:
    """All postinst scripts really run in a copy: they find everything done but what is listed above."""
    root = native.extract("configured")
    status = root / "var/lib/dpkg/status"
    status.write_text(status.read_text().replace("Status: install ok installed", "Status: install ok unpacked"))
    before = scan(root)
    (root / "dev/null").touch(0o666)
    inside(root, "dpkg", "--configure", "--pending")
    (root / "dev/null").unlink()
    after = scan(root)
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    known = (*DIFFERENT, *ONLY_DPKG_MAKES)
    assert sorted(path for path in changed if not path.startswith(known) and not undone(path)) == []


def undone(path: str) -> bool:
    """Byte code, dropped documents, and links to single certificates (OpenSSL is pointed to the bundle)."""
    certificate = path.startswith("etc/ssl/certs/") and path != "etc/ssl/certs/ca-certificates.crt"
    return certificate or "__pycache__" in path or is_dropped(path)


def test_native_base_runs_python_compiles_and_finds_libraries(native: Base) -> None:
    root = native.extract("running")
    (root / "hello.cpp").write_text(PROGRAM)
    inside(root, "c++", "-O1", "/hello.cpp", "-o", "/hello")
    assert inside(root, "/hello") == "42\n"
    assert inside(root, "python3", "-c", SCRIPT) == "True\n"
    assert inside(root, "awk", "BEGIN { print 1 }") == "1\n"
    assert inside(root, "su", "gb10", "-c", "id -u; touch ~/mine") == "10001\n"
    ours = inside(root, "ldconfig", "--print-cache").splitlines()
    inside(root, "ldconfig")
    theirs = inside(root, "ldconfig", "--print-cache").splitlines()
    assert ours[1:] == [line for line in theirs[1:] if not line.startswith("Cache generated by")]


@pytest.mark.long
def test_foreign_base_holds_only_its_own_machine_code(foreign: Base) -> None:
    files = [path for path in foreign.root.rglob("*") if path.is_file() and not path.is_symlink()]
    machines = [machine for path in files if (machine := elf_machine(path)) is not None]
    assert len(machines) > 300
    assert set(machines) == {ELF_MACHINES[FOREIGN]}


def test_foreign_base_runs_python_and_compiles_cxx_under_qemu(store: Store, foreign: Base, tmp_path: Path) -> None:
    """qemu-user, called by its path on each program: nothing is registered with the kernel."""
    root = foreign.root
    qemu = [str(emulator(store)), "-L", str(root)]
    assert capture([*qemu, f"{root}/usr/bin/python3.13", "-c", SCRIPT]) == "True\n"
    (tmp_path / "hello.cpp").write_text(PROGRAM)
    for argv in driver_commands(qemu, root, tmp_path):
        capture([*qemu, *argv], cwd=tmp_path)
    assert elf_machine(tmp_path / "hello") == ELF_MACHINES[FOREIGN]
    assert capture([*qemu, str(tmp_path / "hello")]) == "42\n"


def emulator(store: Store) -> Path:
    """Debian's qemu for the foreign architecture, a static program that is kept between runs."""
    return fetch_emulator(store, os.environ, PROGRAMS[FOREIGN][0])


def driver_commands(qemu: list[str], root: Path, folder: Path) -> list[list[str]]:
    """The compiler, assembler and linker calls that g++ would make, each program by its path below ``root``."""
    target = {"arm64": "aarch64-linux-gnu", "amd64": "x86_64-linux-gnu"}[FOREIGN]
    gxx = f"{root}/usr/bin/{target}-g++-14"
    script = f"{shlex.join([*qemu, gxx, f'--sysroot={root}', '-O1', '-###', 'hello.cpp', '-o', 'hello'])} 2>&1"
    calls = [
        shlex.split(line) for line in capture(["sh", "-c", script], cwd=folder).splitlines() if line.startswith(" ")
    ]
    return [[program(root, argv[0]), *argv[1:]] for argv in calls]


def program(root: Path, name: str) -> str:
    """Below ``root``; the linker itself for collect2, which would start it without the emulator."""
    path = Path(name)
    if path.name == "collect2":
        return str(next((root / "usr/bin").glob("*-linux-gnu-ld.bfd")))
    return name if path.is_relative_to(root) else f"{root}{path}" if path.is_absolute() else f"{root}/usr/bin/{name}"


def test_a_mirror_that_dropped_a_version_names_both_remedies(store: Store) -> None:
    gone = LockedDeb(
        name="bash",
        version="1.0-1",
        architecture=HOST,
        path="pool/main/b/bash/bash_1.0-1_none.deb",
        sha256="0" * 64,
        size=1,
    )
    with open_session(os.environ) as session, pytest.raises(FetchError, match="no longer has bash") as error:
        fetch_debs(session, store, os.environ, [gone])
    assert "lock --upgrade base" in str(error.value)
    assert "GB10_DEBIAN_MIRROR" in str(error.value)


def test_a_package_that_does_not_exist_is_a_mistake_in_the_recipe(store: Store) -> None:
    with pytest.raises(UsageError, match="apt cannot install") as error:
        resolve_set(store, os.environ, suite=SUITE, architecture=HOST, packages=("libnum.1",))
    assert "libnum.1" in str(error.value)
    assert not list((store.root / "tmp").glob("apt-*"))


def test_a_suite_that_the_mirror_lacks_is_a_fetch_error(store: Store) -> None:
    with pytest.raises(FetchError, match="cannot read Debian nonesuch"):
        resolve_set(store, os.environ, suite="nonesuch", architecture=HOST, packages=())
