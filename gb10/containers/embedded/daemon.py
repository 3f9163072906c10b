"""The embedded engine: a private dockerd over the store's programs and data; nothing of the system is changed.

It lives in a mount namespace of its own, so a crash leaves no mount behind, and sees its data below a short path in
/run, whatever the store's path is: a socket's has 108 bytes, PATH takes no ``:``, overlayfs no ``:`` and no ``,``.
"""

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gb10.containers.connection import Endpoint, Engine, UnreachableError, ping
from gb10.containers.embedded.privileges import entering, leave, require_privileges
from gb10.containers.failure import explained
from gb10.core.proc import last_lines, spawn
from gb10.core.store import Store
from gb10.errors import EngineError

if TYPE_CHECKING:
    from gb10.containers.packages import Programs

PROC = Path("/proc")
DAEMONS = ("dockerd", "containerd", "containerd-shim-runc-v2", "runc")
POLL = 0.1  # seconds


def daemons(programs: Iterable[Path], run: Path) -> dict[int, str]:
    """Pid to program of the daemons that run one of these files with ``run`` in their arguments."""
    files = {_identity(path): path.name for path in programs if path.name in DAEMONS}
    found: dict[int, str] = {}
    for pid in _pids():
        with suppress(OSError):
            # By inode: the path that /proc shows is another one from inside a chroot or a mount namespace.
            program = files.get(_identity(PROC / str(pid) / "exe"))
            if program and str(run) in (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace"):
                found[pid] = program
    return found


def members(cgroup: str) -> list[int]:
    """Pids inside the cgroup of that name, at any depth, in any hierarchy: containers and build steps."""
    found = []
    for pid in _pids():
        with suppress(OSError):
            lines = (PROC / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
            if any(cgroup in line.split(":", 2)[2].split("/") for line in lines):
                found.append(pid)
    return found


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def end(pids: list[int], number: signal.Signals, seconds: float) -> list[int]:
    """Signal the processes and wait for their end; returns those that remain."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(POLL)
    return left


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _pids() -> Iterator[int]:
    return (int(path.name) for path in PROC.iterdir() if path.name.isdigit())


RUN = Path("/run")
ANSWER_SECONDS = 120.0
"""How long an engine may be busy, or start, before we give up."""
REFUSAL_SECONDS = 20.0
"""How long a living dockerd may not listen, as in its start, before it counts as broken."""
STOP_SECONDS = 30.0
MEND = "mend what the log names; or start Docker and point to it by DOCKER_HOST"
BUSY = "wait for the run that uses it; or end it with all that it does: ./build.py engine down"
CONFIGURATION: Mapping[str, Any] = {
    "features": {"containerd-snapshotter": False},
    "userland-proxy": False,
    "builder": {"gc": {"enabled": True, "policy": [{"keepStorage": "200GB", "all": True}]}},
}
"""The classic image store: an image costs its size once on disk and 3 s a GB to export, in containerd's three times and
15 s (docs/measurements.md). Docker's default collects cache mounts after two days: ours waits."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the store's engine lives: data and log in the store, sockets and run-time state in /run."""

    store: Store

    @property
    def name(self) -> str:
        return f"gb10-{hashlib.sha256(os.fsencode(self.store.root.resolve())).hexdigest()[:12]}"

    @property
    def cgroup(self) -> str:
        """Also compares inodes: a chroot may hold a store at the same path and shares our cgroups."""
        found = self.store.root.stat()
        return f"{self.name}-{found.st_dev:x}-{found.st_ino:x}"

    @property
    def run(self) -> Path:
        return RUN / self.name

    @property
    def socket(self) -> Path:
        return self.run / "docker.sock"

    @property
    def home(self) -> Path:
        return self.store.root / "engine"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "dockerd.log"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(host=f"unix://{self.socket}", origin="embedded")

    def daemons(self) -> dict[int, str]:
        return daemons(self.home.glob("*/bin/*"), self.run)


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """The state of the embedded engine; ``engine`` is None while it does not answer."""

    engine: Engine | None
    pid: int | None
    host: str
    log: Path
    data: Path
    versions: Mapping[str, str]
    programs: Path | None


def up(store: Store, env: Mapping[str, str], *, patience: float = ANSWER_SECONDS) -> Engine:
    """The running embedded engine, started when it does not run; raises EngineError with the log's last lines.

    An engine that lives and is silent may be at another run's build: it gets ``patience`` seconds, and is never ended.
    """
    place = Place(store)
    with store.locked("engine"):
        running = _awaited(place, patience)
        if running:
            return running
        require_privileges(env)
        _end(place)
        from gb10.containers.packages import unpack_sound  # noqa: PLC0415 - for a start; most verbs only ask what runs

        programs, again = unpack_sound(store, env)
        note = f"the embedded engine's programs were damaged and fetched again: {', '.join(again)}"
        return replace(_started(place, programs, env), notes=(note,) if again else ())


def down(store: Store) -> bool:
    """Stop the embedded engine of this store and whatever a crash of it left; data stays. False when none ran."""
    place = Place(store)
    with store.locked("engine"):
        return _end(place)


def status(store: Store) -> Status:
    """The current state; starts and changes nothing."""
    from gb10.containers.packages import unpacked  # noqa: PLC0415 - for `engine status`

    place = Place(store)
    programs = unpacked(store)
    pids = [pid for pid, program in place.daemons().items() if program == "dockerd"]
    return Status(
        engine=answering(place),
        pid=pids[0] if pids else None,
        host=place.endpoint.host,
        log=place.log,
        data=place.data,
        versions=programs.versions if programs else {},
        programs=programs.bin if programs else None,
    )


def answering(place: Place) -> Engine | None:
    """The engine if it runs and answers."""
    try:
        return _probe(place)
    except UnreachableError:
        return None


def _probe(place: Place) -> Engine:
    """The engine; raises UnreachableError."""
    running = place.daemons().values()
    for program in ("dockerd", "containerd"):
        if program not in running:
            raise UnreachableError(f"its {program} does not run")
    version, api = ping(place.endpoint)
    return Engine(
        kind="embedded",
        endpoint=place.endpoint,
        version=version,
        api=api,
        data=place.data,
        containerd=CONFIGURATION["features"]["containerd-snapshotter"],
    )


def _awaited(place: Place, patience: float) -> Engine | None:
    """The engine that runs, once it answers; None when there is none, or it stopped listening."""
    start = heard = time.monotonic()
    while "dockerd" in place.daemons().values():
        try:
            return _probe(place)
        except UnreachableError as error:
            now = time.monotonic()
            heard = heard if error.refused else now
            if now - heard > REFUSAL_SECONDS:
                return None
            if now - start > patience:
                raise _failure(place, f"runs and gave no answer in {patience:.0f} s: {error}", BUSY) from error
        time.sleep(POLL)
    return None


def _started(place: Place, programs: "Programs", env: Mapping[str, str]) -> Engine:
    (place.run / "data").mkdir(parents=True, exist_ok=True, mode=0o711)
    place.data.mkdir(parents=True, exist_ok=True)
    place.log.unlink(missing_ok=True)
    (place.run / "daemon.json").write_text(json.dumps(CONFIGURATION), encoding="utf-8")
    (place.run / "bin").unlink(missing_ok=True)
    (place.run / "bin").symlink_to(programs.bin.resolve())
    path = f"{place.run / 'bin'}:{env.get('PATH') or os.defpath}"
    with explained("the embedded engine cannot be started", hint=MEND):
        entered = entering(place.run, place.data, place.cgroup, _argv(place))
        pid = spawn(entered, env={**env, "PATH": path}, log=place.log)
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline and alive(pid):
        engine = answering(place)
        if engine:
            return engine
        time.sleep(POLL)
    silent = f"gave no answer in {ANSWER_SECONDS:.0f} s"
    raise _failure(place, silent if alive(pid) else "ended at its start", MEND)


def _argv(place: Place) -> list[str]:
    where = ["--data-root", str(place.run / "data"), "--exec-root", str(place.run / "exec")]
    files = ["--config-file", str(place.run / "daemon.json"), "--pidfile", str(place.run / "pid")]
    network = ["--iptables=false", "--ip6tables=false", "--bridge=none"]
    return ["dockerd", *files, *where, *network, "--host", place.endpoint.host, "--cgroup-parent", place.cgroup]


def _end(place: Place) -> bool:
    """End dockerd politely, then what remains of its children, containers and build steps; clear its run directory."""
    pids = place.daemons()
    end([pid for pid, program in pids.items() if program == "dockerd"], signal.SIGTERM, STOP_SECONDS)
    left = [*place.daemons(), *members(place.cgroup)]
    stuck = end(left, signal.SIGKILL, STOP_SECONDS)
    if stuck:
        raise EngineError(
            f"the embedded engine does not end: processes {', '.join(map(str, stuck))}",
            where=str(place.log),
            hint="they hang in the kernel; restart the machine",
        )
    leave(place.run)
    shutil.rmtree(place.run / "exec", ignore_errors=True)
    for name in ("docker.sock", "pid", "daemon.json", "bin"):
        (place.run / name).unlink(missing_ok=True)
    with suppress(OSError):
        (place.run / "data").rmdir()
        place.run.rmdir()
    return bool(pids)


def _failure(place: Place, what: str, hint: str) -> EngineError:
    text = place.log.read_text(encoding="utf-8", errors="replace") if place.log.exists() else ""
    return EngineError(f"the embedded engine {what}", where=f"{last_lines(text, 12)}\nlog: {place.log}", hint=hint)
