"""Programs of another machine: Debian's qemu, verified by apt, unpacked into the store, registered with the kernel.

Only a mod in a foreign image needs it. The kernel keeps the interpreter open (flag F), so that it works in every
container, and forgets the registration at its next start. Of several registrations it takes the newest, so that an
old qemu of the host can stay registered below gb10's.
"""

import platform
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gb10.containers.embedded.privileges import missing_capability
from gb10.containers.failure import explained
from gb10.containers.packages import fetch_packages
from gb10.core.files import digest
from gb10.core.proc import CommandFailedError, capture
from gb10.core.store import Store
from gb10.errors import EngineError

BINFMT: Final = Path("/proc/sys/fs/binfmt_misc")
PACKAGE: Final = "qemu-user"
"""In trixie its programs are static; what was called qemu-user-static before."""
LEAST: Final = 10
"""qemu's least major version: 7.2 crashes where a program imports torch."""
OURS: Final = "gb10-"
VERSION: Final = re.compile(r"\bversion (\d+\.[\w.]+)")
ELF: Final = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"
PROGRAMS: Final[Mapping[str, tuple[str, bytes]]] = {
    "arm64": ("qemu-aarch64", ELF + b"\x02\0\xb7\0"),
    "amd64": ("qemu-x86_64", ELF + b"\x02\0\x3e\0"),
}
MASK: Final = b"\xff" * 7 + b"\0" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
"""64 bits, little end first, any ABI, executable or shared object, of exactly this machine."""
WAYS_OUT: Final = (
    "run this command once as root with CAP_SYS_ADMIN; or have root install qemu-user-static and binfmt-support;\n"
    "or build on a machine of the image's own architecture"
)


def emulated(store: Store, architecture: str) -> bool:
    """Whether the kernel runs programs of an architecture in every container, by an emulator that is new enough."""
    return bool(registrations(architecture)) and is_new(held_version(store, architecture))


def held_version(store: Store, architecture: str) -> str | None:
    """The version of the qemu by which the kernel would run a program now; None when it is no qemu, or none is there.

    The kernel keeps the file that it opened at the registration: the path may hold another version since. So it runs
    a file of this architecture that is only a header; qemu reads its options from the environment, too.
    """
    with store.folder("emulator") as work:
        probe = work / "probe"
        probe.write_bytes(PROGRAMS[architecture][1])
        probe.chmod(0o700)
        try:
            found = VERSION.search(capture([str(probe)], env={"QEMU_VERSION": "1"}))
        except CommandFailedError:
            return None
    return found and found[1]


def is_new(version: str | None) -> bool:
    """Whether a version is new enough. Pure."""
    return version is not None and int(version.partition(".")[0]) >= LEAST


def registrations(architecture: str) -> dict[str, str]:
    """The kernel's entries that serve an architecture in every container: text by name."""
    paths = [path for path in BINFMT.glob("*") if path.name not in ("register", "status")]
    texts = {path.name: path.read_text(encoding="utf-8", errors="surrogateescape") for path in paths}
    return {name: text for name, text in texts.items() if serves(text, architecture)}


def serves(entry: str, architecture: str) -> bool:
    """Whether an entry of binfmt_misc is on, kept open, and means this architecture. Pure."""
    words = dict(line.partition(" ")[::2] for line in entry.splitlines())
    magic = bytes.fromhex(words.get("magic", ""))
    return "enabled" in words and "F" in words.get("flags:", "") and magic == PROGRAMS[architecture][1]


def register(store: Store, env: Mapping[str, str], architecture: str, who: str) -> str | None:
    """Register the emulator for ``who``, fetched when the store lacks it; returns its name. Raises EngineError.

    None when it was registered already, and the table was only not mounted here (as in a container or a chroot); also
    when only an older emulator is registered, and this process may not register another.
    """
    lacking = missing_capability()
    if lacking and registrations(architecture):
        return None
    if lacking:
        raise EngineError(
            f"{who} runs programs of {architecture}, this machine is {platform.machine()}",
            where=f"no emulator is registered with the kernel, and {lacking}",
            hint=WAYS_OUT,
        )
    program, magic = PROGRAMS[architecture]
    mounted = _mount()
    if emulated(store, architecture):
        return None
    path = fetch_emulator(store, env, program)
    if not mounted:
        raise EngineError(
            f"{who} runs programs of {architecture}, and the kernel has no binfmt_misc here",
            where=str(BINFMT),
            hint=WAYS_OUT,
        )
    ours = BINFMT / f"{OURS}{program}"
    try:
        if ours.exists():
            ours.write_bytes(b"-1")  # switched off, or written by another release: the kernel removes it
        (BINFMT / "register").write_bytes(line(ours.name, magic, path))
    except OSError as error:
        raise EngineError(
            f"the kernel does not take {program}", where=f"{path}: {error.strerror}", hint=WAYS_OUT
        ) from error
    return program


def line(name: str, magic: bytes, interpreter: Path) -> bytes:
    """What the kernel reads (Documentation/admin-guide/binfmt-misc.rst): F keeps it open, P keeps argv[0]. Pure."""
    fields = [name.encode(), b"M", b"0", _escaped(magic), _escaped(MASK), bytes(interpreter), b"PF"]
    return b"".join(b"\x1f" + field for field in fields)  # a delimiter that no path has


def _escaped(pattern: bytes) -> bytes:
    return "".join(f"\\x{byte:02x}" for byte in pattern).encode()


def fetch_emulator(store: Store, env: Mapping[str, str], program: str) -> Path:
    """The emulator's program in the store."""

    def make(out: Path) -> None:
        with (
            fetch_packages(store, env, (PACKAGE,)) as debs,
            explained(f"{debs[0].name} cannot be unpacked", hint="see whether the store's disk is full, and run again"),
        ):
            capture(["dpkg-deb", "--extract", str(debs[0]), str(out / "tree")])
        (out / "tree/usr/bin" / program).rename(out / program)
        shutil.rmtree(out / "tree")

    return store.ensure("emulators", emulator_key(program), make) / program


def emulator_key(program: str) -> str:
    """The store's name for an emulator on this machine."""
    return digest([PACKAGE, program, platform.machine()])[:16]


def _mount() -> bool:
    """Whether binfmt_misc is there, mounted at its usual place where it was not.

    It stays mounted: its end is that of every registration (seen on Linux 6.18).
    """
    if not (BINFMT / "status").exists():
        try:
            capture(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)])
        except CommandFailedError:
            return False
    return (BINFMT / "register").exists()
