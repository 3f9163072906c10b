"""Steps that ask a server, and read its log."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from gb10.errors import Gb10Error
from gb10.serving.load_generator.server_pages import server_facts
from gb10.serving.selftest import answers, server_logs
from gb10.serving.selftest.device_compiles import Compiles, compiles_seen, judge_compiles
from gb10.serving.selftest.machine_steps import own_verb
from gb10.serving.selftest.outcome import Figure, NotCheckedError, Outcome, broken, holds, outcome_from, unchecked
from gb10.serving.selftest.scene import Scene

SEED: Final = "gb10-selftest"
NO_THINKING: Final[Mapping[str, Any]] = {"chat_template_kwargs": {"enable_thinking": False}}
"""Canaries want an answer, not a chain of thought; a template without the variable does not care."""


def log_of(scene: Scene) -> str:
    """All that the server printed, of every rank."""
    server = scene.server
    if server is None:
        raise NotCheckedError(scene.why_no_server or "no server was started")
    logs = server.logs() or {"server": server.log()}
    return "\n".join(f"== {name}\n" + "\n".join(lines) for name, lines in logs.items())


NO_WEIGHTS: Final = re.compile(
    r"offline mode is enabled|outgoing traffic has been disabled|couldn't find (?:it|them) in the cached files"
    r"|LocalEntryNotFoundError|OfflineModeIsEnabled"
)
"""As the Hub's client and Transformers end that may download nothing."""


def server(scene: Scene) -> Outcome:
    """A server starts."""
    if scene.launcher is None:
        raise NotCheckedError("no model: --model DIR, --recipe NAME, or --launch COMMAND")
    began = time.monotonic()
    try:
        with compiles_seen(lambda: processes_of(scene)) as seen:
            scene.server = scene.stack.enter_context(scene.launcher())
    except NotCheckedError as error:
        scene.why_no_server = str(error)
        raise
    except Gb10Error as error:
        scene.why_no_server = f"the server did not start: {error.message}"
        scene.keep("server.txt", str(error))
        if not scene.asked.download and NO_WEIGHTS.search(str(error)):
            scene.why_no_server = "the model's weights are not here, and nothing is downloaded unasked: --download"
            raise NotCheckedError(scene.why_no_server) from error
        return broken(
            f"{error.message}; {(error.where or '').splitlines()[0][:200] if error.where else 'no line of a log'}"
        )
    except BaseException:
        scene.why_no_server = "the server did not start in its time"
        raise
    took = time.monotonic() - began
    endpoint = scene.endpoint
    scene.keep("server.log", log_of(scene))
    scene.keep("server.json", {**scene.server.facts, "pages": server_facts(endpoint, scene.ctx.env)})
    claims = {"server.start": Figure(round(took, 1), "s")}
    if not seen.unseen:
        claims["server.start-compiles"] = Figure(seen.of_kernels)
    note = "; ".join(filter(None, (seen.words, seen.away)))
    return holds(f"healthy after {took:.0f} s; compilers meanwhile: {note}", claims)


def processes_of(scene: Scene) -> Sequence[str]:
    """What the processes of the server are told by; nothing while it has not started."""
    return scene.server.processes if scene.server else ()


TOKENS: Final = 24


def first_request(scene: Scene) -> Outcome:
    """What the first two requests wait for: compilers, and the first token."""
    endpoint, env = scene.endpoint, scene.ctx.env
    seen: list[Compiles] = []
    first_tokens = []
    for number in range(2):
        with compiles_seen(lambda: processes_of(scene), scene.caches) as compiled:
            (found,) = answers.ask(endpoint, env, [f"{number}: {answers.QUESTIONS[number]}"], TOKENS)
        if wrong := answers.failures([found]):
            return broken(f"request {number + 1}: {wrong[0]}")
        seen.append(compiled)
        first_tokens.append(found.arrived[0] if found.arrived else found.seconds)
    promised = scene.promised_kernels()
    scene.keep(
        "first-request.json",
        [
            {"processes": dict(one.processes), "files": dict(one.files), "first_token_s": round(token, 3)}
            for one, token in zip(seen, first_tokens, strict=True)
        ],
    )
    claims = {
        "first-request.first-ttft": Figure(round(first_tokens[0], 3), "s"),
        "first-request.second-ttft": Figure(round(first_tokens[1], 3), "s"),
    }
    promise = "the image promises no kernels" if promised is None else f"the image leaves {len(promised)} to the device"
    right = f"first: {seen[0].words}; second: {seen[1].words}; {promise}"
    wrong = judge_compiles(seen[0], seen[1], promised)
    if away := seen[0].away or seen[1].away:
        return outcome_from(wrong, "", claims) if wrong else unchecked(f"{away}; {right}", claims)
    return outcome_from(wrong, right, {"first-request.compiles": Figure(seen[0].of_kernels), **claims})


def backends(scene: Scene) -> Outcome:
    """The kernels that explain names, against those that the server's log names."""
    log = log_of(scene)
    named = server_logs.backends(log)
    scene.keep("backends.json", named)
    if scene.asked.model is None:
        raise NotCheckedError("explain needs the model's config.json: --model DIR")
    if not scene.asked.download and not any((scene.ctx.store.root / "explain").glob("*")):
        raise NotCheckedError("explain reads the engine's wheels, which are not here: --download fetches them, once")
    image = ("--image", scene.image_reference) if scene.image and scene.image.plan else ()
    code, found = own_verb(scene, "explain", "explain", str(scene.asked.model), *image)
    if found.get("error") or "layers" not in found:
        raise NotCheckedError(f"explain: {(found.get('error') or {}).get('message') or f'exit code {code}'}")
    chosen = [(str(row["kind"]), str(row["chosen"])) for row in found["layers"] if row.get("chosen")]
    return backends_outcome(chosen, named)


def backends_outcome(chosen: Sequence[tuple[str, str]], named: Sequence[str]) -> Outcome:
    """What the log's names say of explain's. Pure."""
    if not named:
        return unchecked("the server's log names no kernel")
    if not chosen:
        return unchecked("explain knows the kernel of no layer")
    wrong, agree = server_logs.disagreements(chosen, named)
    claims = {"backends.agree": Figure(not wrong)}
    if not wrong and not agree:
        return unchecked(f"the log names {', '.join(named)}; explain names {', '.join(k for _, k in chosen)}", claims)
    return outcome_from(
        wrong, f"{agree} of {len(chosen)} kinds of layer agree; the log names {', '.join(named)}", claims
    )


NEAR: Final = 0.1
"""Share by which our figure and the server's may differ: the server counts padding and buffers, too."""


def memory(scene: Scene) -> Outcome:
    """What the server says it holds, against recipe memory."""
    log = log_of(scene)
    weights, cache = server_logs.figure(log, server_logs.WEIGHTS), server_logs.figure(log, server_logs.CACHE)
    claims = {
        name: Figure(value, "GiB") for name, value in (("memory.weights", weights), ("memory.kv-cache", cache)) if value
    }
    scene.keep("memory.json", {name: one.document for name, one in claims.items()})
    if not claims:
        raise NotCheckedError("the server's log names no size of weights or cache")
    if scene.estimated_weights is None:
        return unchecked("the model's sizes are not known: --model DIR", claims)
    return memory_outcome(weights, scene.estimated_weights, claims)


def memory_outcome(weights: float | None, ours: float, claims: Mapping[str, Figure]) -> Outcome:
    """The server's figure beside ours, both GiB. Pure."""
    if weights is None:
        return unchecked("the server's log names no size of weights", claims)
    if abs(weights - ours) > max(NEAR * ours, 0.25):
        return broken(f"the server holds {weights:.2f} GiB of weights, recipe memory says {ours:.2f}", claims)
    return holds(f"{weights:.2f} GiB of weights, recipe memory says {ours:.2f}", claims)


def guard(scene: Scene) -> Outcome:
    """Canaries one at a time and eight at once, and prose that the guard reads."""
    endpoint, env = scene.endpoint, scene.ctx.env
    before = answers.alone(endpoint, env, 4, SEED, NO_THINKING)
    together = answers.at_once(endpoint, env, 8, before, seed=SEED, extra=NO_THINKING)
    prose = answers.ask(endpoint, env, answers.QUESTIONS[:4], 160, NO_THINKING)
    found = [one for one in (answers.guarded(each, forced=False) for each in prose) if one]
    texts = [answers.text_of(one) for one in prose]
    scene.keep("guard.json", {"alone": before.right, "eight": together.right, "answers": [one[:400] for one in texts]})
    claims = {"guard.canaries": Figure(before.right / max(1, len(before.answers)))}
    wrong = [*filter(None, [together.bad]), *dict.fromkeys(found), *dict.fromkeys(answers.failures(prose))]
    return outcome_from(
        wrong[:3], f"alone {before.right} of 4 right, at once {together.right} of {together.of}", claims
    )


def batches(scene: Scene) -> Outcome:
    """Canaries at every batch size, also between those that have a CUDA graph."""
    endpoint, env = scene.endpoint, scene.ctx.env
    most = min(scene.asked.most, scene.most_requests(log_of(scene)) or scene.asked.most)
    captured = answers.captured_sizes(log_of(scene))
    before = answers.alone(endpoint, env, 4, f"{SEED}-batches", NO_THINKING)
    done = []
    try:
        for size in answers.sizes(most, captured, quick=scene.asked.quick):
            done.append(answers.at_once(endpoint, env, size, before, seed=f"{SEED}-batches", extra=NO_THINKING))
            scene.ctx.reporter.detail(f"{size} at once: {done[-1].right} of {done[-1].of} right, {done[-1].met} met")
    finally:
        scene.keep("batches.json", [asdict(one) for one in done])
    wrong = [f"{one.size} at once: {one.bad}" for one in done if one.bad]
    claims = {"batches.most": Figure(most)}
    apart = [f"{one.size} at once: at most {one.met} answers met" for one in done if one.met < one.size]
    if apart and not wrong:
        return unchecked("; ".join(apart[:4]), claims)
    claims["batches.right"] = Figure(not wrong)
    return outcome_from(
        wrong[:4], f"sizes {done[0].size} to {done[-1].size}, {len(done)} of them; alone {before.right} of 4", claims
    )


def prefix(scene: Scene) -> Outcome:
    """The same long prompt, cold and from the cache of prefixes: the same greedy answer."""
    endpoint, env = scene.endpoint, scene.ctx.env
    length = min(3000, (scene.longest() or 4096) // 3)
    prompt = f"{time.monotonic_ns()} {answers.long_prompt(length)}"
    rounds = [answers.ask(endpoint, env, [prompt], 64)[0] for _ in range(3)]
    if wrong := answers.failures(rounds):
        return broken(wrong[0])
    texts = [answers.text_of(one) for one in rounds]
    scene.keep("prefix.json", texts)
    cold, warm = rounds[0].arrived[0], min(one.arrived[0] for one in rounds[1:])
    places = [at for one in texts[1:] if (at := answers.parting(texts[0], one)) is not None]
    claims = {
        "prefix.same": Figure(not places),
        "prefix.cold-ttft": Figure(round(cold, 3), "s"),
        "prefix.warm-ttft": Figure(round(warm, 3), "s"),
    }
    wrong = [f"the warm answer parts from the cold one at character {places[0]} of {len(texts[0])}"] if places else []
    return outcome_from(wrong, f"the first token comes after {cold:.2f} s cold and {warm:.2f} s warm", claims)


DECODE: Final = 16_384
PROMPT: Final = 12_000


def long_decode(scene: Scene) -> Outcome:
    """One long answer after a long prompt; the guard reads all of it."""
    endpoint, env = scene.endpoint, scene.ctx.env
    longest = scene.longest() or 2 * DECODE + 1024  # the answer gets half of it
    available = longest - 256
    prompt, tokens = min(PROMPT, available * 3 // 7), min(DECODE, available * 4 // 7 - available // 14)
    (found,) = answers.ask(endpoint, env, [answers.long_prompt(prompt * 3 // 4)], tokens, {"ignore_eos": True})
    text = answers.text_of(found)
    scene.keep("long-decode.txt", text)
    wrong = [*answers.failures([found]), *filter(None, [answers.guarded(found, forced=True)])]
    count = found.usage.completion if found.usage else None
    claims = {"long-decode.right": Figure(not wrong), "long-decode.tokens": Figure(count or 0)}
    if not wrong and (count or 0) < tokens // 2:
        return unchecked(f"the answer ended after {count} tokens, {tokens} were asked for", claims)
    whole = (prompt, tokens) == (PROMPT, DECODE)
    note = "" if whole else f"; the model takes {longest:,} tokens, so it is shorter than {DECODE:,} after {PROMPT:,}"
    return outcome_from(wrong, f"{count:,} tokens after {found.usage.prompt if found.usage else '?'}{note}", claims)


def speeds(scene: Scene) -> Outcome:
    """Decode and prefill at 1, 4 and 8 requests at once."""
    endpoint, env = scene.endpoint, scene.ctx.env
    longest = scene.longest() or 8192
    prompt, tokens = (256, 32) if scene.asked.quick else (min(1024, longest // 4), min(256, longest // 4))
    claims: dict[str, Figure] = {}
    rows = []
    for number in (1, 4, 8):
        found = answers.speed(endpoint, env, number, prompt * 3 // 4, tokens)
        if isinstance(found, str):
            return unchecked(f"at {number}: {found}", claims)
        claims[f"speed.decode-{number}"] = Figure(round(found.decode, 2), "tok/s")
        claims[f"speed.prefill-{number}"] = Figure(round(found.prefill, 1), "tok/s")
        rows.append({"at_once": number, "decode": found.decode, "prefill": found.prefill, "ttft": found.first_token})
    scene.keep("speed.json", rows)
    return holds(f"recorded: prompts of about {prompt} tokens, answers of {tokens}", claims)


def moe_files(scene: Scene) -> Outcome:
    """The tuned files that the server loaded for its experts."""
    loaded, defaults = server_logs.tuned_files(log_of(scene))
    scene.keep("moe-files.json", {"loaded": loaded, "defaults": defaults})
    return moe_outcome(loaded, defaults)


def moe_outcome(loaded: Sequence[str], defaults: int) -> Outcome:
    """What the log says. Pure."""
    if not loaded and not defaults:
        return unchecked("the log names no tuned file and no default: the model has no experts in Triton")
    claims = {"moe-files.loaded": Figure(bool(loaded) and not defaults)}
    if defaults:
        return broken(f"the engine took its default {defaults} times; loaded: {', '.join(loaded) or 'none'}", claims)
    return holds(f"loaded: {', '.join(loaded)}", claims)
