"""2,000 made-up recipes render as the peers render them; ``scripts/record_peers.py`` recorded what those do."""

import json
from pathlib import Path

import pytest

from gb10.models.load.loading import load_model_recipe
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import render_recipe
from tests.made_up_recipes import DIGITS, MadeUp, digest_of, made_up

RECORDED: dict[str, str] = json.loads(
    (Path(__file__).parents[1] / "data/models/made_up.json").read_text(encoding="utf-8"),
)


def digests(peer: str) -> list[str]:
    text = RECORDED[peer]
    return [text[start : start + DIGITS] for start in range(0, len(text), DIGITS)]


def rendered(case: MadeUp, peer: str) -> RenderedRecipe:
    request = RenderRequest(
        peer="eugr" if peer == "eugr" else "sparkrun",
        lenient=True,
        nodes=case.nodes,
        overrides=case.overrides,
        arguments=case.arguments,
        ray=case.ray,
    )
    return render_recipe(load_model_recipe(case.text, "recipe.yaml"), request)


def as_eugr(found: RenderedRecipe) -> str:
    if found.script is None:
        return digest_of(None)
    call, (*_, flag, name) = found.launch[0], found.launch[0]
    ranks = [rank.command for rank in found.ranks]
    return digest_of([found.script, f"{' '.join(call[:-2])} \\ \n      {flag} {name}", ranks])


def as_sparkrun(found: RenderedRecipe) -> str:
    ranks = [rank.command for rank in found.ranks]
    if found.runtime == "llama-cpp":
        ranks = ranks[:1]
    return digest_of(found.script and [found.runtime, found.script, ranks])


@pytest.mark.parametrize(("peer", "version", "spelled"), [("eugr", "1", as_eugr), ("sparkrun", "2", as_sparkrun)])
def test_made_up_recipes_are_rendered_as_the_peer_does(peer: str, version: str, spelled: object) -> None:
    assert callable(spelled)
    expected = digests(peer)
    cases = [made_up(version, number) for number in range(len(expected))]
    found = [spelled(rendered(case, peer)) for case in cases]
    assert [number for number, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]] == []
    assert sum(one != digest_of(None) for one in expected) > 250  # enough that the peer does not refuse
