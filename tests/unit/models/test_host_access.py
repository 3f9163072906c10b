"""What a recipe asks of the host of its containers: every form that Docker's users write, and what is refused."""

import pytest
import yaml

from gb10.containers.container_options import HostAccess, HostMount
from gb10.models.load.host_access import host_request
from gb10.models.load.loading import load_model_recipe
from gb10.models.recipe_privileges import model_files

PLAIN = {"model": "org/m", "container": "vllm/vllm-openai:v0.33.0", "command": "vllm serve org/m --port 1"}


def asked(**keys: object) -> HostAccess:
    recipe = load_model_recipe(yaml.safe_dump({**PLAIN, **keys}, sort_keys=False), "x.yaml")
    assert [issue.text for issue in recipe.issues if issue.level == "error"] == []
    return host_request(recipe).access


def refused(**config: object) -> list[str]:
    recipe = load_model_recipe(yaml.safe_dump({**PLAIN, "executor_config": config}, sort_keys=False), "x.yaml")
    return [f"{issue.line}: {issue.text}" for issue in recipe.issues if issue.code == "wrong-value"]


@pytest.mark.parametrize(
    ("volumes", "mounts"),
    [
        (["/a:/b"], (HostMount(source="/a", target="/b"),)),
        (["/a:/b:ro"], (HostMount(source="/a", target="/b", read_only=True),)),
        (["/a"], (HostMount(source="/a", target="/a"),)),
        (["/a/:/b/:rw"], (HostMount(source="/a", target="/b"),)),
        (["kv:/kv"], (HostMount(source="kv", target="/kv"),)),
        ("/a:/b", (HostMount(source="/a", target="/b"),)),
        ({"/a": "/b:ro"}, (HostMount(source="/a", target="/b", read_only=True),)),
        ({"/a": {"bind": "/b", "mode": "ro"}}, (HostMount(source="/a", target="/b", read_only=True),)),
        (["/a:/b", "/a:/b"], (HostMount(source="/a", target="/b"),)),
        ([], ()),
        (None, ()),
    ],
)
def test_volumes_in_each_form(volumes: object, mounts: tuple[HostMount, ...]) -> None:
    assert asked(executor_config={"volumes": volumes}).mounts == mounts
    assert asked(volumes=volumes).mounts == mounts


def test_every_other_key() -> None:
    found = asked(
        executor_config={
            "devices": ["/dev/dri", "/dev/a:/dev/b:r"],
            "cap_add": ["IPC_LOCK", "CAP_SYS_NICE"],
            "security_opt": ["no-new-privileges", "seccomp=unconfined"],
            "privileged": True,
            "user": "1000:1000",
            "ulimit": ["memlock=-1:-1", "nofile=65535"],
            "ipc": "private",
            "shm_size": "32gb",
            "labels": {"team": "a b"},
        },
        gb10={"host": {"cpuset": "0-9", "hostname": "spark-a", "extra_hosts": {"hub.local": "10.0.0.2"}}},
    )
    assert found == HostAccess(
        devices=("/dev/dri:/dev/dri:rwm", "/dev/a:/dev/b:r"),
        cap_add=("IPC_LOCK", "SYS_NICE"),
        security_opt=("no-new-privileges", "seccomp=unconfined"),
        privileged=True,
        user="1000:1000",
        ulimits={"memlock": (-1, -1), "nofile": (65535, 65535)},
        ipc="private",
        shm_size=32 << 30,
        cpuset="0-9",
        hostname="spark-a",
        extra_hosts={"hub.local": "10.0.0.2"},
        labels={"team": "a b"},
    )
    assert found.own_shared_memory == 32 << 30
    assert asked(executor_config={"shm_size": "64m"}).own_shared_memory is None
    assert asked(executor_config={"shm_size": "1.5g"}).shm_size == 3 << 29
    long = f"/{'a' * 150}/{'b' * 150}"
    recipe = load_model_recipe(yaml.safe_dump({**PLAIN, "volumes": [f"{long}:/b"]}), "x.yaml")
    assert [one.value for one in host_request(recipe).asked] == [f"{long}:/b"]


def test_a_key_that_sparkrun_lacks_is_said_to_be_read_here_alone() -> None:
    text = yaml.safe_dump({**PLAIN, "executor_config": {"hostname": "x", "colour": "red"}}, sort_keys=False)
    found = [issue.text for issue in load_model_recipe(text, "x.yaml").issues if issue.code == "unknown-key"]
    assert found == [
        "sparkrun does not read 'hostname'; gb10 gives it to the containers",
        "unknown key 'colour'; nothing reads it",
    ]


def test_the_same_folder_in_two_sections_is_one_and_two_folders_at_one_place_are_a_mistake() -> None:
    both = asked(executor_config={"volumes": ["/a:/b"]}, gb10={"host": {"volumes": ["/a:/b", "/c:/d"]}})
    assert [mount.source for mount in both.mounts] == ["/a", "/c"]
    assert refused(volumes=["/a:/b", "/c:/b"]) == ["0: two volumes are mounted at /b"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("volumes", "/a:/b:ro:x"),
        ("volumes", "/a:/b:rx"),
        ("volumes", "a/b:/c"),
        ("volumes", "~/m:/m"),
        ("volumes", "${HOME}:/m"),
        ("volumes", "/a/../etc:/m"),
        ("volumes", "/a:b"),
        ("volumes", "/a:/"),
        ("volumes", "/a:/gb10/run"),
        ("volumes", "/a:/proc"),
        ("volumes", "v:/./gb10"),
        ("volumes", "v://gb10/x"),
        ("volumes", "v:/./proc"),
        ("volumes", "v://"),
        ("volumes", "v:/./"),
        ("volumes", "/a/./b:/c"),
        ("volumes", "/a,readonly=false:/b"),
        ("volumes", "/a\nb:/b"),
        ("volumes", 3),
        ("devices", "/etc/passwd"),
        ("devices", "/dev/../etc"),
        ("devices", "/dev/infiniband/..:/dev/x"),
        ("devices", "/dev/infiniband/..:/dev/x:r"),
        ("devices", "/dev/dri:/dev/../x"),
        ("devices", "/dev/dri/./card0"),
        ("devices", "/dev/a:/b"),
        ("devices", "/dev/a:/dev/a:x"),
        ("cap_add", "sys_admin; id"),
        ("security_opt", "Seccomp unconfined"),
        ("user", "root; id"),
        ("ulimit", "memlock"),
        ("ulimit", "memlock=unlimited"),
        ("ipc", "container:other"),
        ("shm_size", "much"),
        ("shm_size", "0"),
        ("shm_size", "0.0001"),
        ("labels", "no value\x1b="),
    ],
)
def test_a_value_of_another_form_is_named_with_its_line(key: str, value: object) -> None:
    (found,) = refused(**{key: [value]})
    assert found.startswith(f"6: {key}: ")
    assert " is not " in found


def test_a_list_without_end_is_refused() -> None:
    assert len(refused(cap_add=[f"CAP_{chr(65 + n % 26)}{chr(65 + n // 26)}" for n in range(70)])) == 6


@pytest.mark.parametrize(
    ("command", "model", "paths"),
    [
        ("vllm serve /models/m", "/models/m", ["/models/m"]),
        ("vllm serve /models/m/ --tokenizer /models/m/tok", None, ["/models/m"]),
        ("vllm serve org/m --lora-modules a=/l/a b=/l/b", "org/m", ["/l/a"]),
        ("""vllm serve org/m --speculative-config '{"model": "/d", "x": 1}'""", "org/m", ["/d"]),
        ("python3 -m sglang.launch_server --model-path /m", None, ["/m"]),
        ("llama-server -m /m.gguf", None, ["/m.gguf"]),
        ("vllm serve org/m --chat-template=/t/x.jinja", "org/m", ["/t/x.jinja"]),
        ("vllm serve /var/cache/gb10/huggingface/m", None, []),
        ("vllm serve /models/../etc", None, []),
        ("vllm serve /h/hub/models--o--m/snapshots/abc", None, ["/h/hub/models--o--m"]),
        ("vllm serve ./m --tokenizer ~/t", None, []),
        ("vllm serve org/m --served-model-name /a", None, []),
    ],
)
def test_files_of_a_model_are_mounted_where_the_command_names_them(
    command: str, model: str | None, paths: list[str]
) -> None:
    found = model_files(command, model)
    assert [mount.source for mount in found] == paths
    assert all(mount.target == mount.source and mount.read_only and mount.optional for mount in found)
