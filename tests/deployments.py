"""Deployments for tests: a service with odd values, as the command line makes it."""

import shlex

import yaml

from gb10.core.reporter import Reporter
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.rendered import RenderRequest
from gb10.serving.deploy.deployment import Deployment, Fabric
from gb10.serving.deploy.forms import deployment_of
from gb10.serving.run.prepare_service import RecipeSource, ServiceRequest, prepare_recipe
from gb10.serving.run.service import ContainerSettings
from gb10.serving.run.service_nodes import nodes_of

ODD = 'it\'s "$HOME" $$ $(id) ${X} %h 100% `true` \\n {{ x }} # é;'
ODD_TEXTS = (
    "$HOME $$ $(id) $$(id) $$$(NAME) ${X:-y} $",
    'it\'s "quoted" `true` \\n \\ %h %% 100%',
    "a: b # c\n- d\n\n  e \n",
    "{{ x }} {% y %} {# z #}",
    "yes",
    "1e3",
    "0x1F",
    "010",
    "1:30",
    "~",
    "",
    " ",
    "é 漢 \u2028 \x85 \x07 \t",
    ";",
    "=",
    "<<",
)
"""Each means something to one of the readers."""
COMMAND = """\
vllm serve {model} --port {port} \\
  -tp {tensor_parallel} --text {text}
"""


def recipe_text(nodes: int = 1, **more: object) -> str:
    """A recipe whose values mean something to every reader."""
    values = {
        "model": "org/model",
        "runtime": "vllm",
        "container": "registry.example/gb10/vllm:1",
        "defaults": {"port": 9000, "tensor_parallel": nodes, "text": shlex.quote(ODD)},
        "env": {"ODD": ODD, "LINES": "a\n  b \n"},
        "command": COMMAND,
    }
    return yaml.safe_dump({**values, **more}, sort_keys=False, allow_unicode=True)


def odd_recipe(nodes: int = 1, **more: object) -> ModelRecipe:
    """The same, loaded."""
    return load_model_recipe(recipe_text(nodes, **more), "odd.yaml")


def deployment(
    form: str,
    *hosts: str,
    recipe: ModelRecipe | None = None,
    options: ContainerSettings | None = None,
    rdma: str | None = None,
    functions: bool = False,
    request: RenderRequest | None = None,
) -> Deployment:
    """The deployment of a recipe, of the odd one where none is given."""
    asked = ServiceRequest(
        render=request or RenderRequest(), nodes=",".join(hosts) or None, containers=options or ContainerSettings()
    )
    source = RecipeSource(recipe=recipe or odd_recipe(max(1, len(hosts))))
    prepared = prepare_recipe(Reporter({}), source, asked, nodes_of(hosts))
    return deployment_of(prepared, form, Fabric(resource=rdma, functions=functions))
