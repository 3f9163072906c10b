"""The cap of PyTorch's memory: how much, in which variable, for which releases, and in every form."""

import json
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from gb10.cli import main
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.estimating import cap_of, capped, fraction_of, torch_bytes_unknown, torch_knows
from gb10.models.memory.figures import GIB, load_figures
from gb10.serving.run.service import SCRIPT

CAP = "per_process_memory_fraction:0.5"
OLD, NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
RECIPE = """\
recipe_version: "2"
model: nobody/unknown
runtime: vllm
container: {image}
env: {{{env}}}
command: {command}vllm serve {{model}} --gpu-memory-utilization 0.5 --port 8000
"""


@pytest.mark.parametrize(
    ("image", "engine", "known"),
    [
        ("gb10/vllm:0.33.0-cu130-sm121f", "vllm", True),
        ("registry.example:5000/gb10/sglang:0.5.23-cu130-sm121f-f49d8427d7cf", "sglang", True),
        ("gb10/vllm:0.33.0-cu130-sm121f@sha256:" + "0" * 64, "vllm", True),
        ("vllm/vllm-openai:v0.17.0", "vllm", True),
        ("vllm/vllm-openai:v0.16.0-aarch64", "vllm", False),
        ("lmsysorg/sglang:v0.5.11.post1-cu130", "sglang", True),
        ("docker.io/scitrera/dgx-spark-sglang:0.5.10", "sglang", False),
        ("scitrera/dgx-spark-sglang:0.5.10.post1", "sglang", False),
        ("vllm/vllm-openai:nightly", "vllm", None),
        ("vllm/vllm-openai:latest", "vllm", None),
        ("nvcr.io/nvidia/vllm:26.09-py3", "vllm", None),
        ("nvcr.io/nvidia/vllm:0.33.0", "vllm", None),
        ("somebody/vllm-with-more:0.33.0", "vllm", None),
        ("registry.example/x@sha256:" + "0" * 64, "vllm", None),
        ("gb10/vllm:0.33.0-cu130-sm121f", "trtllm", None),
    ],
)
def test_an_image_takes_a_cap_when_its_release_is_known_to(image: str, engine: str, known: bool | None) -> None:
    assert torch_knows(image, engine) is known


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {NEW: CAP}),
        ({"A": "b"}, {"A": "b", NEW: CAP}),
        ({NEW: "expandable_segments:True"}, {NEW: f"expandable_segments:True,{CAP}"}),
        ({OLD: "max_split_size_mb:512,"}, {OLD: f"max_split_size_mb:512,{CAP}"}),
        (
            {OLD: "a:1", NEW: "roundup_power2_divisions:[256:1,>:8]"},
            {OLD: f"a:1,{CAP}", NEW: f"roundup_power2_divisions:[256:1,>:8],{CAP}"},
        ),
        ({OLD: ""}, {OLD: CAP}),
        ({OLD: "per_process_memory_fraction:0.9"}, {OLD: "per_process_memory_fraction:0.9"}),
    ],
)
def test_the_cap_is_added_to_what_the_user_has_set(given: dict[str, str], made: dict[str, str]) -> None:
    assert capped(given, 0.5) == made
    assert capped(given, None) == given


def test_a_cap_of_the_user_s_holds_whichever_name_pytorch_reads() -> None:
    own = "per_process_memory_fraction:0.4"
    found = capped({NEW: own, OLD: "expandable_segments:True"}, 0.5)
    assert found == {NEW: own, OLD: f"expandable_segments:True,{own}"}
    assert cap_of(found) == 0.4


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({NEW: f"a:1,{CAP}"}, 0.5),
        ({OLD: "per_process_memory_fraction: 1.0", NEW: CAP}, 1.0),
        ({OLD: "a:1", NEW: CAP}, None),
        ({NEW: "per_process_memory_fraction:x"}, None),
        ({NEW: f"backend:cudaMallocAsync,{CAP}"}, None),
        ({}, None),
    ],
)
def test_the_cap_that_pytorch_reads(environment: Mapping[str, str], found: float | None) -> None:
    assert cap_of(environment) == found


def test_the_older_name_that_an_image_sets_gets_the_cap_in_the_first_process(tmp_path: Path) -> None:
    def seen(**image: str) -> str:
        argv = ["bash", "-c", SCRIPT.read_text(encoding="utf-8"), str(tmp_path / "run/launch.sh"), "1"]
        argv.append(f"echo ${{{OLD}-unset}}")
        return subprocess.run(
            argv, check=True, capture_output=True, text=True, env={NEW: f"b:2,{CAP},c:3", **image}
        ).stdout

    assert seen() == "unset\n"
    assert seen(**{OLD: "a:1"}) == f"a:1,{CAP}\n"
    assert seen(**{OLD: ""}) == f"{CAP}\n"
    assert seen(**{OLD: "per_process_memory_fraction:0.9"}) == "per_process_memory_fraction:0.9\n"


def test_what_pytorch_may_take_is_less_than_a_node_has_beside_all_else() -> None:
    machine = Machine(figures=load_figures())
    size = torch_bytes_unknown(machine, None, nodes=1)
    assert 105 * GIB < size < 113 * GIB
    assert torch_bytes_unknown(machine, None, nodes=2) < size
    assert torch_bytes_unknown(machine, 0.95, nodes=1) >= 0.95 * machine.total
    assert torch_bytes_unknown(machine, 0.95, nodes=1, limit=60 * GIB) == 56 * GIB
    assert torch_bytes_unknown(machine, None, nodes=1, limit=1 * GIB) == 0
    assert fraction_of(machine.total * 2, machine) == 1
    assert fraction_of(machine.total // 2, machine) == 0.5


def recipe(folder: Path, *, image: str = "gb10/vllm:0.33.0-cu130-sm121f", env: str = "", command: str = "") -> str:
    path = folder / "mine.yaml"
    path.write_text(RECIPE.format(image=image, env=env, command=command), encoding="utf-8")
    return str(path)


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, str], str]:
    """The variables of the head's container, and what is said."""
    assert main(("run", *arguments, "--dry-run", "--json")) == 0
    out, said = capsys.readouterr()
    words = json.loads(out)["ranks"][0]["launch"]
    pairs = (word.partition("=") for name, word in pairwise(words) if name == "--env")
    return {name: value for name, _, value in pairs}, said


def test_run_caps_a_known_release_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, said = dry_run(capsys, recipe(tmp_path))
    cap = cap_of(found)
    assert cap is not None
    assert 0.85 < cap < 0.93
    assert f"(per_process_memory_fraction:{cap:g}; --no-torch-cap)" in said
    assert NEW not in dry_run(capsys, recipe(tmp_path), "--no-torch-cap")[0]
    assert NEW not in dry_run(capsys, recipe(tmp_path), "--no-gpus")[0]
    assert cap_of(dry_run(capsys, recipe(tmp_path), "--memory", "64")[0]) == 0.494


def test_run_keeps_what_the_recipe_or_the_user_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = dry_run(capsys, recipe(tmp_path, env=f"{OLD}: 'expandable_segments:True'"))
    assert found[OLD].startswith("expandable_segments:True,per_process_memory_fraction:0.")
    found, _ = dry_run(capsys, recipe(tmp_path), "--set", f"env.{NEW}=max_split_size_mb:64")
    assert found[NEW].startswith("max_split_size_mb:64,per_process_memory_fraction:0.")
    found, said = dry_run(capsys, recipe(tmp_path, env=f"{NEW}: '{CAP}'"))
    assert (found[NEW], "as the recipe's own per_process_memory_fraction says" in said) == (CAP, True)
    _, said = dry_run(capsys, recipe(tmp_path, env=f"{NEW}: 'backend:cudaMallocAsync'"))
    assert "nothing caps what PyTorch takes: with cudaMallocAsync" in said
    _, said = dry_run(capsys, recipe(tmp_path, command=f"env {NEW}=a:1 "))
    assert "so gb10's cap of its memory is not in it" in said


def test_run_says_why_an_image_has_no_cap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for image, why in (
        ("vllm/vllm-openai:nightly", "is not known"),
        ("vllm/vllm-openai:v0.16.0", "is older than 2.10"),
    ):
        found, said = dry_run(capsys, recipe(tmp_path, image=image))
        assert (NEW in found, f"its release of PyTorch {why}" in said) == (False, True)
        assert cap_of(dry_run(capsys, recipe(tmp_path, image=image), "--torch-cap")[0])


@pytest.mark.parametrize("form", ["script", "docker", "compose", "k8s", "systemd", "ansible", "sparkrun"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_every_form_has_the_cap(form: str, version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(recipe(tmp_path, env="A: b"))
    text = path.read_text(encoding="utf-8").replace('recipe_version: "2"', f'recipe_version: "{version}"\nname: mine')
    text = text.replace("runtime: vllm\n", "") if version == "1" else text
    path.write_text(text.replace("{model} --gpu", "nobody/unknown --gpu"), encoding="utf-8")
    assert main(("recipe", "render", str(path), "--as", form)) == 0
    out, said = capsys.readouterr()
    if (form, version) == ("script", "1"):
        assert "without a cap of PyTorch's memory" in said
        return
    assert f"{NEW}" in out
    assert "per_process_memory_fraction:0." in out
    assert main(("recipe", "render", str(path), "--as", form, "--no-torch-cap")) == 0
    assert "memory_fraction:0." not in capsys.readouterr()[0]
    if form == "sparkrun":
        assert cap_of(yaml.safe_load(out)["env"])


def test_a_script_of_version_1_that_sets_the_variable_gets_the_cap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(recipe(tmp_path, env=f"{OLD}: 'expandable_segments:True'"))
    text = path.read_text(encoding="utf-8").replace('recipe_version: "2"', 'recipe_version: "1"\nname: mine')
    text = text.replace("runtime: vllm\n", "")
    path.write_text(text.replace("{model} --gpu", "nobody/unknown --gpu"), encoding="utf-8")
    assert main(("recipe", "render", str(path), "--as", "docker")) == 0
    assert 'PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True,per_process_memory_fraction:0.' in capsys.readouterr()[0]


def test_our_recipes_may_take_what_they_ask_for_and_leave_the_node_its_reserve(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(("recipe", "memory", "qwen3.5-122b-nvfp4", "--json")) == 0
    stage = json.loads(capsys.readouterr()[0])["stages"][0]
    outside = sum(
        one["bytes"] for one in stage["items"] if one["name"] in ("system and driver", "processes of the server")
    )
    assert stage["serving"] - outside <= stage["torch_cap"] <= stage["total"] - outside - 3 * GIB
