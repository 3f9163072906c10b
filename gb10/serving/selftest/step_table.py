"""The steps in their order: what each looks at, how long it may take, and what it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gb10.errors import UsageError
from gb10.serving.selftest import compared_steps, machine_steps, node_steps, server_steps
from gb10.serving.selftest.outcome import Outcome
from gb10.serving.selftest.scene import Scene

Need = Literal["machine", "gpu", "image", "server", "nodes", "against"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step. ``budget_s``: seconds that it may take; ``quick_s`` with --quick, 0 where that leaves it out."""

    id: str
    title: str
    need: Need
    budget_s: float
    quick_s: float
    run: Callable[[Scene], Outcome]
    after: tuple[str, ...] = ()
    """Steps whose work it goes on with: they run, too, and once more after a resume."""

    def budget(self, *, quick: bool) -> float:
        """Seconds that it may take. One that was asked for by name runs with --quick, too."""
        return self.quick_s or self.budget_s if quick else self.budget_s


OTHERS: Final = ("drafts", "switches", "against")
"""Each holds answers of a server of its own, which runs in place of ours, against those of the step greedy."""
STARTS: Final = ("server", *OTHERS)
"""They start a server. What one leaves of its seconds, the next one may take, too."""
START_S: Final = 600.0
"""Seconds in which the first server must be healthy."""
AGAIN_S: Final = 165.0
"""The same for a later one: what the hour has left for it. It leans on what the starts before it leave of theirs:
docs/selftest.md says how long equal ones may take, whether they find anything in caches or not."""


def _step(name: str, need: Need, seconds: tuple[float, float], run: Callable[[Scene], Outcome], title: str) -> Step:
    serves = need in ("server", "nodes", "against") and name not in ("server", "bandwidth")
    after = ("server", "greedy") if name in OTHERS else ("server",) if serves else ()
    return Step(id=name, title=title, need=need, budget_s=seconds[0], quick_s=seconds[1], run=run, after=after)


STEPS: Final = (
    _step("machine", "machine", (30, 20), machine_steps.machine, "Machine and driver, by doctor's rules"),
    _step("disk", "machine", (45, 30), machine_steps.disk, "Weights from disk and page cache, as loaders read them"),
    _step("image", "image", (180, 0), machine_steps.image, "The image's proof, and its tag"),
    _step("limits", "gpu", (30, 20), machine_steps.limits, "Shared memory of a block, number of SMs"),
    _step("modules", "gpu", (120, 60), machine_steps.modules, "Which libraries the driver loads, against our table"),
    _step("power", "gpu", (45, 40), machine_steps.power, "Clock and power under load"),
    _step("numerics", "gpu", (90, 60), machine_steps.numerics, "Our kernels against fp64"),
    _step("cap", "gpu", (40, 40), machine_steps.cap, "Memory beyond the cap is refused"),
    _step("gemm", "gpu", (240, 0), machine_steps.gemm, "Our GEMMs, beside published figures"),
    _step("bandwidth", "nodes", (40, 0), node_steps.bandwidth, "NCCL's sum over the GPUs of this machine"),
    _step("server", "server", (START_S, 180), server_steps.server, "A server starts"),
    _step("first-request", "server", (240, 60), server_steps.first_request, "Compilers, and the first token"),
    _step("backends", "server", (60, 0), server_steps.backends, "Kernels by explain, against the server's log"),
    _step("memory", "server", (10, 10), server_steps.memory, "Memory by recipe memory, against the server's log"),
    _step("moe-files", "server", (10, 5), server_steps.moe_files, "Tuned files of experts, by the server's log"),
    _step("guard", "server", (80, 45), server_steps.guard, "Canaries, and prose that the guard reads"),
    _step("prefix", "server", (60, 0), server_steps.prefix, "A long prompt, cold and from the cache of prefixes"),
    _step("batches", "server", (240, 0), server_steps.batches, "Canaries at every batch size"),
    _step("speed", "server", (140, 0), server_steps.speeds, "Decode and prefill at 1, 4 and 8 at once"),
    _step("long-decode", "server", (480, 0), server_steps.long_decode, "16,384 tokens after a prompt of 12,000"),
    _step("greedy", "server", (110, 0), compared_steps.greedy, "Greedy answers, asked twice"),
    _step("nodes", "nodes", (10, 5), node_steps.nodes, "RoCE or sockets, by NCCL's log"),
    _step("rank-death", "nodes", (60, 0), node_steps.rank_death, "A rank is ended: seen within 15 s"),
    _step("drafts", "server", (AGAIN_S + 75, 0), compared_steps.drafts, "Answers with drafts, and without"),
    _step("switches", "server", (AGAIN_S + 35, 0), compared_steps.switches, "Answers with our kernels switched off"),
    _step("against", "against", (AGAIN_S + 35, 0), compared_steps.against, "Answers of another image or settings"),
)
WHOLE: Final = 3600.0
QUICK: Final = 600.0


def chosen(names: Sequence[str], able: frozenset[Need], *, quick: bool, experts: bool = True) -> list[Step]:
    """The steps that were named; else all that what was given allows. Raises UsageError for an unknown name. Pure.

    ``experts``: whether the model may have experts; one without has no tuned file to load, and no kernel of ours.
    """
    known = {one.id: one for one in STEPS}
    unknown = next((one for one in names if one not in known), None)
    if unknown is not None:
        raise UsageError(f"no step {unknown!r}", hint=f"the steps: {', '.join(known)}")
    if names:
        wanted = set(names)
        wanted.update(before for one in names for before in known[one].after)
        return [one for one in STEPS if one.id in wanted]
    fitting = [one for one in STEPS if one.need in able and not (quick and not one.quick_s)]
    return [one for one in fitting if experts or one.id not in ("moe-files", "switches")]


HOW: Final = {
    "image": "--image REF; ./build.py pull REF gets one",
    "gpu": "--image REF, or --python FILE of an installed engine",
    "server": "--model DIR, --recipe NAME or --launch COMMAND",
    "nodes": "--nodes A,B",
    "against": "--against REF",
}
"""What asks for the steps of a need."""


def left_out(wanted: Sequence[Step], able: frozenset[Need], *, named: bool, quick: bool) -> dict[str, str]:
    """Why each other step does not run, by its id. ``named``: by --step. Pure."""
    found = {}
    for step in STEPS:
        if step in wanted:
            continue
        if named:
            found[step.id] = f"--step {step.id}"
        elif step.need not in able:
            found[step.id] = HOW[step.need]
        elif quick and not step.quick_s:
            found[step.id] = f"--quick leaves it out; --step {step.id}"
        else:
            found[step.id] = "the model has no experts"
    return found


def left_out_lines(reasons: Mapping[str, str]) -> list[str]:
    """A line for the steps of each reason. Pure."""
    steps: dict[str, list[str]] = {}
    for step, reason in reasons.items():
        steps.setdefault(reason.partition("; --step")[0], []).append(step)
    return [f"not asked for: {', '.join(names)}: {reason}" for reason, names in steps.items()]
