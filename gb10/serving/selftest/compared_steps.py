"""Steps that hold greedy answers against another server's: with drafts or without, with a switch off, another image."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gb10.errors import Gb10Error
from gb10.serving.benchmark.launcher import ARGS, ENV, Launcher
from gb10.serving.load_generator.server_pages import DRAFTS, counters, server_facts
from gb10.serving.selftest import answers
from gb10.serving.selftest.answers import Answer, Canaries
from gb10.serving.selftest.outcome import Figure, NotCheckedError, Outcome, holds, outcome_from, unchecked
from gb10.serving.selftest.scene import Greedy, Scene
from gb10.serving.selftest.server_steps import NO_THINKING, SEED, log_of

TOKENS: Final = 64
DRAFTING: Final = f"{SEED}-drafts"
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
    if "drafts" in scene.wanted:
        scene.greedy = replace(scene.greedy, canaries=answers.canaries_of(endpoint, env, DRAFTING, NO_THINKING))
    claims = {"greedy.steady": Figure(sum(steady)), "greedy.of": Figure(len(steady))}
    ranked = "" if all(one.tokens for one in rounds[0]) else "; the server names no tokens that came near"
    right = f"{sum(steady)} of {len(steady)} answers repeat themselves{ranked}"
    return holds(right, claims) if sum(steady) >= len(steady) / 2 else unchecked(right, claims)


def _others(scene: Scene, step: str, launcher: Launcher) -> tuple[list[Answer], str]:
    """What another server answers to the same questions, and its log. It runs on; the one before is ended.

    Raises NotCheckedError where it does not start or does not answer.
    """
    env = scene.ctx.env
    if scene.server is not None:
        scene.keep(scene.log_name, log_of(scene))
    scene.end_server()
    scene.why_no_server, scene.log_name = "it was ended to compare with another", f"{step}-server.log"
    try:
        scene.server = scene.stack.enter_context(launcher())
        found = [answers.greedy_answer(scene.endpoint, env, one, TOKENS) for one in answers.QUESTIONS]
    except Gb10Error as error:
        scene.keep(f"{step}-error.txt", str(error))
        raise NotCheckedError(f"the other server did not start: {error.message}") from error
    log = log_of(scene)
    scene.keep(scene.log_name, log)
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


def _other(scene: Scene) -> Callable[[Mapping[str, str]], Launcher]:
    if scene.other is None:
        raise NotCheckedError("no server of this test: --model DIR, --recipe NAME, or --launch COMMAND")
    return scene.other


def against(scene: Scene) -> Outcome:
    """Greedy answers of the server, and of another: the same, or where they part."""
    if scene.other_launcher is None:
        raise NotCheckedError("nothing to compare with: --against REF")
    ours = _ours(scene)
    _repeated(ours.steady)  # else no server is worth its start
    theirs, _ = _others(scene, "against", scene.other_launcher)
    found = compared(ours.answers, ours.steady, theirs)
    claims = {"against.same": Figure(found.same), "against.of": Figure(found.of)}
    return outcome_from(found.apart[:4], found.words, claims)


NGRAMS: Final[Mapping[str, str]] = {
    "vLLM": "--speculative-config "
    """'{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}'""",
    "SGLang": "--speculative-algorithm NGRAM --speculative-num-draft-tokens 4",
}
"""Drafts that need no second model, by engine."""
SPECULATIVE: Final = "speculative"
"""The parameter of our recipes that turns drafts on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Switch:
    """A variable by which an image leaves a choice to upstream. ``trace``: what the engine prints when it obeys."""

    variable: str
    value: str
    trace: str

    @property
    def words(self) -> str:
        """In a sentence."""
        return f"{self.variable}={self.value}"


SWITCHES: Final[Mapping[str, Switch]] = {
    "vLLM": Switch(variable="GB10_CUTLASS_MOE", value="0", trace="GB10_CUTLASS_MOE=0")
}
"""By engine; patches/vllm/0003 reads it."""


def _drafting(scene: Scene, ours: Greedy) -> dict[str, str]:
    """Parameters that turn drafts on, or off where our server makes them. Raises NotCheckedError."""
    if ours.drafting:
        if scene.asked.drafts or scene.asked.launch:
            raise NotCheckedError("the server drafts already: start it without, with {args}, and name them by --drafts")
        return {SPECULATIVE: ""}
    words = scene.asked.drafts or NGRAMS.get(ours.engine)
    if words is None:
        raise NotCheckedError(f"no drafts are known for {ours.engine or 'this engine'}: --drafts WORDS")
    return {ARGS: words}


def canaries_apart(drafting: Canaries, plain: Canaries) -> tuple[list[str], list[str]]:
    """Canaries that only drafts spoil, and those that are wrong without drafts, too. Pure."""
    wrong, anyway = [], []
    for when, batch in drafting.batches.items():
        bad = answers.batch_verdict(batch, plain.alone)
        if bad and answers.batch_verdict(plain.batches[when], plain.alone):
            anyway.append(f"{when}: {bad}")
        elif bad:
            wrong.append(f"{when}: {bad}")
    return wrong, anyway


def drafts(scene: Scene) -> Outcome:
    """Answers with drafts, and without: greedy ones are the same, and drafts spoil no canary."""
    ours = _ours(scene)
    if ours.canaries is None:
        raise NotCheckedError("the step greedy asked no canaries")
    theirs, _ = _others(scene, "drafts", _other(scene)(_drafting(scene, ours)))
    canaries = answers.canaries_of(scene.endpoint, scene.ctx.env, DRAFTING, NO_THINKING)
    count = counters(scene.endpoint, scene.ctx.env).get((DRAFTS, ""))
    drafting, plain = (ours.canaries, canaries) if ours.drafting else (canaries, ours.canaries)
    bad, anyway = canaries_apart(drafting, plain)
    scene.keep("drafts-canaries.json", {"drafts": drafting.counts, "none": plain.counts, "bad": [*bad, *anyway]})
    try:
        found = compared(ours.answers, ours.steady, theirs)
    except NotCheckedError:
        if bad:  # canaries need no answers of ours
            return outcome_from(bad, "", {"drafts.right": Figure(False)})
        raise
    made = ours.drafts if ours.drafting else count
    claims = {"drafts.same": Figure(found.same), "drafts.of": Figure(found.of)}
    if wrong := [*found.apart[:4], *bad]:
        return outcome_from(wrong, "", {**claims, "drafts.right": Figure(False)})
    if not made:
        said = "counts no drafts, so nobody knows whether it made one" if made is None else "made no draft"
        return unchecked(f"the server with drafts {said}; {found.words}", claims)
    if ours.drafting and count:
        return unchecked(f"the other server drafts, too ({count:.0f} drafts); {found.words}", claims)
    if anyway:
        said = f"canaries are wrong without drafts, too, so they say nothing of them ({anyway[0]})"
        return unchecked(f"{made:.0f} drafts; {found.words}; {said}", claims)
    met = ", ".join(f"{when} {count} met" for when, count in drafting.met.items())
    right = f"{made:.0f} drafts; {found.words}; they spoil no canary, alone or together ({met})"
    return holds(right, {**claims, "drafts.right": Figure(True)})


def switches(scene: Scene) -> Outcome:
    """Greedy answers with our choices, and with them left to upstream."""
    ours = _ours(scene)
    _repeated(ours.steady)  # else no server is worth its start
    switch = SWITCHES.get(ours.engine)
    if switch is None:
        raise NotCheckedError(f"no switch of ours is known for {ours.engine or 'this engine'}")
    theirs, log = _others(scene, "switches", _other(scene)({f"{ENV}{switch.variable}": switch.value}))
    if switch.trace not in log:
        reason = "no layer of the model asks for it, or the engine lacks our patch"
        raise NotCheckedError(f"the log does not name {switch.words}: {reason}")
    found = compared(ours.answers, ours.steady, theirs)
    wrong = [f"{switch.words}: {text}" for text in found.apart[:4]]
    claims = {
        "switches.same": Figure(found.same),
        "switches.of": Figure(found.of),
        "switches.right": Figure(not wrong),
    }
    return outcome_from(wrong, f"{switch.words}: {found.words}", claims)
