"""Launches as other tools write them are read by lint and import: scripts, compose files, objects of Kubernetes."""

import json
from pathlib import Path

import pytest
import yaml

from gb10.cli import main
from gb10.image.request.recipe_mods import linted
from gb10.models.issue import errors_of
from gb10.models.launches.container_launch import ContainerLaunch, interpolated, mapped_port
from gb10.models.launches.launch_forms import Launches, launches_of
from gb10.models.launches.launch_recipe import model_of, port_of
from gb10.models.lint.lint_parts import Linted
from gb10.models.lint.rule import load_rules
from gb10.models.load.loading import load_model_recipe
from gb10.models.registries.recipe_file import RecipeFile

COMMAND = "vllm serve org/m --port 8356 --gpu-memory-utilization 0.8"
WORDS = tuple(COMMAND.split())
IMAGE = "vllm/vllm-openai:v0.33.0"
ASKED = "--gpus all -p 8356:8356 -e A=b"
ARGUMENTS = COMMAND.removeprefix("vllm serve ")

SCRIPTS = {
    "one line": f"docker run --gpus all -p 8356:8356 -e A=b {IMAGE} {COMMAND}",
    "continued lines": f"docker run \\\n  --gpus all \\\n  -p 8356:8356 \\\n  -e A=b \\\n  {IMAGE} \\\n  {COMMAND}",
    "values behind =": f"docker run --gpus=all --publish=8356:8356 --env=A=b {IMAGE} {COMMAND}",
    "short options together": f"sudo docker run -itd --gpus all -p8356:8356 -eA=b {IMAGE} {COMMAND}",
    "podman": f"podman run --device nvidia.com/gpu=all -p 8356:8356 -e A=b {IMAGE} {COMMAND}",
    "another start": f"exec docker container run --rm --gpus all -p 8356:8356 -e A=b {IMAGE} {COMMAND} >log 2>&1 &",
    "the image's own entrypoint": f"docker run {ASKED} {IMAGE} {ARGUMENTS}",
    "a variable of the script": f'I="{IMAGE}"\nP=8356\ndocker run --gpus all -p $P:${{P}} -e A=b "$I" {COMMAND}',
    "a default of a variable": f"docker run --gpus all -p 8356:8356 -e A=b ${{IMAGE:-{IMAGE}}} {COMMAND}",
    "an array": f'A=(\n  serve # what\n  {ARGUMENTS}\n)\ndocker run {ASKED} --entrypoint vllm {IMAGE} "${{A[@]}}"',
    "an array in two parts": f'A=(vllm serve)\nA+=({ARGUMENTS})\ndocker run {ASKED} {IMAGE} "${{A[@]}}"',
    "a comment above": f"# docker run other\ndocker run --gpus all -p 8356:8356 -e A=b {IMAGE} {COMMAND} # end",
    "a unit of systemd": f"ExecStart=/usr/bin/docker run --gpus all -p 8356:8356 -e A=b {IMAGE} {COMMAND}",
    "an entrypoint": f"docker run {ASKED} --entrypoint vllm {IMAGE} serve {ARGUMENTS}",
}


BARE = {
    "a line": f"A=b {COMMAND}",
    "continued lines": "export A=b\nvllm serve org/m \\\n  --port 8356 \\\n  --gpu-memory-utilization 0.8 > log 2>&1 &",
    "after cd": f"cd /srv && A='b' exec {COMMAND}",
    "a pasted prompt": f"$ A=b {COMMAND}",
    "variables": "export A=b\nP=8356\nvllm serve org/m --port $P --gpu-memory-utilization 0.8",
    "variables on lines above": f"X=1 \\\nA=b \\\n{COMMAND}",
    "a condition": f"if true; then A=b {COMMAND}; fi",
    "a loop": f"while true; do\n  A=b {COMMAND}; done",
    "a function": f"serve() {{ A=b {COMMAND}; }}",
    "a command split over lines": f"A=b \\\n  vllm \\\n  serve {ARGUMENTS}",
    "uv with options": f"A=b uv run --no-sync --with vllm {COMMAND}",
    "wrappers with options": f"sudo -E -u root A=b nice -n 10 timeout 1h {COMMAND}",
    "a pipe that takes the errors, too": f"A=b {COMMAND} 2>&1 | tee log",
    "a container that it replaces": f"# instead of docker run\nA=b {COMMAND} # instead of docker run",
    "two exports in a line": f"export X=1 A=b\n{COMMAND}",
    "exports in a row": f"export X=1; export A=b && {COMMAND}",
    "an export by name": f"A=b\nexport A\n{COMMAND}",
    "declared": f"declare -x A=b\n{COMMAND}",
    "all are exported": f"set -a\nA=b\nset +a\nY=1\n{COMMAND}",
    "an export for a later command": f"export A=b\n{COMMAND}\nexport A=c",
    "an export that is corrected": f"export A=c\nexport A=b\n{COMMAND}",
    "an export that is taken back": f"export A=b Z=1\nunset Z\n{COMMAND}",
    "a value of a value": f"L=b\nA=$L {COMMAND}",
}


def server_of(text: str, file: str = "start.sh") -> ContainerLaunch:
    """The one server that a file starts."""
    launches = launches_of(text, file)
    assert launches
    (launch,) = launches.servers
    return launch


@pytest.mark.parametrize("kind", BARE)
def test_a_server_that_a_script_starts_without_a_container(kind: str) -> None:
    launch = server_of(f"#!/bin/bash\n# vllm serve other\n{BARE[kind]}\n")
    environment = {name: value for name, value in launch.environment.items() if name != "X"}
    assert (launch.form, launch.words, environment) == ("shell", WORDS, {"A": "b"})


@pytest.mark.parametrize(
    ("start", "called"),
    [
        ("python -u -m", "python -u -m"),
        ("python3.12 -X dev -um", "python3.12 -X dev -um"),
        ("exec python3 -m", "python3 -m"),
    ],
)
def test_a_module_that_python_starts_with_options(start: str, called: str) -> None:
    launch = server_of(f"{start} vllm.entrypoints.openai.api_server --model org/m\n")
    assert launch.words == (*called.split(), "vllm.entrypoints.openai.api_server", "--model", "org/m")
    assert launch.engine == "vllm"


@pytest.mark.parametrize("path", ["/opt/v/bin/", "~/v/bin/", "./v/bin/", "$VENV/bin/", "${VENV}/bin/"])
def test_a_server_by_its_path(path: str) -> None:
    launch = server_of(f"exec {path}{COMMAND}\n")
    assert launch.words == (f"{path}vllm", *WORDS[1:])


@pytest.mark.parametrize(
    "line",
    [
        "export A=$(hostname -I) Z=1",
        "A=$(hostname -I) \\",
        "A=`hostname` \\",
        "if x; then export A=1; else export A=2; fi",
    ],
)
def test_a_variable_that_only_the_shell_knows_is_left_out_with_its_line(line: str) -> None:
    launch = server_of(f"#!/bin/sh\n{line}\n{COMMAND}\n")
    assert "A" not in launch.environment
    assert [(one.line, one.written) for one in launch.left] == [(2, "A")]


def test_each_server_has_the_variables_of_its_own_place() -> None:
    script = f"export A=1\n{COMMAND} &\nexport A='$2'\nB=\"$A\" {COMMAND}\n"
    launches = launches_of(script, "start.sh")
    assert launches
    assert [one.environment for one in launches.servers] == [{"A": "1"}, {"A": "$2", "B": "$2"}]
    assert [one.line_of("env.A") for one in launches.servers] == [1, 3]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'run vllm serve org/m'\n",
        "pip install vllm\n",
        "# vllm serve org/m\n",
        "cd /srv # vllm serve org/m\n",
        "echo now; echo vllm serve org/m\n",
        "vllm serve starts a server, and then it listens\n",
        "vllm serve works.\n",
        "llama-server is fast\n",
        "Start it:\nvllm serve, then wait\n",
    ],
)
def test_what_only_names_a_server_starts_none(text: str) -> None:
    launches = launches_of(text, "start.sh")
    assert launches
    assert launches.servers == ()


def test_a_mistake_in_a_bare_command_is_found_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "start.sh"
    script.write_text("set -e\nvllm serve org/m --gpu-memory-utilization 0.8 \\\n  --max-model-length 4096\n")
    assert main(["recipe", "lint", str(script)]) == 2
    assert "start.sh:2: error: vllm 0.33.0 has no option --max-model-length" in capsys.readouterr().out


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_in_each_spelling(kind: str) -> None:
    launch = server_of(f"#!/bin/bash\nset -e\n{SCRIPTS[kind]}\n")
    assert (launch.image, launch.words, launch.engine) == (IMAGE, WORDS, "vllm")
    assert (launch.ports, launch.environment, launch.gpu) == (((8356, 8356),), {"A": "b"}, True)


COMPOSE: dict[str, dict[str, object]] = {
    "lists": {"command": list(WORDS), "environment": ["A=b"], "ports": ["8356:8356"], "gpus": "all"},
    "a text": {
        "command": COMMAND,
        "environment": {"A": "b"},
        "ports": ["127.0.0.1:8356:8356/tcp"],
        "runtime": "nvidia",
    },
    "the long form": {
        "command": list(WORDS),
        "environment": {"A": "${A:-b}"},
        "ports": [{"target": 8356, "published": "8356"}],
        "deploy": {"resources": {"reservations": {"devices": [{"driver": "nvidia", "capabilities": ["gpu"]}]}}},
    },
    "the image's own entrypoint": {
        "command": list(WORDS[2:]),
        "environment": {"A": "b"},
        "ports": ["8356:8356"],
        "gpus": "all",
    },
    "an entrypoint": {
        "entrypoint": ["vllm", "serve"],
        "command": list(WORDS[2:]),
        "environment": {"A": "b"},
        "ports": ["8356:8356"],
        "gpus": "all",
    },
}


@pytest.mark.parametrize("kind", COMPOSE)
def test_a_compose_file_in_each_spelling(kind: str) -> None:
    text = yaml.safe_dump({"services": {"db": {"image": "redis"}, "llm": {"image": IMAGE, **COMPOSE[kind]}}})
    launches = launches_of(text, "compose.yaml")
    assert launches
    assert launches.what == "a compose file"
    (launch,) = launches.servers
    assert (launch.name, launch.image, launch.words, launch.engine) == ("llm", IMAGE, WORDS, "vllm")
    assert (launch.ports, launch.environment, launch.gpu) == (((8356, 8356),), {"A": "b"}, True)


CONTAINER = {
    "name": "llm",
    "image": IMAGE,
    "args": list(WORDS),
    "env": [{"name": "A", "value": "b"}, {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    "ports": [{"containerPort": 8356}],
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}
SPEC = {"initContainers": [{"name": "i", "image": "busybox"}], "containers": [CONTAINER]}
OBJECTS: dict[str, dict[str, object]] = {
    "a pod": {"kind": "Pod", "spec": SPEC},
    "a deployment": {"kind": "Deployment", "spec": {"template": {"spec": SPEC}}},
    "a job": {"kind": "Job", "spec": {"template": {"spec": SPEC}}},
    "a timed job": {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": SPEC}}}}},
    "a group of leaders and workers": {
        "kind": "LeaderWorkerSet",
        "spec": {"leaderWorkerTemplate": {"leaderTemplate": {"spec": SPEC}}},
    },
    "a list": {"kind": "List", "items": [{"kind": "Pod", "spec": SPEC}]},
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_of_each_kind(kind: str) -> None:
    service = yaml.safe_dump({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1}]}})
    text = f"{service}---\n{yaml.safe_dump({'apiVersion': 'v1', **OBJECTS[kind]})}"
    launch = server_of(text, "x.yaml")
    assert (launch.image, launch.words, launch.environment) == (IMAGE, WORDS, {"A": "b"})
    assert (launch.ports, launch.gpu) == (((8356, 8356),), True)
    assert [one.written for one in launch.left if "object" in one.why] == ["T"]
    assert text.splitlines()[launch.line_of("image") - 1].strip().startswith("image:")


OTHER = {
    "a workflow": ("on: push\njobs: {a: {steps: []}}", "GitHub Actions"),
    "a playbook": ("- hosts: all\n  tasks: []", "Ansible"),
    "a chart": ("apiVersion: v2\nname: x\nversion: 1.0.0", "chart of Helm"),
    "values": ("image: {repository: a}\nresources: {}", "values of a chart"),
    "an object without containers": ("apiVersion: v1\nkind: ConfigMap\ndata: {}", "ConfigMap"),
    "a list": ("- 1\n- 2", "a recipe is a mapping"),
    "a router's": ("model_list: []", "LiteLLM"),
    "something else": ("alpha: 1\nbeta: 2", "its keys: alpha, beta"),
}


@pytest.mark.parametrize("kind", OTHER)
def test_another_file_is_named_for_what_it_is(kind: str, tmp_path: Path) -> None:
    text, name = OTHER[kind]
    found = lint_text(text, tmp_path / "x.yaml")
    assert found.issues == ()
    (row,) = found.unchecked
    assert (row.what, name in row.reason) == ("file", True)


RECIPES = (
    f"model: org/m\ncontainer: {IMAGE}\ncommand: {COMMAND}",
    f'recipe_version: "1"\ncontaner: {IMAGE}\ncommand: x',
    "model: org/m\nmodle: x",
    "contaner: x\ndefaults: {}\n",
    "",
    "{",
)


OURS = f"""model: org/m
container: {IMAGE}
defaults:
  port: 8356
command: |
  vllm serve {{model}} --port {{port}} --gpu-memory-utilization 0.8
"""


@pytest.mark.parametrize("name", ["m", "m.recipe", "m.txt", "m.yaml"])
@pytest.mark.parametrize("description", ["", "description: docker run x vllm serve org/m\n"])
def test_a_recipe_is_one_under_each_name(name: str, description: str, tmp_path: Path) -> None:
    assert launches_of(description + OURS, name) is None
    found = {one.code for one in lint_text(description + OURS, tmp_path / name).issues}
    assert ("no-revision" in found, "missing-placeholder" in found) == (True, False)


def test_other_files_of_yaml_are_themselves_without_a_suffix() -> None:
    shell = ["sh", "-c", f"exec {COMMAND}\n{COMMAND}\n"]
    compose = launches_of(yaml.safe_dump({"services": {"a": {"image": IMAGE, "command": shell}}}), "compose")
    assert compose
    assert compose.what == "a compose file"
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": IMAGE, "args": shell}]}}
    pods = launches_of(f"---\n{yaml.safe_dump(pod)}---\n{yaml.safe_dump(pod)}", "pods")
    assert pods
    assert pods.what.startswith("objects of Kubernetes")
    assert len(pods.found) == 2


def test_a_script_of_one_call_with_json_is_no_mapping() -> None:
    launches = launches_of("vllm serve org/m --speculative-config '{\"n\": 1}'\n", "start.sh")
    assert launches
    assert [one.words[-1] for one in launches.servers] == ['{"n": 1}']


@pytest.mark.parametrize("text", RECIPES)
def test_what_is_meant_as_a_recipe_stays_one(text: str) -> None:
    assert launches_of(text, "x.yaml") is None


def lint_text(text: str, path: Path) -> Linted:
    path.write_text(text, encoding="utf-8")
    return linted(RecipeFile(path), load_rules())


BAD = "vllm serve org/m --no-such-option 1 --attention-backend FLASHINFR"
WRONG = {
    "start.sh": f"#!/bin/sh\n\ndocker run --gpus all -e VLLM_BATCH_INVARIANT= {IMAGE} \\\n  {BAD}\n",
    "compose.yaml": yaml.safe_dump(
        {"services": {"a": {"image": IMAGE, "command": BAD, "environment": {"VLLM_BATCH_INVARIANT": "${X:-}"}}}}
    ),
    "pod.yaml": yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "image": IMAGE,
                        "args": BAD.split(),
                        "env": [{"name": "VLLM_BATCH_INVARIANT", "value": ""}],
                    }
                ]
            },
        }
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_lint_finds_in_each_form_what_it_finds_in_a_recipe(name: str, tmp_path: Path) -> None:
    found = lint_text(WRONG[name], tmp_path / name)
    codes = {one.code: one for one in found.issues}
    assert {"unknown-option", "wrong-choice", "empty-variable", "memory-share-missing"} <= set(codes)
    assert not {"missing-key", "unknown-key", "no-revision"} & set(codes)
    lines = WRONG[name].splitlines()
    assert "VLLM_BATCH_INVARIANT" in "".join(lines[codes["empty-variable"].line - 1 :][:2])


def test_an_entrypoint_of_nvidia_that_is_replaced_is_named(tmp_path: Path) -> None:
    text = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {"containers": [{"name": "a", "image": "nvcr.io/nvidia/vllm:26.08-py3", "command": list(WORDS)}]},
        }
    )
    codes = {one.code: one for one in lint_text(text, tmp_path / "x.yaml").issues}
    assert "args:" in codes["entrypoint-replaced"].fix
    args = {one.code for one in lint_text(text.replace("command:", "args:"), tmp_path / "y.yaml").issues}
    assert "entrypoint-replaced" not in args


@pytest.mark.parametrize(
    ("options", "wrong"), [("-p 80:8000", True), ("-p 80:8356", False), ("--network host", False), ("", False)]
)
def test_a_port_that_nothing_serves_is_named(options: str, wrong: bool, tmp_path: Path) -> None:
    found = lint_text(f"docker run --gpus all {options} {IMAGE} {COMMAND}\n", tmp_path / "x.sh")
    assert ("port-not-served" in {one.code for one in found.issues}) == wrong


def test_what_stands_in_another_file_is_a_row(tmp_path: Path) -> None:
    script = f"docker run --gpus all --env-file x.env -e VLLM_PORT -e HF_TOKEN {IMAGE} {COMMAND}\n"
    rows = [row.reason for row in lint_text(script, tmp_path / "x.sh").unchecked if row.what == "variables"]
    assert [("x.env" in row, "VLLM_PORT" in row) for row in rows] == [(True, False), (False, True)]


def test_a_call_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    script = f"docker run --gpus all \\\n  --network host # needed \\\n  {IMAGE} {COMMAND}\n"
    (issue,) = lint_text(script, tmp_path / "x.sh").issues
    assert (issue.code, issue.level) == ("call-without-image", "error")


def test_a_file_without_a_server_is_a_row(tmp_path: Path) -> None:
    found = lint_text("docker run redis\n", tmp_path / "x.sh")
    assert [row.what for row in found.unchecked] == ["command"]


def imported(
    tmp_path: Path, name: str, text: str, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    code = main(["recipe", "import", str(path), *words])
    return code, *capsys.readouterr()


def test_a_script_becomes_a_recipe_and_each_line_is_accounted_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        f"docker run -d --gpus all --shm-size=16g --health-cmd x \\\n -e HF_TOKEN=hf_a -e A=b {IMAGE} \\\n {COMMAND}\n"
    )
    code, out, err = imported(tmp_path, "x.sh", script, capsys)
    recipe = load_model_recipe(out, "x.yaml")
    assert code == 0
    assert errors_of(recipe.issues) == ()
    assert (recipe.model, recipe.container, recipe.defaults["port"]) == ("org/m", f"docker.io/{IMAGE}", 8356)
    assert (recipe.env, recipe.section("executor_config")["shm_size"]) == ({"A": "b"}, "16g")
    assert "line 1: --shm-size 16g -> executor_config.shm_size" in err
    assert "line 1: --health-cmd x is left out: no key of a recipe says it" in err
    assert "HF_TOKEN is left out" in err


def test_of_several_servers_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    services = {name: {"image": IMAGE, "command": COMMAND.replace("org/m", f"org/{name}")} for name in ("a", "b")}
    text = yaml.safe_dump({"services": services})
    code, _, err = imported(tmp_path, "c.yaml", text, capsys)
    assert (code, "servers: a, b" in err) == (2, True)
    code, out, _ = imported(tmp_path, "c.yaml", text, capsys, "--variant", "b", "--json")
    assert (code, load_model_recipe(json.loads(out)["recipe"], "x").model) == (0, "org/b")
    assert imported(tmp_path, "c.yaml", text, capsys, "--variant", "z")[0] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"docker run $IMAGE {COMMAND}", "is a variable"),
        (f"docker run {IMAGE} vllm serve --port 1", "names no model"),
        ("docker run redis", "no launch in it starts a server"),
    ],
)
def test_what_becomes_no_recipe_has_one_sentence(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = imported(tmp_path, "x.sh", text, capsys)
    assert (code, said in err) == (2, True)


def test_another_file_is_named_by_import_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = imported(tmp_path, "x.yaml", "on: push\njobs: {}\n", capsys)
    assert (code, "it is a workflow of GitHub Actions" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "model", "port"),
    [
        (WORDS, "org/m", 8356),
        (("python3", "-m", "sglang.launch_server", "--model-path", "org/m"), "org/m", 30000),
        (("sglang", "serve", "--model-path=org/m", "--port=1"), "org/m", 1),
        (("bash", "-c", "vllm serve org/m --port 9"), "org/m", 9),
        (("vllm", "serve", "--port", "x"), "", 8000),
    ],
)
def test_model_and_port_of_a_command(words: tuple[str, ...], model: str, port: int) -> None:
    launch = ContainerLaunch(form="docker run", name="x", line=1, words=words)
    assert (model_of(launch), port_of(launch)) == (model, port)


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("80", (80, 80)),
        ("80:8000", (80, 8000)),
        ("127.0.0.1:80:8000/tcp", (80, 8000)),
        ("80-90:80-90", None),
        ("x", None),
    ],
)
def test_a_mapping_of_ports(text: str, port: tuple[int, int] | None) -> None:
    assert mapped_port(text) == port


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("$A ${A}", "1 1"),
        ("${B:-x}", "x"),
        ("${B-}", ""),
        ("$B", "$B"),
        ("${B}", "$B"),
        ("$$A", "$A"),
        ("${B:?no}", "$B"),
    ],
)
def test_variables_of_a_text(text: str, filled: str) -> None:
    assert interpolated(text, {"A": "1"}) == filled


HOSTILE = (
    "docker run " + "-e A=" * 20_000,
    "docker run '" * 5000,
    "docker run \\\n" * 5000,
    "X=${X:-" * 5000,
    "A=(\n" * 10_000,
    "A+=(x)\n" * 10_000,
    "docker run " + "$A" * 50_000 + " x",
    "sudo -a env " * 20_000 + "vllm serve m",
    "A=1 " * 20_000 + "vllm serve m",
    "export A=1 " * 20_000 + "\nvllm serve m\n" * 1000,
    "A=1 \\\n" * 20_000 + "vllm serve m\n" * 1000,
    "vllm serve m;" * 20_000,
    "echo vllm serve m " * 20_000,
    "A=$(" * 20_000 + "vllm serve m",
    "\"'#" * 20_000 + "vllm serve m",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_script_is_read_in_bounded_time(text: str) -> None:
    found = launches_of(text, "x.sh")
    assert isinstance(found, Launches)


def test_a_deep_object_is_read_in_bounded_depth() -> None:
    text = "apiVersion: v1\nkind: Pod\nspec: " + "{a: " * 20 + "{containers: [{image: x}]}" + "}" * 20
    launches = launches_of(text, "x.yaml")
    assert launches
    assert launches.found == ()
