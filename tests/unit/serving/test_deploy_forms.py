"""Every form says what ``run`` starts: mounts, limits, labels, variables and the command, odd values included."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gb10.cli.models.recipe_forms import FormWish, form_wish, only_of_forms, only_one, write
from gb10.containers.container_options import command_words, run_words
from gb10.errors import UsageError
from gb10.image.request.recipe_mods import load_file
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.registries.recipe_file import RecipeFile, model_names, models_folder
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.serving.deploy.deployment import HUB_PLACE, Deployment, Fabric
from gb10.serving.deploy.fabric_files import function_of
from gb10.serving.deploy.forms import FORMS
from gb10.serving.deploy.kubernetes import SERVERS, object_name
from gb10.serving.run.prepare_service import ServiceRequest
from gb10.serving.run.service import ContainerSettings, container_options
from tests.deployments import ODD, ODD_TEXTS, deployment, odd_recipe, recipe_text

OPTIONS = ContainerSettings(memory=1 << 30, restart=True)


def documents(made: Deployment, form: str) -> list[Any]:
    files = (file for file in FORMS[form](made) if not file.name.endswith(".cni.conf"))
    return [one for file in files for one in yaml.safe_load_all(file.text)]


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A PATH where docker writes its words, each ended by a zero."""
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > {tmp_path}/words\n", encoding="utf-8")
    program.chmod(0o755)
    return program.parent


def test_the_shell_hands_docker_the_very_words(docker: Path) -> None:
    odd = {f"ODD_{number}": text for number, text in enumerate(ODD_TEXTS)}
    made = deployment("docker", recipe=odd_recipe(env=odd), options=OPTIONS)
    env = {"PATH": f"{docker}:{os.environ['PATH']}", "HOME": "/", "HF_TOKEN_FILE": "/t o k"}
    subprocess.run(["sh", "-c", only_one(FORMS["docker"](made)).text], env=env, check=True)
    words = (docker.parent / "words").read_text(encoding="utf-8").split("\0")[:-1]
    token = ["--volume", f"/t o k:{HUB_PLACE}:ro"]
    expected = ["run", "--detach", *run_words(made.containers[0]), *token, *command_words(made.containers[0])]
    assert words == [word.rstrip("\n") if word == made.containers[0].command[2] else word for word in expected]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_of_the_containers_that_run_starts(form: str) -> None:
    made = deployment(form, "me@one", "two", options=OPTIONS)
    for (rank, inlined), number in zip(made.ranks, range(2), strict=True):
        ours = container_options(made.service, rank)
        assert (rank.number, inlined.command[4:]) == (number, ours.command[2:])
        assert inlined.environment["ODD"] == ODD
        assert (inlined.memory, inlined.labels, inlined.volumes) == (ours.memory, ours.labels, ours.volumes)
    assert len({file.name for file in FORMS[form](made)}) == len(FORMS[form](made))


def test_compose_has_every_value_and_expands_none() -> None:
    made = deployment("compose", options=OPTIONS)
    [found] = documents(made, "compose")
    options, service = made.containers[0], found["services"]["server"]
    assert json.loads(json.dumps(service["environment"]).replace("$$", "$")) == dict(options.environment)
    assert [word.replace("$$", "$") for word in service["entrypoint"]] == list(options.command)
    assert service["labels"] == dict(options.labels)
    assert (service["mem_limit"], service["memswap_limit"]) == (1 << 30, 1 << 30)
    assert (service["restart"], service["ipc"], service["network_mode"]) == ("unless-stopped", "host", "host")
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    assert found["secrets"]["hf-token"] == {"file": "${HF_TOKEN_FILE:-/dev/null}"}


def test_without_a_gpu_no_form_asks_for_one() -> None:
    for form in ("docker", "compose", "k8s", "systemd", "ansible"):
        text = "".join(file.text for file in FORMS[form](deployment(form, options=ContainerSettings(gpus=False))))
        assert not {"--gpus", "nvidia.com/gpu", "runtimeClassName", "driver: nvidia"} & set(text.split())


def pod(made: Deployment, number: int = 0) -> dict[str, Any]:
    """The pod's spec of the leader, or of the workers."""
    workload = next(one for one in documents(made, "k8s") if one["kind"] in ("Deployment", "LeaderWorkerSet"))
    parts = workload["spec"].get("leaderWorkerTemplate", workload["spec"])
    template = "template" if parts is workload["spec"] else ("leaderTemplate", "workerTemplate")[number]
    found: dict[str, Any] = parts[template]["spec"]
    return found


def unescaped(text: str) -> str:
    return text.replace("$$$$", "$$").replace("$$(", "$(")


def test_kubernetes_on_one_node_is_a_deployment() -> None:
    made = deployment("k8s", options=OPTIONS)
    spec = pod(made)
    container, options = spec["containers"][0], made.containers[0]
    assert [unescaped(word) for word in container["args"]] == list(options.command)
    assert "command" not in container
    assert {one["name"]: unescaped(one["value"]) for one in container["env"]} == dict(options.environment)
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": str(1 << 30)}
    assert "securityContext" not in container
    assert "hostNetwork" not in spec
    secret = next(one for one in spec["volumes"] if one["name"] == "secrets")["secret"]
    assert (secret["optional"], secret["items"]) == (True, [{"key": "HF_TOKEN", "path": "HF_TOKEN"}])
    assert next(one for one in container["volumeMounts"] if one["name"] == "secrets")["mountPath"] == "/gb10/secrets"


def test_kubernetes_has_the_names_of_hosts_that_a_recipe_sets() -> None:
    host = {"hostname": "spark", "extra_hosts": {"hub.local": "10.0.0.9"}}
    named = pod(deployment("k8s", recipe=odd_recipe(gb10={"host": host})))
    assert (named["hostname"], named["hostAliases"]) == ("spark", [{"ip": "10.0.0.9", "hostnames": ["hub.local"]}])
    assert not {"hostname", "hostAliases"} & pod(deployment("k8s")).keys()


def test_kubernetes_without_a_device_plugin_is_privileged_on_the_hosts_network() -> None:
    made = deployment("k8s", "me@one", "two", options=OPTIONS)
    spec = pod(made, 1)
    container = spec["containers"][0]
    assert (container["securityContext"], spec["hostNetwork"]) == ({"privileged": True}, True)
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0"
    assert env["NCCL_SOCKET_IFNAME"] == env["GLOO_SOCKET_IFNAME"] == "enp1s0f0np0"
    assert env["VLLM_HOST_IP"] is None
    assert "--node-rank 1 --master-addr gb10-odd-0.gb10-odd --master-port 26000 --headless" in container["args"][-1]
    names = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert names[0]["matchExpressions"][0]["values"] == ["one", "two"]
    netplan = [yaml.safe_load(file.text)["network"]["ethernets"] for file in FORMS["k8s"](made)[1:]]
    assert [one["enP2p1s0f0np0"]["addresses"] for one in netplan] == [["192.168.178.1/24"], ["192.168.178.2/24"]]


def test_kubernetes_with_a_device_plugin_has_a_network_for_each_virtual_function() -> None:
    made = deployment("k8s", "one", "two", rdma="rdma/shared", options=OPTIONS)
    found = documents(made, "k8s")
    networks = [one for one in found if one and one.get("kind") == "NetworkAttachmentDefinition"]
    assert [set(one) for one in networks] == [{"apiVersion", "kind", "metadata"}] * 2
    workload = next(one for one in found if one and one.get("kind") == "LeaderWorkerSet")
    notes = workload["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"]
    assert notes["k8s.v1.cni.cncf.io/networks"] == ",".join(one["metadata"]["name"] for one in networks)
    container = pod(made)["containers"][0]
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert container["resources"]["limits"]["rdma/shared"] == 2
    assert "hostNetwork" not in pod(made)
    netplan = yaml.safe_load(FORMS["k8s"](made)[1].text)["network"]["ethernets"]
    assert netplan["enp1s0f0np0"]["virtual-function-count"] == 1
    assert (netplan["enp1s0f0v0"]["link"], netplan["enp1s0f0v0"]["addresses"]) == ("enp1s0f0np0", ["192.168.177.1/24"])


@pytest.mark.parametrize(("rdma", "functions"), [("rdma/shared", False), (None, True)])
def test_a_virtual_function_has_the_same_address_on_its_node_and_in_the_pod(rdma: str | None, functions: bool) -> None:
    made = deployment("k8s", "me@one", "two", rdma=rdma, functions=functions, options=OPTIONS)
    objects, *others = FORMS["k8s"](made)
    names = [one["metadata"]["name"] for one in yaml.safe_load_all(objects.text) if one["kind"].startswith("Network")]
    seen = []
    for host in ("me@one", "two"):
        netplan, *rails = [file for file in others if file.host == host]
        hosts = yaml.safe_load(netplan.text)["network"]["ethernets"]
        for file, name in zip(rails, names, strict=True):
            config = json.loads(file.text)
            assert (config["name"], config["type"], config["ipam"]["type"]) == (name, "host-device", "static")
            [address] = config["ipam"]["addresses"]
            assert [address["address"]] == hosts[config["device"]]["addresses"]
            seen.append((file.name, config["device"], address["address"]))
    assert seen == [
        ("gb10-odd-0.rail-0.cni.conf", "enp1s0f0v0", "192.168.177.1/24"),
        ("gb10-odd-0.rail-1.cni.conf", "enP2p1s0f0v0", "192.168.178.1/24"),
        ("gb10-odd-1.rail-0.cni.conf", "enp1s0f0v0", "192.168.177.2/24"),
        ("gb10-odd-1.rail-1.cni.conf", "enP2p1s0f0v0", "192.168.178.2/24"),
    ]


def test_privileged_pods_have_virtual_functions_without_a_device_plugin() -> None:
    """As one owner of four Sparks ran them: 9.8 GB/s by RoCE, where a pod without rights took sockets."""
    made = deployment("k8s", "one", "two", functions=True, options=OPTIONS)
    spec = pod(made, 1)
    container = spec["containers"][0]
    assert container["securityContext"] == {"privileged": True}
    assert "hostNetwork" not in spec
    assert set(container["resources"]["limits"]) == {"nvidia.com/gpu", "memory"}
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert (env["NCCL_NET"], env["NCCL_IB_HCA"]) == ("IB", "=rocep1s0f0v0,roceP2p1s0f0v0")
    assert env["NCCL_SOCKET_IFNAME"] == "eth0"
    workload = next(one for one in documents(made, "k8s") if one and one.get("kind") == "LeaderWorkerSet")
    for part in ("leaderTemplate", "workerTemplate"):
        notes = workload["spec"]["leaderWorkerTemplate"][part]["metadata"]["annotations"]
        assert notes["k8s.v1.cni.cncf.io/networks"] == "gb10-odd-rail-0,gb10-odd-rail-1"


def test_more_workers_take_the_command_of_their_own_rank() -> None:
    made = deployment("k8s", "one", "two", "three", options=OPTIONS)
    command = unescaped(pod(made, 1)["containers"][0]["args"][-1])
    for rank in (1, 2):
        ours = served(made.service.ranks[rank].container.command)
        assert served(command, LWS_WORKER_INDEX=str(rank)) == ours
        assert f"--node-rank {rank}" in " ".join(ours)


def test_workers_of_a_recipe_of_others_take_the_words_of_their_own_rank() -> None:
    made = deployment("k8s", "one", "two", "three")
    containers = [
        replace(one, command=(*one.command[:5], "--", "vllm", str(rank), "$(id) 'x'"))
        for rank, one in enumerate(made.containers)
    ]
    made = replace(made, containers=tuple(containers))
    assert unescaped(pod(made)["containers"][0]["args"][-1]) == "$(id) 'x'"
    command = unescaped(pod(made, 1)["containers"][0]["args"][-1])
    for rank in (1, 2):
        assert served(command, LWS_WORKER_INDEX=str(rank)) == [str(rank), "$(id) 'x'"]


def served(command: str, **env: str) -> list[str]:
    """The words that bash hands to vllm."""
    script = f'vllm() {{ printf "%s\\0" "$@"; }}\n{command}'
    run = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    return run.stdout.split("\0")[:-1]


def test_unused_nodes_are_no_pods() -> None:
    made = deployment("k8s", "one", "two", recipe=odd_recipe(1))
    assert documents(made, "k8s")[0]["kind"] == "Deployment"
    assert "securityContext" not in pod(made)["containers"][0]


def test_a_server_as_an_entry_point_is_replaced_and_another_is_kept() -> None:
    for image, key in (*((f"{name}:1", "command") for name in SERVERS), ("nvcr.io/nvidia/vllm:1", "args")):
        assert key in pod(deployment("k8s", recipe=odd_recipe(container=image)))["containers"][0]


def test_names_of_objects() -> None:
    assert object_name("qwen3.5_A") == "gb10-qwen3-5-a"
    with pytest.raises(UsageError, match="too long"):
        object_name("x" * 50)
    assert function_of("enP2p1s0f1np1") == "enP2p1s0f1v0"


def test_ansible_starts_only_what_differs() -> None:
    made = deployment("ansible", "ssh://me@one:2222", "two", options=OPTIONS)
    playbook, inventory = FORMS["ansible"](made)
    hosts = yaml.safe_load(inventory.text)["all"]["hosts"]
    assert hosts == {
        "gb10-odd-0": {"ansible_host": "one", "ansible_user": "me", "ansible_port": 2222},
        "gb10-odd-1": {"ansible_host": "two"},
    }
    assert playbook.text.count("expand_argument_vars: false") == 6
    assert playbook.text.count(f"!= 'true {made.service.digest}'") == 4


@pytest.mark.parametrize("name", model_names())
def test_sparkrun_would_run_our_recipes_with_the_very_command(name: str) -> None:
    recipe = load_file(RecipeFile(models_folder() / f"{name}.yaml"))
    nodes = tuple(f"node-{number}" for number in range(16))
    for variant in (None, *own_section(recipe).variants):
        request = RenderRequest(variant=variant)
        several = render_recipe(recipe, request).ranks == ()
        values = {**recipe.values, "container": recipe.container or "registry.example/a:1"}
        one = load_model_recipe(yaml.safe_dump(values, sort_keys=False), recipe.file)
        hosts = nodes[: _world(recipe, request)] if several else ()
        [found] = documents(deployment("sparkrun", *hosts, recipe=one, request=request), "sparkrun")
        assert found["container"] == values["container"]


def _world(recipe: ModelRecipe, request: RenderRequest) -> int:
    found = render_recipe(recipe, RenderRequest(variant=request.variant, nodes=tuple("abcdefghijklmnop")))
    return max(1, len(found.ranks))


def test_sparkrun_gets_arguments_and_variables() -> None:
    made = deployment(
        "sparkrun", "one", "two", options=OPTIONS, request=RenderRequest(arguments=("--json", '{"a": {}}'))
    )
    [found] = documents(made, "sparkrun")
    assert found["env"] == {"ODD": ODD, "LINES": "a\n  b \n"}
    assert found["command"].endswith("""--json '{"a": {}}'""")
    assert (found["min_nodes"], found["executor_config"]) == (2, {"memory_limit": str(1 << 30)})
    assert set(found["defaults"]) == {"port", "tensor_parallel"}


def test_sparkrun_cannot_expand_variables_of_version_1() -> None:
    """Without a key of sparkrun's own it is a recipe for eugr's launcher, whose shell expands them."""

    def old(**env: str) -> ModelRecipe:
        text = recipe_text(recipe_version="1", name="N", model="m", command="vllm serve m", env=env)
        return load_model_recipe(text.replace("runtime: vllm\n", ""), "odd.yaml")

    with pytest.raises(UsageError, match="a shell expands the variable A"):
        FORMS["sparkrun"](deployment("sparkrun", recipe=old(A="$HOME/x")))
    [found] = documents(deployment("sparkrun", recipe=old(A="/x")), "sparkrun")
    assert (found["command"], found["env"]) == ("vllm serve m", {"A": "/x"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"form": "nope"}, "unknown form 'nope'"),
        ({"form": "docker", "rdma": "a/b"}, "--rdma, --virtual-functions and --rails are for Kubernetes"),
        ({"form": "compose", "functions": True}, "--rdma, --virtual-functions and --rails are for Kubernetes"),
        ({"form": "k8s", "functions": True, "rdma": "a/b"}, "--rdma brings virtual functions"),
        ({"form": "k8s", "rdma": "shared"}, "no resource of a device plugin"),
        ({"form": "k8s", "rails": "eth0;x"}, "is no interface"),
        ({"form": "k8s", "rails": "enp1s0,enp1s0"}, "is named twice"),
    ],
)
def test_wrong_options(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        form_wish(**options)  # type: ignore[arg-type]


def test_the_script_takes_no_options_of_forms() -> None:
    only_of_forms(FormWish(), ContainerSettings())
    for wish, options in (
        (FormWish(request=ServiceRequest(name="x")), ContainerSettings()),
        (FormWish(), OPTIONS),
        (FormWish(fabric=Fabric(resource="r")), ContainerSettings()),
    ):
        with pytest.raises(UsageError, match="the script takes no such option"):
            only_of_forms(wish, options)


def test_several_files_go_into_a_folder(tmp_path: Path) -> None:
    files = FORMS["docker"](deployment("docker", "one", "two"))
    with pytest.raises(UsageError, match="the form has 2 files") as caught:
        only_one(files)
    assert caught.value.where == "gb10-odd-0.sh, for one\ngb10-odd-1.sh, for two"
    first, _ = write(files, tmp_path / "new/folder")
    assert (first.read_text(encoding="utf-8"), first.stat().st_mode & 0o777) == (files[0].text, 0o755)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write into"):
        write(files, tmp_path / "file")
    (tmp_path / "taken" / files[1].name).mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot write into"):
        write(files[1:], tmp_path / "taken")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == [files[1].name]


def test_the_objects_of_kubernetes_say_which_pod_is_the_head() -> None:
    made = deployment("k8s", "one", "two", rdma="rdma/shared")
    found = re.findall(r"app.kubernetes.io/component: \"?(\w+)", "\n".join(file.text for file in FORMS["k8s"](made)))
    assert set(found) == {"head", "worker"}
