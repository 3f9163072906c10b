"""Machines for ``doctor``: what cluster_trees makes, and what look.sh says beside it, as text or as a folder."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gb10.serving.checkup.collect import SCRIPT
from gb10.serving.cluster.fact_reading import read_facts
from gb10.serving.cluster.probing import script_text
from gb10.serving.doctor.host_state import Machine, read_look
from tests.cluster_trees import pair, said

Rows = Sequence[Sequence[str]]
HEALTHY: Rows = (
    ("look", "1"),
    ("page", "4096"),
    ("cache", "Cached", "9000000"),
    ("gpu", "-", "P8, 0, 208, 3003, 4.12, 41, 0x0000000000000001"),
    ("smi", "-", "CUDA Version        : 13.0"),
    ("heat", "acpitz", "46300"),
    ("journal", "kernel"),
    ("boot", "-", "Nov 23 23:11:02 spark-1 systemd-journald[412]: Journal stopped"),
)


def look_text(rows: Rows) -> str:
    """What look.sh says: these rows, and of a healthy machine those with other keys."""
    keys = {row[0] for row in rows}
    lines = [*(row for row in HEALTHY if row[0] not in keys), *rows, ("end", "")]
    return "".join("\t".join(row) + "\n" for row in lines)


def facts_text(kernel: str | None, memory: Mapping[str, int], spark: Mapping[str, Any]) -> str:
    """What the probe says of one of two Sparks with a cable, with another kernel, memory or parts."""
    lines = said(replace(pair()[0], **spark)).splitlines()
    if kernel:
        lines = [f"kernel\t{kernel}" if line.startswith("kernel\t") else line for line in lines]
    return "\n".join([*lines[:-1], *(f"memory\t{name}\t{kib}" for name, kib in memory.items()), lines[-1]])


def machine_of(
    *,
    host: str = "spark-1",
    kernel: str | None = None,
    memory: Mapping[str, int] | None = None,
    spark: Mapping[str, Any] | None = None,
    look: Rows = (),
) -> Machine:
    """A machine that is healthy but for what is given."""
    facts, now = read_facts(facts_text(kernel, memory or {}, spark or {})), read_look(look_text(look))
    assert facts
    assert now
    return Machine(host=host, facts=facts, look=now)


def whole(rows: Rows) -> list[tuple[str, ...]]:
    """The rows of a machine that is healthy but for these, with all that look.sh always says."""
    found = read_rows(look_text(rows))
    keys = {row[0] for row in found}
    return found + [tuple(row) for row in ALWAYS if row[0] not in keys]


ALWAYS: Rows = (("at", "1", "100.00"), ("at", "2", "100.50"))


def read_rows(text: str) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in text.splitlines() if line]


def write_look(root: Path, rows: Rows) -> Path:
    """The folder shows these rows to look.sh, by files and programs; the second snapshot comes while it sleeps."""
    found = whole(rows)

    def of(key: str, *first: str) -> list[tuple[str, ...]]:
        return [row[1:] for row in found if row[0] == key and row[1 : 1 + len(first)] == first]

    for number in ("1", "2"):
        folder = root / ("proc" if number == "1" else "later")
        _put(folder / "uptime", f"{of('at', number)[0][1]} 1.00")
        cores = [f"{name} {busy} 0 0 {idle} 0 0" for _, name, busy, idle in of("cpu", number)]
        _put(folder / "stat", "\n".join(["cpu  0 0 0 0 0", *cores]))
        nets = [f"{name}: {taken} 0 0 0 0 0 0 0 {sent} 0 0" for _, name, taken, sent in of("traffic", number)]
        _put(folder / "net/dev", "\n".join(["Inter-| Receive", *nets]))
    memory = (root / "proc/meminfo").read_text(encoding="utf-8") if (root / "proc/meminfo").exists() else ""
    _put(root / "proc/meminfo", memory + "".join(f"{name}: {kib} kB\n" for name, kib in of("cache")))
    for at, (zone, degrees) in enumerate(of("heat")):
        _put(root / f"sys/class/thermal/thermal_zone{at}/type", zone)
        _put(root / f"sys/class/thermal/thermal_zone{at}/temp", degrees)
    for (state,) in of("prochot"):
        _put(root / "sys/class/hwmon/hwmon0/name", "spbm")
        _put(root / "sys/class/hwmon/hwmon0/prochot", state)
    for pid, name, parent, parent_name in of("engine"):
        _put(root / f"proc/{pid}/comm", name)
        _put(root / f"proc/{pid}/stat", f"{pid} ({name}) S {parent} 0 0")
        _put(root / f"proc/{parent}/comm", parent_name)
        _put(root / f"proc/{parent}/stat", f"{parent} ({parent_name}) S 0 0 0")
    for (path,) in of("file"):
        _put(root / path.lstrip("/"), "\n".join(line for _, line in of("text", path)))
    for device, kind in of("iommu"):
        place = root / f"sys/class/infiniband/{device}/device"
        _put(place / "iommu_group/type", kind)
    _stub(root, "getconf", of("page")[0][0])
    gpu, version = "\n".join(line for _, line in of("gpu")), "\n".join(line for _, line in of("smi"))
    _stub(root, "nvidia-smi", None, f'case $1 in --version) echo "{version}" ;; *) echo "{gpu}" ;; esac')
    boot, kernel = ("\n".join(line for _, line in of(key)) for key in ("boot", "kernel"))
    cases = f"*--boot=-1*) cat <<'END'\n{boot}\nEND\n;; *--lines=1) echo '{'a line' if of('journal') else ''}' ;;"
    _stub(root, "journalctl", None, f"case \"$*\" in {cases} *) echo '{kernel}' ;; esac")
    _stub(root, "sleep", None, f"cp -r {root}/later/. {root}/proc/")
    if of("program", "docker"):
        _stub(root, "docker", "")
    return root


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


def _stub(root: Path, name: str, output: str | None, script: str = "") -> None:
    path = root / "bin" / name
    _put(path, f"#!/bin/sh\n{script or f'echo {output!r}'}")
    path.chmod(0o755)


def looked(root: Path, *shell: str) -> str:
    """What look.sh says of the folder, with no program but the stubs and coreutils."""
    for name in ("head", "cut", "tr", "tail", "timeout", "cat", "cp", "sh"):
        link, real = root / "bin" / name, shutil.which(name)
        assert real
        if not link.exists():
            link.symlink_to(real)
    script = script_text(SCRIPT).replace(":/usr/sbin:/sbin:/usr/bin:/bin", "")
    env = {"GB10_PROBE_ROOT": str(root), "PATH": str(root / "bin")}
    argv = [*(shell or ("/bin/sh",)), "-s"]
    return subprocess.run(argv, input=script, env=env, check=True, capture_output=True, text=True).stdout
