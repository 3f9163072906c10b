"""What is chosen for a model by its config alone is a command that the engine's own parser takes."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.choose.choosing import ENGINES, PURPOSES, ModelFiles, choose
from gb10.models.choose.served_models import served_by
from gb10.models.choose.writing import recipe_text
from gb10.models.lint.served import words_of
from gb10.models.load.loading import load_model_recipe
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.figures import load_figures
from gb10.models.memory.model import FOLDER, model_of
from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from tests.e2e.explained import files_of
from tests.e2e.vllm_cpu import PLATFORMS, site
from tests.integration.pinned import pinned
from tests.unit.models.test_memory import DATA, DEFAULTS

pytestmark = pytest.mark.e2e
HERE = Path(__file__).parent
CONTAINERS: dict[str, str] = {engine: f"gb10/{engine}:{served_by(engine).release}-cu130-sm121f" for engine in ENGINES}
TEMPLATE = "{% if tools %}<tool_call>{% endif %}{% if enable_thinking %}<think>{% endif %}"
MOST_REFUSED = 20
"""Of all models and engines: those that the engine has no architecture for, or that no number of nodes holds."""


def configs() -> dict[str, dict[str, object]]:
    """Real configs of models, and the default ones of transformers; by their names."""
    found = {f"o/{kind}": {"dtype": "bfloat16", **one["config"]} for kind, one in DEFAULTS.items()}
    for path in sorted((*FOLDER.glob("*.json"), *(DATA / "configs").glob("*.json"))):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("config", {}).get("architectures"):
            found[document["model"]] = document["config"]
    return found


def commands(engine: str, refused: list[str]) -> Iterator[list[str]]:
    """The words behind the serve command, for each model and purpose."""
    machine = Machine(figures=load_figures())
    for name, config in configs().items():
        sizes = model_of(config, name, "its config")
        files = ModelFiles(name=name, fields=Fields(config), sizes=sizes, template=TEMPLATE, revision="a" * 40)
        for purpose in PURPOSES:
            try:
                choice = choose(files, machine, CONTAINERS, engine=engine, purpose=purpose)
            except UsageError as error:
                refused.append(f"{name}: {error.message}")
                break
            recipe = load_model_recipe(recipe_text(choice), "new.yaml")
            nodes = tuple(f"n{at}" for at in range(choice.launch.nodes))
            rendered = render_recipe(recipe, RenderRequest(nodes=nodes if len(nodes) > 1 else ()))
            words = words_of(rendered.serve or "", engine)
            yield words[next(at for at, word in enumerate(words) if word.startswith("-")) :]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_engines_own_parser_takes_each_command(ctx: Context, tmp_path: Path, engine: str) -> None:
    refused: list[str] = []
    asked = list(commands(engine, refused))
    assert len(asked) > 150
    assert len(refused) <= MOST_REFUSED, refused
    (tmp_path / engine).symlink_to(files_of(ctx, engine) / "site" / engine)
    triton = pinned("triton", HERE / "triton.txt", python="3.11", platform=PLATFORMS)
    path = ":".join(map(str, (tmp_path, site(), triton)))
    program = ["python3.11", str(HERE / "inside/parse_commands.py"), engine]
    ran = subprocess.run(
        program,
        input=json.dumps(asked),
        env={**os.environ, "PYTHONPATH": path, "VLLM_TARGET_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert [(one, " ".join(words)) for one, words in zip(said, asked, strict=True) if one] == []
