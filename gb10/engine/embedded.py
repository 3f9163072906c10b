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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gb10.engine import processes
from gb10.engine.connection import Endpoint, Engine, UnreachableError, probe
from gb10.engine.namespace import entering, leave
from gb10.engine.packages import Programs, unpack, unpacked
from gb10.engine.privileges import require_privileges
from gb10.errors import EngineError
from gb10.proc import capture, last_lines, spawn
from gb10.store import Store

RUN = Path("/run")
START_SECONDS = 60.0
STOP_SECONDS = 30.0
CONFIGURATION = {
    "features": {"containerd-snapshotter": False},
    "userland-proxy": False,
    "builder": {"gc": {"enabled": True, "policy": [{"keepStorage": "200GB", "all": True}]}},
}
"""The classic image store: an image costs its size once on disk and 3 s a GB to export, in containerd's three times and
15 s (docs/design.md, "Measured"). Docker's default collects cache mounts after two days: ours waits."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the store's engine lives: data and log in the store, sockets and run-time state in /run."""

    store: Store

    @property
    def name(self) -> str:
        return f"gb10-{hashlib.sha256(os.fsencode(self.store.root.resolve())).hexdigest()[:12]}"

    @property
    def cgroup(self) -> str:
        """Told apart by inode too: a chroot may hold a store of the same path, and shares our cgroups."""
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
        return processes.daemons(self.home.glob("*/bin/*"), self.run)


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """What is there of the embedded engine; ``engine`` is None while it does not answer."""

    engine: Engine | None
    pid: int | None
    host: str
    log: Path
    data: Path
    versions: Mapping[str, str]
    programs: Path | None


def up(store: Store, env: Mapping[str, str]) -> Engine:
    """The running embedded engine, started when it does not run; raises EngineError with the log's last lines."""
    place = Place(store)
    with store.locked("engine"):
        running = answering(place)
        if running:
            return running
        require_privileges(env)
        programs = unpack(store, env)
        _end(place)
        return _started(place, programs, env)


def down(store: Store) -> bool:
    """Stop the embedded engine of this store and whatever a crash of it left; data stays. False when none ran."""
    place = Place(store)
    with store.locked("engine"):
        return _end(place)


def status(store: Store) -> Status:
    """What is there now; starts and changes nothing."""
    place = Place(store)
    programs = unpacked(store)
    pids = [pid for pid, program in place.daemons().items() if program == "dockerd"]
    return Status(engine=answering(place), pid=pids[0] if pids else None, host=place.endpoint.host, log=place.log,
                  data=place.data, versions=programs.versions if programs else {},
                  programs=programs.bin if programs else None)  # fmt: skip


def data_bytes(store: Store) -> int:
    """Bytes of disk that images and build cache take; reads the whole tree, so it can take seconds."""
    data = Place(store).data
    return int(capture(["du", "--summarize", "--block-size=1", str(data)]).split()[0]) if data.is_dir() else 0


def answering(place: Place) -> Engine | None:
    """The engine if it runs and answers."""
    if "dockerd" not in place.daemons().values():
        return None
    try:
        return probe(place.endpoint, "embedded")
    except UnreachableError:
        return None


def _started(place: Place, programs: Programs, env: Mapping[str, str]) -> Engine:
    (place.run / "data").mkdir(parents=True, exist_ok=True, mode=0o711)
    place.data.mkdir(parents=True, exist_ok=True)
    place.log.unlink(missing_ok=True)
    (place.run / "daemon.json").write_text(json.dumps(CONFIGURATION), encoding="utf-8")
    (place.run / "bin").unlink(missing_ok=True)
    (place.run / "bin").symlink_to(programs.bin.resolve())
    path = f"{place.run / 'bin'}:{env.get('PATH') or os.defpath}"
    pid = spawn(entering(place.run, place.data, _argv(place)), env={**env, "PATH": path}, log=place.log)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and processes.alive(pid):
        engine = answering(place)
        if engine:
            return engine
        time.sleep(processes.POLL)
    raise _failure(place, f"gave no answer in {START_SECONDS:.0f} s" if processes.alive(pid) else "ended at its start")


def _argv(place: Place) -> list[str]:
    where = ["--data-root", str(place.run / "data"), "--exec-root", str(place.run / "exec")]
    files = ["--config-file", str(place.run / "daemon.json"), "--pidfile", str(place.run / "pid")]
    network = ["--iptables=false", "--ip6tables=false", "--bridge=none"]
    return ["dockerd", *files, *where, *network, "--host", place.endpoint.host, "--cgroup-parent", place.cgroup]


def _end(place: Place) -> bool:
    """End dockerd politely, then what remains of its children, containers and build steps; clear its run directory."""
    pids = place.daemons()
    processes.end([pid for pid, program in pids.items() if program == "dockerd"], signal.SIGTERM, STOP_SECONDS)
    left = [*place.daemons(), *processes.members(place.cgroup)]
    stuck = processes.end(left, signal.SIGKILL, STOP_SECONDS)
    if stuck:
        raise EngineError(f"the embedded engine does not end: processes {', '.join(map(str, stuck))}",
                          where=str(place.log), hint="they hang in the kernel; restart the machine")  # fmt: skip
    leave(place.run)
    shutil.rmtree(place.run / "exec", ignore_errors=True)
    for name in ("docker.sock", "pid", "daemon.json", "bin"):
        (place.run / name).unlink(missing_ok=True)
    with suppress(OSError):
        (place.run / "data").rmdir()
        place.run.rmdir()
    return bool(pids)


def _failure(place: Place, what: str) -> EngineError:
    text = place.log.read_text(encoding="utf-8", errors="replace") if place.log.exists() else ""
    return EngineError(f"the embedded engine {what}", where=f"{last_lines(text, 12)}\nlog: {place.log}",
                       hint="mend what the log names; or start Docker and point to it by DOCKER_HOST")  # fmt: skip
