"""A report of selftest of a GB10 in which every claim holds, made from the claims themselves."""

from itertools import chain
from typing import Any

from gb10.serving.claims.claim_files import load_claims
from gb10.serving.claims.claim_schema import Claim, Value
from gb10.serving.selftest.step_table import STEPS

DIGEST = f"sha256:{'ab' * 32}"


def good_value(claim: Claim) -> Value:
    """A value by which a claim holds."""
    must = claim.must
    if must.exactly is not None:
        return must.exactly
    found = must.least if must.least is not None else must.most
    return 12.5 if found is None else found


def good_report() -> dict[str, Any]:
    """The whole document."""
    claims = [claim for claim in chain.from_iterable(one.claims for one in load_claims()) if claim.step]
    steps = []
    for step in STEPS:
        measured = {
            claim.id: {"value": good_value(claim), **({"unit": claim.must.unit} if claim.must.unit else {})}
            for claim in claims
            if claim.step == step.id
        }
        steps.append(
            {
                **{"id": step.id, "title": step.title, "asked": True, "result": "holds", "why": "", "seconds": 1.5},
                **{"budget_s": step.budget_s, "claims": measured, "evidence": ["machine.txt"]},
            }
        )
    machine = {
        **{"gpu": "NVIDIA GB10", "capability": "12.1", "sm_count": 48, "memory_gib": 121.7, "driver": "580.95.05"},
        **{"cuda": "13.0", "kernel": "6.11.0-1016-nvidia", "arch": "aarch64"},
    }
    image = {
        **{"reference": "gb10/vllm:0.33.0-cu130-sm121f", "digest": DIGEST, "tag": "0.33.0-cu130-sm121f"},
        **{"engine": "vllm", "release": "0.33.0", "plan": "a" * 64},
    }
    return {
        **{"schema": 1, "gb10": "0.9.0", "when": "2026-11-27T12:00:00Z", "machine": machine, "image": image},
        **{"steps": steps, "wall_s": 1800.0},
    }


def step(report: dict[str, Any], name: str) -> dict[str, Any]:
    """One step of a report."""
    found: dict[str, Any] = next(one for one in report["steps"] if one["id"] == name)
    return found
