"""The files of ``recipe render --as``, read by the programs that they are for; and mistakes, which these must find."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gb10.containers.connection import Engine, client
from gb10.containers.container_options import command_words, run_words
from gb10.containers.packages import unpack
from gb10.core.proc import capture
from gb10.core.store import open_store
from gb10.errors import UsageError
from gb10.models.render.nodes import PORT
from gb10.serving.deploy.deployment import HUB_FILE, HUB_PLACE, Deployment
from gb10.serving.deploy.forms import FORMS
from gb10.serving.run.service import ContainerSettings
from tests.deployments import ODD, ODD_TEXTS, deployment, odd_recipe
from tests.hang import until
from tests.integration.launcher_tools import HERE, Tools, refused, unpack_tools
from tests.integration.pinned import pinned
from tests.integration.services import CPU, failed, pid_in, ran, recipe
from tests.integration.test_run import _nothing_left as _nothing_left  # noqa: PLC0414 - fixtures, these four
from tests.integration.test_run import engine as engine  # noqa: PLC0414
from tests.integration.test_run import image as image  # noqa: PLC0414
from tests.integration.test_run import store as store  # noqa: PLC0414

pytestmark = [pytest.mark.integration, pytest.mark.slow]
OPTIONS: Final = ContainerSettings(memory=1 << 30)
Files = dict[str, str]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return unpack_tools(open_store(os.environ), tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def sparkrun() -> Path:
    return pinned("deploy-tools", HERE / "sparkrun.txt", python="3.13")


def made(form: str, *hosts: str, rdma: str | None = None, functions: bool = False) -> tuple[Deployment, Files]:
    found = deployment(form, *hosts, options=OPTIONS, rdma=rdma, functions=functions)
    return found, {file.name: file.text for file in FORMS[form](found)}


def written(folder: Path, files: Files) -> list[Path]:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def test_compose_reads_every_value_as_it_is(tools: Tools, tmp_path: Path) -> None:
    odd = {f"ODD_{number}": text for number, text in enumerate(ODD_TEXTS)}
    found = deployment("compose", "one", "two", recipe=odd_recipe(2, env={"ODD": ODD, **odd}), options=OPTIONS)
    files = {file.name: file.text for file in FORMS["compose"](found)}
    for (_, options), file in zip(found.ranks, written(tmp_path, files), strict=True):
        assert tools.compose(file, "config", "--quiet") == ""
        read = json.loads(tools.compose(file, "config", "--format", "json").replace("$$", "$"))["services"]["server"]
        assert read["environment"] == dict(options.environment)
        assert read["environment"]["ODD"] == ODD
        assert read["labels"] == dict(options.labels)
        assert read["entrypoint"] == list(options.command)
        assert gpu_reserved(read)
        assert (read["mem_limit"], read["ipc"]) == (str(1 << 30), "host")


ASKED: Final = {
    "volumes": ["/data:/d", "/w:/w:ro", "kv:/kv:ro"],
    "devices": ["/dev/dri"],
    "cap_add": ["SYS_NICE"],
    "user": "1000:1000",
    "privileged": True,
}
POD: Final = {key: value for key, value in ASKED.items() if key != "devices"}
ALSO: Final = {"ulimit": ["nofile=1:2"], "security_opt": ["no-new-privileges"], "ipc": "private", "shm_size": "1g"}
"""What a pod cannot be given, but for the size of its shared memory."""


def test_what_a_recipe_asks_of_the_host_is_in_each_form(tools: Tools, tmp_path: Path, sparkrun: Path) -> None:
    """Read back by compose, the schemas of Kubernetes, systemd and sparkrun."""
    more: dict[str, Any] = {
        "executor_config": {**ASKED, **ALSO},
        "gb10": {"engine": "vllm", "host": {"hostname": "a", "cpuset": "0-3"}},
    }
    found = deployment("compose", "one", recipe=odd_recipe(1, **more), options=OPTIONS)
    [file] = written(tmp_path, {one.name: one.text for one in FORMS["compose"](found)})
    assert tools.compose(file, "config", "--quiet") == ""
    read = json.loads(tools.compose(file, "config", "--format", "json"))["services"]["server"]
    mounts = {one["target"]: (one["type"], one["source"], one.get("read_only", False)) for one in read["volumes"]}
    assert mounts["/d"] == ("bind", "/data", False)
    assert mounts["/w"] == ("bind", "/w", True)
    assert mounts["/kv"] == ("volume", "kv", True)
    assert (read["cap_add"], read["user"], read["privileged"]) == (["SYS_NICE"], "1000:1000", True)
    assert (read["ipc"], read["shm_size"], read["hostname"]) == ("private", str(1 << 30), "a")
    assert (read["cpuset"], read["security_opt"]) == ("0-3", ["no-new-privileges"])
    assert read["ulimits"]["nofile"] == {"soft": 1, "hard": 2}
    assert "/dev/dri" in str(read["devices"])

    [(name, text)] = {one.name: one.text for one in FORMS["systemd"](found)}.items()
    assert "gb10" not in tools.unit(name, text)
    words = tools.words_of(name)
    assert [word for word in run_words(found.containers[0]) if word not in words] == []

    pod = deployment("k8s", "one", recipe=odd_recipe(executor_config={**POD, "shm_size": "1g"}), options=OPTIONS)
    [objects] = written(tmp_path, {one.name: one.text for one in FORMS["k8s"](pod)})
    tools.kubernetes(objects)
    [workload, _] = [one for one in yaml.safe_load_all(objects.read_text(encoding="utf-8")) if one]
    spec = workload["spec"]["template"]["spec"]
    assert {"name": "host-0", "hostPath": {"path": "/data"}} in spec["volumes"]
    assert {"name": "host-1", "mountPath": "/w", "readOnly": True} in spec["containers"][0]["volumeMounts"]
    assert spec["containers"][0]["securityContext"] == {"privileged": True, "runAsUser": 1000, "runAsGroup": 1000}
    with pytest.raises(UsageError, match=r"cannot give a pod what .*: devices .*, ulimit, security_opt, cpuset\n"):
        FORMS["k8s"](deployment("k8s", "one", recipe=odd_recipe(1, **more), options=OPTIONS))

    other = deployment("sparkrun", "one", recipe=odd_recipe(executor_config={**ASKED, **ALSO}), options=OPTIONS)
    text = next(one.text for one in FORMS["sparkrun"](other))
    assert yaml.safe_load(text)["executor_config"]["devices"] == ["/dev/dri:/dev/dri:rwm"]
    assert tools.sparkrun(tmp_path, sparkrun, text, ("one",)) is not None
    with pytest.raises(UsageError, match="sparkrun has no key for what the recipe asks of its host: cpuset, hostname"):
        FORMS["sparkrun"](deployment("sparkrun", "one", recipe=odd_recipe(1, **more), options=OPTIONS))


def gpu_reserved(service: dict[str, Any]) -> bool:
    """Whether a service gets the GPU also where NVIDIA's runtime is not Docker's default."""
    devices = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    return any("gpu" in device.get("capabilities", []) for device in devices)


def test_without_its_reservation_a_service_has_no_gpu(tools: Tools, tmp_path: Path) -> None:
    _, files = made("compose", "one")
    [(name, text)] = files.items()
    start, end = text.index("    deploy:"), text.index("    ipc:")
    [file] = written(tmp_path, {name: text[:start] + text[end:]})
    assert not gpu_reserved(json.loads(tools.compose(file, "config", "--format", "json"))["services"]["server"])


@pytest.mark.parametrize(
    ("hosts", "rdma", "functions"),
    [((), None, False), (("a", "b"), None, False), (("a", "b"), None, True), (("a", "b", "c"), "rdma/shared", False)],
)
def test_kubernetes_accepts_every_object(
    tools: Tools, tmp_path: Path, hosts: tuple[str, ...], rdma: str | None, functions: bool
) -> None:
    _, files = made("k8s", *hosts, rdma=rdma, functions=functions)
    [objects, *others] = written(tmp_path, files)
    tools.kubernetes(objects)
    assert len([file for file in others if file.name.endswith(".netplan.yaml")]) == len(hosts)
    assert len([file for file in others if file.name.endswith(".cni.conf")]) == 2 * len(hosts) * (
        functions or bool(rdma)
    )


@pytest.fixture
def netns() -> Iterator[dict[str, str]]:
    """A node's network and a pod's; the node has an interface of a virtual function's name."""
    names = {part: f"gb10-{os.getpid()}-{part}" for part in ("node", "pod")}
    try:
        for name in names.values():
            capture(["ip", "netns", "add", name])
        for device in ("enp1s0f0v0", "enP2p1s0f0v0"):
            capture(
                ["ip", "-n", names["node"], "link", "add", device, "type", "veth", "peer", "name", f"p-{device[:9]}"]
            )
        yield names
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False)


def test_cni_gives_the_pod_the_address_of_its_node(tools: Tools, netns: dict[str, str]) -> None:
    """The real plugins, host-device and static; with another device, or without an address, they refuse."""
    _, files = made("k8s", "a", "b", functions=True)
    netplan = yaml.safe_load(files["gb10-odd-1.netplan.yaml"])["network"]["ethernets"]
    text = files["gb10-odd-1.rail-1.cni.conf"]
    found = tools.network(text, netns, "net1")
    assert [one["address"] for one in found["ips"]] == netplan["enP2p1s0f0v0"]["addresses"] == ["192.168.178.2/24"]
    assert "192.168.178.2/24" in capture(["ip", "-n", netns["pod"], "address", "show", "net1"])
    first = files["gb10-odd-1.rail-0.cni.conf"]
    assert "Link not found" in refused(tools.network, first.replace("enp1s0f0v0", "enp1s0f0v7"), netns, "net2")
    assert "CIDR notation" in refused(tools.network, first.replace("192.168.177.2/24", "192.168.177.2"), netns, "net2")


def test_netplan_gives_each_interface_an_address(tools: Tools) -> None:
    _, files = made("k8s", "a", "b")
    made_files = tools.netplan(files["gb10-odd-1.netplan.yaml"])
    assert "Address=192.168.177.2/24" in made_files["10-netplan-enp1s0f0np0.network"]
    assert "MTUBytes=9000" in made_files["10-netplan-enP2p1s0f0np0.link"]
    _, files = made("k8s", "a", "b", rdma="rdma/shared")
    made_files = tools.netplan(files["gb10-odd-0.netplan.yaml"])
    assert "Address=192.168.178.1/24" in made_files["10-netplan-enP2p1s0f0v0.network"]
    assert "--sriov-only" in made_files["netplan-sriov-apply.service"]


def test_systemd_reads_the_very_words(tools: Tools) -> None:
    found, files = made("systemd", "one")
    [(name, text)] = files.items()
    assert "gb10" not in tools.unit(name, text)
    words = tools.words_of(name)
    options = found.containers[0]
    token = ["--volume", f"${{{HUB_FILE}}}:{HUB_PLACE}:ro"]
    expected = ["/usr/bin/docker", "run", *run_words(options), *token, *command_words(options)]
    script = "".join(f" {line}\n" for line in options.command[2].splitlines())
    assert words == [f"{script} " if word == options.command[2] else word for word in expected]


def test_ansible_accepts_the_playbook(tools: Tools, tmp_path: Path) -> None:
    _, files = made("ansible", "me@one", "two")
    playbook, inventory = written(tmp_path, files)
    tools.playbook("--syntax-check", "--inventory", str(inventory), str(playbook))


@pytest.mark.parametrize("hosts", [("one",), ("one", "two")])
def test_sparkrun_would_serve_what_run_starts(
    tools: Tools, tmp_path: Path, sparkrun: Path, hosts: tuple[str, ...]
) -> None:
    found, files = made("sparkrun", *hosts)
    read = tools.sparkrun(tmp_path, sparkrun, files["odd.yaml"], hosts)
    assert read is not None
    commands = [rank.container.command for rank in found.service.ranks]
    for port in found.service.meeting:  # sparkrun has its own port, the same for every service
        commands = [command.replace(f"--master-port {port}", f"--master-port {PORT}") for command in commands]
    assert read["ranks"] == commands


MISTAKES: Final = (
    ("compose", "    mem_limit:", "    mem_limits:", "mem_limits"),
    ("compose", 'interval: "10s"', 'interval: "10x"', "10x"),
    ("compose", "oom_score_adj: 500", "oom_score_adj: [500]", "oom_score_adj"),
    ("compose", "source: hf-token", "source: nobody", "nobody"),
    ("k8s", "  strategy:", "  strategies:", "strategies"),
    ("k8s", "replicas: 1", 'replicas: "one"', "one"),
    ("k8s", "periodSeconds: 30", "periodSeconds: 30s", "30s"),
    ("k8s", "mountPath: /dev/shm", "mountpath: /dev/shm", "'mountPath' is a required property"),
    ("lws", "restartPolicy: RecreateGroupOnPodRestart", "restartPolicy: Always", "Always"),
    ("lws", "    size: 2", "    sizes: 2", "sizes"),
    ("lws", "startupPolicy: LeaderCreated", "startupPolicy: 1", "1 is not one of"),
    ("lws", "containerPort:", "port:", "port"),
    ("netplan", "addresses:", "adresses:", "unknown key 'adresses'"),
    ("netplan", "192.168.177.1/24", "192.168.177.1/240", "192.168.177.1/240"),
    ("netplan", "link: enp1s0f0np0", "link: enp9s0f0np0", "enp9s0f0np0"),
    ("systemd", "RestartSec=", "RestartSecs=", "Unknown key 'RestartSecs'"),
    ("systemd", "Restart=always", "Restart=allways", "Restart=allways"),
    ("systemd", "TimeoutStopSec=60", "TimeoutStopSec=60 parsecs", "TimeoutStopSec=60 parsecs"),
    ("systemd", '" /gb10/run', " /gb10/run", "Unbalanced quoting"),
    ("ansible", "  gather_facts:", "  gather_fact:", "gather_fact"),
    ("ansible", "ansible.builtin.uri:", "ansible.builtin.url:", "ansible.builtin.url"),
)


def checks(tools: Tools, folder: Path) -> dict[str, tuple[Files, Callable[[Files], object]]]:
    """Files of each form, and what checks them."""

    def kubernetes(files: Files) -> None:
        tools.kubernetes(written(folder, files)[0])

    several = made("k8s", "a", "b", rdma="rdma/shared")[1]
    netplan = {name: text for name, text in several.items() if name.endswith("-0.netplan.yaml")}
    return {
        "compose": (made("compose", "a")[1], lambda files: tools.compose(written(folder, files)[0], "config", "-q")),
        "k8s": (made("k8s")[1], kubernetes),
        "lws": (several, kubernetes),
        "netplan": (netplan, lambda files: tools.netplan(*files.values())),
        "systemd": (made("systemd", "a")[1], lambda files: tools.unit(*next(iter(files.items())))),
        "ansible": (made("ansible")[1], lambda files: tools.playbook("--syntax-check", str(written(folder, files)[0]))),
    }


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: f"{one[0]}: {one[2]}")
def test_a_mistake_is_found_by_those_who_read_it(
    tools: Tools, tmp_path: Path, mistake: tuple[str, str, str, str]
) -> None:
    form, right, wrong, words = mistake
    files, check = checks(tools, tmp_path)[form]
    name, text = next(iter(files.items()))
    assert right in text
    assert words in refused(check, {**files, name: text.replace(right, wrong)})


def test_sparkrun_refuses_a_runtime_that_it_has_not(tools: Tools, tmp_path: Path, sparkrun: Path) -> None:
    _, files = made("sparkrun")
    wrong = files["odd.yaml"].replace("runtime: vllm-distributed", "runtime: vllm-undistributed")
    assert tools.sparkrun(tmp_path, sparkrun, wrong, ("localhost",)) is None


def inspected(engine: Engine, name: str) -> dict[str, Any]:
    with closing(client(engine)) as sdk:
        found: dict[str, Any] = sdk.api.inspect_container(name)
        return found


def docker_env(engine: Engine, **more: str) -> dict[str, str]:
    """Docker's own client, for this engine."""
    path = f"{unpack(open_store(os.environ), os.environ).bin}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "DOCKER_HOST": engine.endpoint.host, **more}


def rendered(path: Path, form: str, folder: Path) -> Path:
    """The first file of a form of the stand-in's recipe."""
    return Path(ran("recipe", "render", str(path), "--as", form, *CPU, "--out", str(folder)).splitlines()[0])


def answers(endpoint: str) -> None:
    until(lambda: "You wrote: Hi" in asked(endpoint), "the server")


def asked(endpoint: str) -> str:
    body = '{"messages": [{"role": "user", "content": "Hi"}]}'
    argv = ["curl", "--silent", f"{endpoint}/v1/chat/completions", "--data", body]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


SAME: Final = (
    *("Memory", "MemorySwap", "OomScoreAdj", "IpcMode", "NetworkMode", "RestartPolicy", "Ulimits", "Devices"),
    *("Privileged", "CapAdd", "DeviceRequests", "ShmSize", "PidMode", "SecurityOpt"),
)


def plain(value: object) -> object:
    return value or None


def test_a_script_makes_the_container_that_run_makes(engine: Engine, tmp_path: Path) -> None:
    path = recipe(tmp_path, "small", more=f"env: {json.dumps({'ODD': ODD})}")
    endpoint, _ = ran("run", str(path), *CPU, "--memory", "1", "--detach", "--restart").splitlines()
    ours = inspected(engine, "gb10-small-0")
    ran("stop", "small")
    (tmp_path / "token").write_text("hf_secret\n", encoding="utf-8")
    words = ("recipe", "render", str(path), "--as", "docker", *CPU, "--memory", "1", "--restart")
    capture(["sh", "-c", ran(*words)], env=docker_env(engine, HF_TOKEN_FILE=str(tmp_path / "token")))
    theirs = inspected(engine, "gb10-small-0")
    for field in SAME:
        assert plain(theirs["HostConfig"][field]) == plain(ours["HostConfig"][field]), field
    for field in ("Env", "Labels", "User", "Image"):
        assert theirs["Config"][field] == ours["Config"][field], field
    assert [theirs["Path"], *theirs["Args"][2:]] == [ours["Path"], *ours["Args"]]
    mounts = [mount["Destination"] for mount in theirs["Mounts"]]
    assert sorted(mounts) == sorted([HUB_PLACE, *(mount["Destination"] for mount in ours["Mounts"])])
    answers(endpoint)
    server = Path(f"/proc/{pid_in(engine, 'gb10-small-0', 'vllm')}/environ").read_text(encoding="utf-8").split("\0")
    assert {"HF_TOKEN=hf_secret", f"ODD={ODD}"} <= set(server)
    assert "hf_secret" not in json.dumps(theirs)
    assert json.loads(ran("status", "--json"))["services"][0]["healthy"] is True
    assert ran("stop", "small") == "small localhost gb10-small-0\n"


def test_compose_starts_a_healthy_service(tools: Tools, engine: Engine, tmp_path: Path) -> None:
    file = rendered(recipe(tmp_path, "small"), "compose", tmp_path / "files")
    env = docker_env(engine)
    tools.compose(file, "up", "--detach", "--wait", "--wait-timeout", "60", env=env)
    found = inspected(engine, "gb10-small-0")
    assert found["State"]["Health"]["Status"] == "healthy"
    assert json.loads(ran("status", "--json"))["services"][0]["healthy"] is True
    tools.compose(file, "down", env=env)
    assert failed("stop", "small")[0] == 3


def test_ansible_starts_it_once(tools: Tools, engine: Engine, tmp_path: Path) -> None:
    path, env = recipe(tmp_path, "small", more=f"env: {json.dumps({'ODD': ODD})}"), docker_env(engine)
    file = rendered(path, "ansible", tmp_path / "files")
    more = ("--extra-vars", f"docker_host={engine.endpoint.host}", str(file))
    assert "changed=1 " in tools.playbook(*more, env=env)
    found = inspected(engine, "gb10-small-0")
    assert f"ODD={ODD}" in found["Config"]["Env"]
    assert "changed=0 " in tools.playbook(*more, env=env)
    rendered(path, "ansible", tmp_path / "files").write_text(
        ran("recipe", "render", str(path), "--as", "ansible", *CPU, "--set", "env.OTHER=1"), encoding="utf-8"
    )
    assert "changed=2 " in tools.playbook(*more, env=env)
    assert "OTHER=1" in inspected(engine, "gb10-small-0")["Config"]["Env"]
