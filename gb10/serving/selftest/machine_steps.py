"""Steps that need no server: the machine, the image, the disk, and programs on the GPU."""

import json
import mmap
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gb10.core.child_sessions import leading
from gb10.core.installation import own_command
from gb10.core.proc import CommandFailedError, capture
from gb10.core.ssh import HERE
from gb10.errors import UncheckedError, VerifyError
from gb10.image.context import Context
from gb10.image.gemm.gemm_benchmarks import published_gemms
from gb10.image.recipe.arch import SHARED_MEMORY
from gb10.serving.checkup.collect import collect_host
from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.host_checks import unseen
from gb10.serving.doctor.host_state import CUDA
from gb10.serving.doctor.rule_files import load_doctor_rules
from gb10.serving.selftest.outcome import (
    Figure,
    ImageFacts,
    MachineFacts,
    NotCheckedError,
    Outcome,
    broken,
    holds,
    outcome_from,
    unchecked,
)
from gb10.serving.selftest.scene import Scene

GIB: Final = 1 << 30
QUERY: Final = ("name", "compute_cap", "driver_version", "memory.total")


def machine_facts(ctx: Context) -> MachineFacts:
    """The machine, by nvidia-smi and the kernel; what cannot be read is None."""
    system = os.uname()
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    total = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemTotal")), 0)
    facts = MachineFacts(kernel=system.release, arch=system.machine, memory_gib=round(total / GIB, 1) or None)
    try:
        row = capture(["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"], env=ctx.env)
        page = capture(["nvidia-smi"], env=ctx.env)
    except CommandFailedError:
        return facts
    values = [one.strip() for one in row.partition("\n")[0].split(",")]
    if len(values) != len(QUERY):
        return facts
    name, capability, driver, memory = values
    cuda = CUDA.search(page)
    return MachineFacts(
        gpu=name[:80],
        capability=capability if re.fullmatch(r"\d+\.\d+", capability) else None,
        driver=driver[:40],
        memory_gib=round(int(memory) / 1024, 1) if memory.isdigit() else facts.memory_gib,
        cuda=cuda[1] if cuda else None,
        kernel=facts.kernel,
        arch=facts.arch,
    )


def machine(scene: Scene) -> Outcome:
    """What doctor's rules say of this machine."""
    found = collect_host(HERE)
    rules = load_doctor_rules()
    diagnosis = diagnose(rules, Evidence(machines=(found,)))
    scene.keep(
        "machine.txt", "\n".join(f"{one.level} {one.code}: {one.shown}" for one in diagnosis.seen) or "no finding"
    )
    scene.keep("machine-facts.txt", repr(found))
    errors = [f"{one.code}: {one.shown}" for one in diagnosis.seen if one.level == "error"]
    warnings = [one.code for one in diagnosis.seen if one.level == "warning"]
    facts = scene.machine
    claims = {
        name: Figure(value, unit)
        for name, value, unit in (
            ("machine.capability", facts.capability, ""),
            ("machine.driver", facts.driver, ""),
            ("machine.memory", facts.memory_gib, "GiB"),
        )
        if value is not None
    }
    if errors:
        return broken(f"doctor finds {'; '.join(errors)}", claims)
    rows = [f"{one.what}: {one.reason}" for one in unseen(found)]
    if facts.gpu is None:
        rows.insert(0, "no GPU: nvidia-smi is missing or lists none")
    if rows:
        return unchecked(f"{'; '.join(rows)}; the rest of the machine has no error", claims)
    note = f"; warnings: {', '.join(warnings)}" if warnings else ""
    return holds(f"{len(rules)} rules of doctor, no error{note}", scene.of_gb10(claims))


LOOK: Final = 0.05


def own_verb(scene: Scene, step: str, *words: str) -> tuple[int, dict[str, Any]]:
    """A verb of ours with ``--json``, as a program of its own that ends with the step: exit code and document."""
    out, log = scene.work / f"{step}.out", scene.work / f"{step}.log"
    command = [*own_command(), *words, "--json", "--quiet"]
    try:
        with leading(
            ["sh", "-c", 'out=$0; exec "$@" >"$out"', str(out), *command], log=log, env=scene.ctx.env
        ) as child:
            while (code := child.poll()) is None:
                time.sleep(LOOK)
        text = out.read_text(encoding="utf-8", errors="replace")
        scene.keep(f"{step}-verb.log", f"+ {shlex.join(words)}\n{log.read_text(encoding='utf-8', errors='replace')}")
    finally:
        out.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise NotCheckedError(f"{words[0]} ended with exit code {code} and no result") from error
    scene.keep(f"{step}.json", found)
    return code, found


def image(scene: Scene) -> Outcome:
    """The image's proof: every file read now, and its tag names the plan that its label has."""
    if scene.image is None:
        raise NotCheckedError("no image: ./build.py pull REF, or ./build.py image; then --image REF")
    code, found = own_verb(scene, "image", "verify", scene.image_reference)
    return image_outcome(scene.image, code, (found.get("error") or {}).get("message"))


def image_outcome(facts: ImageFacts, code: int, message: str | None) -> Outcome:
    """What an image's labels and tag, and the exit of verify, say of its proof. Pure."""
    tagged = re.search(r"-([0-9a-f]{12})$", facts.tag or "")
    said = "verify finds nothing wrong" if code == 0 else str(message or f"verify exits with {code}")
    if facts.plan is None:
        return unchecked(f"not built by gb10, it has no label with a plan; {said}")
    wrong = {"image.proof": Figure(False)}
    if tagged and not facts.plan.startswith(tagged[1]):
        return broken(f"the tag names plan {tagged[1]}, the label has {facts.plan[:12]}", wrong)
    if code == UncheckedError.code:
        return unchecked("verify had to leave a part out")
    if code != 0:
        return broken(said, wrong)
    return holds(f"{said}; plan {facts.plan[:12]}", {"image.proof": Figure(True)})


CHUNK: Final = 16 << 20
SLOWER: Final = 4
"""Times that a mapped read may be slower than a plain one."""


def disk(scene: Scene) -> Outcome:
    """How fast a file of weights is read: cold, mapped as safetensors does, and from the page cache."""
    size = GIB // 2 if scene.asked.quick else GIB
    with _weights(scene, size) as (path, what):
        size = min(size, path.stat().st_size)
        figures = {
            "disk.cold-read": _timed(path, size, cold=True, read=_read),
            "disk.mapped-read": _timed(path, size, cold=True, read=_mapped),
            "disk.cached-read": _timed(path, size, cold=False, read=_read),
        }
        if figures["disk.mapped-read"] < figures["disk.cold-read"] / SLOWER:  # or was the disk busy?
            again = _timed(path, size, cold=True, read=_mapped)
            figures["disk.mapped-read"] = max(figures["disk.mapped-read"], again)
    claims = {name: Figure(round(value / 1e9, 3), "GB/s") for name, value in figures.items()}
    scene.keep("disk.json", {name: one.document for name, one in claims.items()})
    slow = figures["disk.mapped-read"] < figures["disk.cold-read"] / SLOWER
    why = f"{size / 1e9:.1f} GB of {what}"
    wrong = (
        [f"a mapped file is read {figures['disk.cold-read'] / figures['disk.mapped-read']:.1f} times slower"]
        if slow
        else []
    )
    return outcome_from(wrong, f"{why}: recorded", claims)


@contextmanager
def _weights(scene: Scene, size: int) -> Iterator[tuple[Path, str]]:
    """The largest file of the model's weights; without a model, a file that is made and removed."""
    model = scene.asked.model
    weights = sorted(model.glob("*.safetensors"), key=lambda one: one.stat().st_size) if model else []
    if weights and weights[-1].stat().st_size >= 64 << 20:
        yield weights[-1], "the model's weights"
        return
    status = os.statvfs(scene.folder.path)
    free = status.f_bavail * status.f_frsize
    if free < 2 * size:
        raise NotCheckedError(f"{free / 1e9:.1f} GB are free where the results go, {2 * size / 1e9:.1f} GB are needed")
    path = scene.folder.path / ".disk"
    try:
        with path.open("wb") as stream:
            for _ in range(size // CHUNK):
                stream.write(os.urandom(1 << 20) * (CHUNK >> 20))
            stream.flush()
            os.fsync(stream.fileno())
        yield path, "a file made for it"
    finally:
        path.unlink(missing_ok=True)


def _timed(path: Path, size: int, *, cold: bool, read: Callable[[int, int], None]) -> float:
    """Bytes a second."""
    number = os.open(path, os.O_RDONLY)
    try:
        if cold:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        read(number, size)
        return size / (time.perf_counter() - began)
    finally:
        os.close(number)


def _read(number: int, size: int) -> None:
    buffer = bytearray(CHUNK)
    for at in range(0, size, CHUNK):
        os.preadv(number, [buffer], at)


def _mapped(number: int, size: int) -> None:
    with mmap.mmap(number, size, access=mmap.ACCESS_READ) as content:
        for at in range(0, size, CHUNK):
            bytes(content[at : at + CHUNK])


SM_COUNT: Final = 48


def limits(scene: Scene) -> Outcome:
    """A block's shared memory and the number of SMs: our kernels are compiled for these."""
    found = scene.program("limits", ["device.py"]).one("device")
    claims = {
        "limits.shared-memory": Figure(int(found["shared_memory"]), "B"),
        "limits.sm-count": Figure(int(found["sm_count"])),
    }
    scene.note_device(found)
    scene.of_gb10(claims)
    wrong = []
    if found["shared_memory"] != SHARED_MEMORY:
        wrong.append(f"a block has {found['shared_memory']:,} B of shared memory, we say {SHARED_MEMORY:,}")
    if found["sm_count"] != SM_COUNT:
        wrong.append(f"the GPU has {found['sm_count']} SMs, we say {SM_COUNT}")
    return outcome_from(wrong, f"{SHARED_MEMORY:,} B and {SM_COUNT} SMs", claims)


LOW_MHZ: Final = 1000
"""A GB10 below it, under load, is stuck in its low-power state: the claim power.clock."""
LOW_SHARE: Final = 0.5
"""The same for another GPU, of its highest clock."""


def power(scene: Scene) -> Outcome:
    """The clock and the power of a busy GPU."""
    found = scene.program("power", ["power.py", "5" if scene.asked.quick else "15"]).one("power")
    claims = {
        "power.clock": Figure(int(found["clock"]), "MHz"),
        "power.draw": Figure(round(float(found["watts"]), 1), "W"),
        "power.bf16": Figure(round(float(found["tflops"]), 1), "TFLOPS"),
    }
    scene.keep("power.json", dict(found))
    return power_outcome(found, claims, low=LOW_MHZ if scene.machine.is_gb10 else LOW_SHARE * found["most"])


def power_outcome(found: Any, claims: dict[str, Figure], *, low: float) -> Outcome:  # noqa: ANN401 - the program's line
    """What the figures say; below ``low`` MHz a machine is stuck. Pure."""
    if found["use"] < 50:
        return unchecked(f"the GPU was busy for {found['use']} % of the time: the load was none", claims)
    share = found["clock"] / found["most"]
    if found["clock"] < low:
        return broken(
            f"{found['clock']} MHz under load, {share:.0%} of {found['most']} MHz, at {found['watts']:.0f} W: stuck "
            "at low power? Take the power cable off for some minutes; a reboot does not help",
            claims,
        )
    return holds(f"{share:.0%} of the highest clock, {found['most']} MHz", claims)


def modules(scene: Scene) -> Outcome:
    """Our table of what a GPU loads, against the driver's own answer."""
    roots = scene.libraries
    ran = scene.program("modules", ["modules.py", *roots])
    found = ran.one("modules")
    rows = [line for line in ran.lines if line.get("kind") == "library"]
    return modules_outcome(found, rows)


def modules_outcome(found: Any, rows: Sequence[Any]) -> Outcome:  # noqa: ANN401 - lines of the program
    """What the driver's answers say of our table. Pure."""
    counts: dict[str, int] = {}
    for row in rows:
        for name, count in row["counts"].items():
            counts[name] = counts.get(name, 0) + count

    def of(fits: Sequence[str], *, good: bool) -> tuple[int, int]:
        named = {name: count for name, count in counts.items() if name.split()[0] in fits}
        return sum(c for n, c in named.items() if n.endswith(" loads") is good), sum(named.values())

    parts = {
        "modules.native-load": of(("native",), good=True),
        "modules.family-load": of(("family", "compatible"), good=True),
        "modules.other-refused": of(("nothing", "ptx"), good=False),
    }
    claims = {name: Figure(good == total) for name, (good, total) in parts.items() if total}
    if not counts:
        return unchecked("no library with GPU code was found", claims)
    wrong = [
        f"{row['name']}: {'+'.join(one['codes'])} is {one['fit']} by our table, the driver: {one['driver']}"
        for row in rows
        for one in row["wrong"]
    ]
    right = ", ".join(f"{good} of {total} {name.partition('.')[2]}" for name, (good, total) in parts.items() if total)
    right = f"capability {found['capability']}: {found['kinds']} kinds of library, {found['libraries']} tried; {right}"
    return outcome_from(wrong[:3], right, claims)


TOLERANCE: Final = 0.0
"""Beyond the output's own rounding, relative to the sum of the products' sizes."""
OPERATOR: Final = "gb10:cutlass_moe_mm"


def numerics(scene: Scene) -> Outcome:
    """Our kernels against fp64."""
    scene.require_capability("12.", "our kernels are for capability 12.x")
    ran = scene.program("numerics", ["numerics.py", OPERATOR, "gb10_kernels"])
    return numerics_outcome(ran.one("numerics"), [line for line in ran.lines if line.get("kind") == "case"])


def numerics_outcome(found: Any, cases: Sequence[Any]) -> Outcome:  # noqa: ANN401 - lines of the program
    """What the errors say. Pure."""
    if found.get("why"):
        return unchecked(str(found["why"]))
    claims = {"numerics.worst-error": Figure(float(found["worst"]))}
    wrong = [
        f"{one['experts']} experts, n {one['n']}, k {one['k']}, scales per row {one['per_row']}, per column "
        f"{one['per_column']}: {one['beyond']:.1e} beyond rounding"
        for one in cases
        if one["beyond"] > TOLERANCE
    ]
    return outcome_from(wrong[:3], f"{found['cases']} cases within the output's rounding", claims)


ENOUGH: Final = 0.8
"""Share of a published figure from which a GEMM of ours counts as fast as it."""


def gemm(scene: Scene) -> Outcome:
    """The benchmark of our GEMMs, beside published figures."""
    scene.require_capability("12.", "the programs are for capability 12.x")
    code, found = own_verb(scene, "gemm", "bench", "gemm", "--require-gpu")
    if found.get("error"):
        message = str(found["error"].get("message"))
        return broken(message) if code == VerifyError.code else unchecked(message)
    return gemm_outcome(found, code)


def gemm_outcome(found: Any, code: int) -> Outcome:  # noqa: ANN401 - the verb's document
    """What the times say. Pure."""
    times = [line for line in found["times"] if line.get("tflops")]
    claims = {}
    slow = []
    for line in times:
        name = re.sub(r"[^a-z0-9]+", "-", f"{line['kernel']}-{line['shape']}".lower()).strip("-")
        claims[f"gemm.{name}"[:80].rstrip("-")] = Figure(round(float(line["tflops"]), 1), "TFLOPS")
        best = line.get("published")
        if best and line["tflops"] < ENOUGH * best:
            slow.append(f"{line['kernel']} {line['shape']}: {line['tflops']:.0f} TFLOPS, published {best:g}")
    if found.get("not_run") or code:
        return unchecked(str(found.get("not_run") or f"bench gemm exits with {code}"), claims)
    return outcome_from(slow, f"{len(times)} times; figures beside {published_gemms().source}", claims)


SHARE: Final = 0.25


def cap(scene: Scene) -> Outcome:
    """PyTorch's memory is capped as ``run`` does it: what is beyond is refused, and the machine lives."""
    env = {"PYTORCH_ALLOC_CONF": f"per_process_memory_fraction:{SHARE}"}
    found = scene.program("cap", ["cap.py", str(SHARE)], env).one("cap")
    return cap_outcome(found)


def cap_outcome(found: Any) -> Outcome:  # noqa: ANN401 - a line of the program
    """What happened. Pure."""
    if found.get("why"):
        return unchecked(str(found["why"]))
    claims = {"cap.refused": Figure(bool(found["refused"]))}
    wrong = []
    if not found["refused"]:
        wrong.append(f"{found['given'] / GIB:.1f} GiB were given, the cap is {found['allowed'] / GIB:.1f}")
    if not found["goes_on"]:
        wrong.append("after the refusal the process computes wrongly")
    right = f"{found['given'] / GIB:.1f} GiB of {found['allowed'] / GIB:.1f} were given, then: {found['refused'][:80]}"
    return outcome_from(wrong, right, claims)
