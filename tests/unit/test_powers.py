"""What a recipe may do beside its engine: each kind is found with its line, and a plain recipe has none."""

import pytest
import yaml

from gb10.cli.recipe_files import load_file, model_names, models_folder
from gb10.cli.recipe_mods import foreign_mods
from gb10.models.load.loading import load_model_recipe
from gb10.models.powers import Power, beyond_engine, powers_of
from gb10.registries.recipe_file import RecipeFile

PLAIN = {"model": "org/m", "container": "vllm/vllm-openai:v0.33.0", "command": "vllm serve org/m \\\n  --port 1\n"}


def powers(**keys: object) -> tuple[Power, ...]:
    text = yaml.safe_dump({**PLAIN, **keys}, sort_keys=False)
    recipe = load_model_recipe(text, "x.yaml")
    return powers_of(recipe, recipe.mods)


@pytest.mark.parametrize(
    ("keys", "text", "used"),
    [
        ({"pre_exec": ["apt-get install x"]}, "pre_exec runs as root in each container: apt-get install x", False),
        ({"pre_exec": [{"copy": "a", "dest": "/b"}]}, "pre_exec runs as root", False),
        ({"post_exec": "curl x"}, "post_exec runs in the head's container: curl x", False),
        ({"post_commands": ["rm -rf ~"]}, "post_commands runs on the machine that launches: rm -rf ~", False),
        ({"mods": ["mods/a"]}, "the mod mods/a runs as root in each container, or in the image's build", True),
        ({"executor_config": {"volumes": ["/etc:/x"]}}, "mounts a path of the host: /etc:/x", False),
        ({"volumes": {"/root/.ssh": "/x"}}, "mounts a path of the host: /root/.ssh:/x", False),
        ({"executor_config": {"privileged": True}}, "its containers run with privileged: True", False),
        ({"executor_config": {"devices": ["/dev/mem"]}}, "its containers run with devices: ['/dev/mem']", False),
        ({"executor_config": {"network": "bridge"}}, "its containers run with network: bridge", False),
        ({"executor_config": {"cap_add": ["SYS_ADMIN"]}}, "its containers run with cap_add", False),
        ({"container": "ghcr.io/somebody/theirs:1"}, "its containers are of somebody's image", True),
        ({"build_args": ["--vllm-repo", "https://x/y"]}, "the image gets code from elsewhere: --vllm-repo https", True),
        ({"gb10": {"patches": ["vllm=https://x/y.diff"]}}, "the image gets a patch: vllm=https://x/y.diff", True),
        ({"command": "pip install x && vllm serve org/m"}, "the command runs more than the engine: && vllm", True),
        ({"recipe_version": "1", "env": {"A": "$(id)"}}, "the variable A runs a command: $(id)", True),
    ],
)
def test_a_power_is_found(keys: dict[str, object], text: str, used: bool) -> None:
    (found,) = powers(**keys)
    assert found.text.startswith(text)
    assert found.used == used
    assert found.line > 0


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"pre_exec": None, "mods": None, "executor_config": None, "build_args": []},
        {"executor_config": {"privileged": False, "entrypoint": "", "shm_size": "32g"}},
        {"container": "gb10/vllm:0.33.0-cu130-sm121f"},
        {"env": {"A": "$(id)"}},
    ],
)
def test_a_plain_recipe_has_none(keys: dict[str, object]) -> None:
    assert powers(**keys) == ()


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("", ""),
        ("vllm serve {model} --port {port}", ""),
        ("# a comment\nvllm serve x \\\n  --y '{\"a\": 1}' \\\n", ""),
        ("A=1 B='x y' sglang serve --model-path x", ""),
        ("python3 -m sglang.launch_server --x", ""),
        ("vllm serve x; rm -rf /", "; rm -rf /"),
        ("vllm serve x | tee log", "| tee log"),
        ("vllm serve x > /log", "> /log"),
        ("vllm serve $(cat /etc/passwd)", "( cat /etc/passwd )"),
        ("vllm serve `id`", "`id`"),
        ("apt-get update\nvllm serve x", "apt-get update"),
        ("vllm serve x\nid", "id"),
        ("/entrypoint.sh vllm serve x", "/entrypoint.sh vllm serve x"),
        ("vllm serve 'x", "vllm serve 'x"),
        ("vllm-evil serve x", "vllm-evil serve x"),
    ],
)
def test_the_part_of_a_command_that_is_no_engine(command: str, more: str) -> None:
    assert beyond_engine(command) == more


def test_our_own_recipes_do_nothing_else_but_what_is_known() -> None:
    for name in model_names():
        file = RecipeFile(models_folder() / f"{name}.yaml")
        recipe = load_file(file)
        allowed = ("the image gets a patch", "its containers are of somebody's image: nvcr.io/nvidia/tensorrt-llm")
        assert all(power.text.startswith(allowed) for power in powers_of(recipe, foreign_mods(recipe, file))), name
