"""What a server says of itself beside its answers: release, settings, counters. A page that it lacks is empty."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import requests
from prometheus_client.parser import text_string_to_metric_families
from urllib3.exceptions import HTTPError

from gb10.serving.load_generator.endpoint import LARGEST, Endpoint, page

TIMEOUT_S: Final = 10
PAGES: Final = {"version": "vLLM", "get_server_info": "SGLang", "props": "llama.cpp"}
"""Pages with the release or the settings, and whose they are."""
LONGEST: Final = 20_000
"""Characters of a page that are kept."""
POSITION: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"
PREEMPTED: Final = ("vllm:num_preemptions_total", "sglang:num_retracted_reqs_total")
RUNNING: Final = ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing")
Counters = Mapping[tuple[str, str], float]
"""Values of /metrics by name and position, summed over all other labels."""


def server_facts(endpoint: Endpoint, env: Mapping[str, str]) -> dict[str, object]:
    """The pages that tell the release and the settings, by engine."""
    found: dict[str, object] = {}
    for name, engine in PAGES.items():
        text = _page(endpoint, name, env)
        try:
            said = json.loads(text) if len(text) <= LONGEST else None
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            found[engine] = said
    return found


def counters(endpoint: Endpoint, env: Mapping[str, str]) -> Counters:
    """The counters of the server; none where it has no /metrics."""
    found: dict[tuple[str, str], float] = {}
    try:
        for family in text_string_to_metric_families(_page(endpoint, "metrics", env)):
            for sample in family.samples:
                key = (sample.name, sample.labels.get("position", ""))
                found[key] = found.get(key, 0.0) + sample.value
    except (ValueError, KeyError, IndexError):  # what the parser raises for text that is no such page
        return {}
    return found


def _page(endpoint: Endpoint, name: str, env: Mapping[str, str]) -> str:
    url = f"{endpoint.url.removesuffix('/v1')}/{name}"
    try:
        with page(url, endpoint.headers, env, seconds=TIMEOUT_S, direct=endpoint.direct) as reply:
            return reply.raw.read(LARGEST, decode_content=True).decode() if reply.status_code == 200 else ""
    except (requests.RequestException, HTTPError, UnicodeDecodeError):
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """What the counters of a server gained while a load ran; None where it counts no such thing."""

    tokens_per_draft: float | None = None
    """Tokens of a step with speculation: the accepted ones and the one that every step gives."""
    accepted: tuple[float, ...] = field(default=())
    """The share of drafts whose token at each position was accepted."""
    preempted: int | None = None
    """Requests that gave their place in the cache away."""


def counter_gains(before: Counters, after: Counters) -> ServerCounts:
    """The difference of two readings. Pure."""
    drafts = _gain(before, after, (DRAFTS, ""))
    positions = sorted((key for key in after if key[0] == POSITION and key[1].isdigit()), key=lambda key: int(key[1]))
    accepted = _gain(before, after, (ACCEPTED, ""))
    return ServerCounts(
        tokens_per_draft=1 + (accepted or 0) / drafts if drafts else None,
        accepted=tuple((_gain(before, after, key) or 0) / drafts for key in positions) if drafts else (),
        preempted=_whole(_gain(before, after, (name, "")) for name in PREEMPTED),
    )


def running(found: Counters) -> int | None:
    """Requests that the server works on; None where it does not count them. Pure."""
    return _whole(found.get((name, "")) for name in RUNNING)


def _gain(before: Counters, after: Counters, key: tuple[str, str]) -> float | None:
    return after[key] - before.get(key, 0.0) if key in after else None


def _whole(values: Iterable[float | None]) -> int | None:
    return next((int(value) for value in values if value is not None and math.isfinite(value)), None)
