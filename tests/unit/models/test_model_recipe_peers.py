"""Recipes render as the peers render them: the recipes in data/models, by eugr's launcher and by sparkrun 0.4.2.

``peers.json`` was recorded from the peers themselves: run-recipe.py --dry-run, the shell function of
launch-cluster.sh for each node, and sparkrun's own commands for one node and for several.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gb10.models.load.loading import load_model_recipe
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import render_recipe

DATA = Path(__file__).parents[1] / "data/models"
RECORDED: list[dict[str, Any]] = json.loads((DATA / "peers.json").read_text(encoding="utf-8"))


def rendered(record: dict[str, Any]) -> RenderedRecipe:
    request = RenderRequest(
        peer=record["peer"],
        nodes=tuple(record["nodes"]),
        overrides=tuple((key, value) for key, value in record["overrides"]),
        arguments=tuple(record["arguments"]),
        ray=record["ray"],
    )
    text = (DATA / record["file"]).read_text(encoding="utf-8")
    return render_recipe(load_model_recipe(text, record["file"]), request)


def name_of(record: dict[str, Any]) -> str:
    return "-".join([record["peer"], record["file"], *record["nodes"], *(key for key, _ in record["overrides"])])


@pytest.mark.parametrize("record", RECORDED, ids=name_of)
def test_script_and_commands_are_the_peers(record: dict[str, Any]) -> None:
    found = rendered(record)
    assert found.script == record["script"], found.issues
    assert [rank.command for rank in found.ranks] == record["ranks"]
    assert [rank.host for rank in found.ranks] == (record["nodes"] or ["localhost"])[: len(found.ranks)]
    if record["peer"] == "eugr":
        assert [" ".join(argv) for argv in found.launch] == [record["launch"]]
    else:
        assert found.runtime == record["runtime"]


def test_both_peers_and_several_nodes_are_recorded() -> None:
    assert {record["peer"] for record in RECORDED} == {"eugr", "sparkrun"}
    assert max(len(record["ranks"]) for record in RECORDED) >= 4
    assert {record["file"] for record in RECORDED} == {path.name for path in DATA.glob("*.yaml")}
