"""Steps that hold greedy answers against another server's: with drafts or without, with a switch off, another image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gb10.errors import Gb10Error
from gb10.serving.load.server_pages import DRAFTS, counters, server_facts
from gb10.serving.selftest import answers
from gb10.serving.selftest.answers import Answer
from gb10.serving.selftest.outcome import Figure, NotCheckedError, Outcome, holds, judged, unchecked
from gb10.serving.selftest.scene import Greedy, Scene
from gb10.serving.selftest.server_steps import NO_THINKING, SEED, log_of
from gb10.serving.trial.launcher import ARGS, ENV, Launcher

TOKENS: Final = 64
NEAR_TIE: Final = 0.5
"""Nats between two tokens, up to which rounding may decide between them: logits of 16 to 32 lie 1/8 apart in BF16, and
each of the two is off by up to one such step in each of two servers. A broken kernel takes tokens far below."""


def greedy(scene: Scene) -> Outcome:
    """Greedy answers, each asked twice: what repeats itself can be held against another server."""
    endpoint, env = scene.endpoint, scene.ctx.env
    rounds = [[answers.greedy_answer(endpoint, env, one, TOKENS) for one in answers.QUESTIONS] for _ in range(2)]
    if wrong := [one.error for found in rounds for one in found if one.error]:
        raise NotCheckedError(f"a question has no answer: {wrong[0]}")
    steady = tuple(one.text == other.text for one, other in zip(*rounds, strict=True))
    scene.greedy = Greedy(
        answers=tuple(rounds[0]),
        steady=steady,
        engine=next(iter(server_facts(endpoint, env)), ""),
        drafts=counters(endpoint, env).get((DRAFTS, "")),
        command=str(scene.running.facts.get("command", "")),
    )
    scene.keep(
        "greedy.json", [{"text": one.text, "steady": again} for one, again in zip(rounds[0], steady, strict=True)]
    )
    claims = {"greedy.steady": Figure(sum(steady)), "greedy.of": Figure(len(steady))}
    ranked = "" if all(one.tokens for one in rounds[0]) else "; the server names no tokens that came near"
    right = f"{sum(steady)} of {len(steady)} answers repeat themselves{ranked}"
    return holds(right, claims) if sum(steady) >= len(steady) / 2 else unchecked(right, claims)


def _others(scene: Scene, step: str, launcher: Launcher) -> tuple[list[Answer], str]:
    """What another server answers to the same questions, and its log. It runs on; ours is ended.

    Raises NotCheckedError where it does not start or does not answer.
    """
    env = scene.ctx.env
    scene.end_server()
    scene.why_no_server = "it was ended to compare with another"
    try:
        scene.server = scene.stack.enter_context(launcher())
        found = [answers.greedy_answer(scene.endpoint, env, one, TOKENS) for one in answers.QUESTIONS]
    except Gb10Error as error:
        scene.keep(f"{step}-error.txt", str(error))
        raise NotCheckedError(f"the other server did not start: {error.message}") from error
    log = log_of(scene)
    scene.keep(f"{step}-server.log", log)
    if wrong := next((one.error for one in found if one.error), ""):
        raise NotCheckedError(f"the other server: {wrong}")
    scene.keep(f"{step}.json", [one.text for one in found])
    return found, log


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Answers of two servers to the same questions, of those that repeat themselves."""

    same: int
    of: int
    near: tuple[str, ...]
    """Where two answers part at two tokens between which rounding decides."""
    apart: tuple[str, ...]
    """Where they part otherwise."""

    @property
    def words(self) -> str:
        """In a sentence."""
        ties = f", {len(self.near)} part where rounding decides: {'; '.join(self.near[:3])}" if self.near else ""
        return f"{self.same} of {self.of} answers are the same{ties}"


def _repeated(steady: Sequence[bool]) -> list[int]:
    """The questions whose answers repeat themselves; raises NotCheckedError when they are less than half."""
    used = [at for at, again in enumerate(steady) if again]
    if len(used) < len(steady) / 2:
        raise NotCheckedError(f"only {len(used)} of {len(steady)} greedy answers repeat themselves")
    return used


def compared(ours: Sequence[Answer], steady: Sequence[bool], theirs: Sequence[Answer]) -> Comparison:
    """Where answers part; a question whose answer does not repeat itself says nothing. Pure.

    Raises NotCheckedError when less than half of them repeat themselves.
    """
    used = _repeated(steady)
    near, apart = [], []
    for at in used:
        parting = answers.parted(ours[at], theirs[at])
        if parting is not None and parting.gap is not None and parting.gap <= NEAR_TIE:
            near.append(f"question {at + 1} at {parting.words}")
        elif parting is not None:
            apart.append(f"question {at + 1} parts at {parting.words}")
    same = len(used) - len(near) - len(apart)
    return Comparison(same=same, of=len(used), near=tuple(near), apart=tuple(apart))


def _ours(scene: Scene) -> Greedy:
    if scene.greedy is None:
        raise NotCheckedError(scene.why_no_server or "the step greedy brought no answers")
    return scene.greedy


def _comparable(scene: Scene) -> Greedy:
    """Our answers, of which enough repeat themselves: else no second server is worth its start."""
    ours = _ours(scene)
    _repeated(ours.steady)
    return ours


def against(scene: Scene) -> Outcome:
    """Greedy answers of the server, and of another: the same, or where they part."""
    if scene.other_launcher is None:
        raise NotCheckedError("nothing to compare with: --against REF")
    ours = _comparable(scene)
    try:
        theirs, _ = _others(scene, "against", scene.other_launcher)
    finally:
        scene.end_server()
    found = compared(ours.answers, ours.steady, theirs)
    claims = {"against.same": Figure(found.same), "against.of": Figure(found.of)}
    return judged(found.apart[:4], found.words, claims)


NGRAMS: Final[Mapping[str, str]] = {
    "vLLM": "--speculative-config "
    """'{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}'""",
    "SGLang": "--speculative-algorithm NGRAM --speculative-num-draft-tokens 4",
}
"""Drafts that need no second model, by engine."""
SPECULATIVE: Final = "speculative"
"""The parameter of our recipes that turns drafts on."""
SIZES: Final = (3, 8)


def drafts(scene: Scene) -> Outcome:
    """Answers with drafts, and without: greedy ones are the same, and canaries at once are right."""
    if scene.other is None:
        raise NotCheckedError("no server of this test: --model DIR, --recipe NAME, or --launch COMMAND")
    ours = _ours(scene)
    drafted = bool(ours.drafts) or "--spec" in ours.command
    if drafted and (scene.asked.drafts or scene.asked.launch):
        raise NotCheckedError("the server drafts already: start it without, with {args}, and name them by --drafts")
    words = scene.asked.drafts or NGRAMS.get(ours.engine)
    if not drafted and words is None:
        raise NotCheckedError(f"no drafts are known for {ours.engine or 'this engine'}: --drafts WORDS")
    launcher = scene.other({SPECULATIVE: ""} if drafted else {ARGS: words or ""})
    env = scene.ctx.env
    try:
        theirs, _ = _others(scene, "drafts", launcher)
        endpoint = scene.endpoint
        before = answers.alone(endpoint, env, 4, f"{SEED}-drafts", NO_THINKING)
        batches = [
            answers.at_once(endpoint, env, size, before, seed=f"{SEED}-drafts", extra=NO_THINKING) for size in SIZES
        ]
        count = counters(endpoint, env).get((DRAFTS, ""))
    finally:
        scene.end_server()
    bad = [f"{one.size} at once: {one.bad}" for one in batches if one.bad]
    try:
        found = compared(ours.answers, ours.steady, theirs)
    except NotCheckedError:
        if bad:  # canaries need no answers of ours
            return judged(bad, "", {"drafts.right": Figure(False)})
        raise
    made = ours.drafts if drafted else count
    wrong = [*found.apart[:4], *bad]
    claims = {"drafts.same": Figure(found.same), "drafts.of": Figure(found.of)}
    if not wrong and not made:
        said = "counts no drafts, so nobody knows whether it made one" if made is None else "made no draft"
        return unchecked(f"the server with drafts {said}; {found.words}", claims)
    if not wrong and drafted and count:
        return unchecked(f"the other server drafts, too ({count:.0f} drafts); {found.words}", claims)
    claims["drafts.right"] = Figure(not wrong)
    return judged(wrong, f"{made or 0:.0f} drafts; {found.words}; canaries at {SIZES} at once are right", claims)


@dataclass(frozen=True, kw_only=True, slots=True)
class Switch:
    """A variable by which an image leaves a choice to upstream. ``trace``: what the engine prints when it obeys."""

    variable: str
    value: str
    trace: str


SWITCHES: Final[Mapping[str, tuple[Switch, ...]]] = {
    "vLLM": (Switch(variable="GB10_CUTLASS_MOE", value="0", trace="GB10_CUTLASS_MOE=0"),)
}
"""By engine; patches/vllm/0003 reads it."""


def switches(scene: Scene) -> Outcome:
    """Greedy answers with our choices, and with each of them left to upstream."""
    if scene.other is None:
        raise NotCheckedError("no server of this test: --model DIR, --recipe NAME, or --launch COMMAND")
    ours = _comparable(scene)
    known = SWITCHES.get(ours.engine, ())
    if not known:
        raise NotCheckedError(f"no switch of ours is known for {ours.engine or 'this engine'}")
    found: dict[str, Comparison] = {}
    for one in known:
        launcher = scene.other({f"{ENV}{one.variable}": one.value})
        try:
            theirs, log = _others(scene, "switches", launcher)
        finally:
            scene.end_server()
        if one.trace not in log:
            reason = "no layer of the model asks for it, or the engine lacks our patch"
            raise NotCheckedError(f"the log does not name {one.variable}={one.value}: {reason}")
        found[f"{one.variable}={one.value}"] = compared(ours.answers, ours.steady, theirs)
    wrong = [f"{name}: {text}" for name, one in found.items() for text in one.apart]
    claims = {
        "switches.same": Figure(sum(one.same for one in found.values())),
        "switches.of": Figure(sum(one.of for one in found.values())),
        "switches.right": Figure(not wrong),
    }
    return judged(wrong[:4], "; ".join(f"{name}: {one.words}" for name, one in found.items()), claims)
