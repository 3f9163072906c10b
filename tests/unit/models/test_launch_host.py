"""What an imported launch says of its host: volumes of a user, ports, secrets, an entrypoint, memory."""

from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.models.importing.import_result import ImportChoices, ImportResult, recipe_text
from gb10.models.importing.importing import import_recipe
from gb10.models.importing.launch_import import import_launch
from gb10.models.launches.launch_forms import launches_of
from gb10.models.registries.recipe_file import read_text

END = "--gpus all vllm/vllm-openai:v0.33.0 vllm serve org/m --port 8000"
COMPOSE = """services:
  llm:
    image: vllm/vllm-openai:v0.33.0
    command: --model org/m --api-key sk-verysecret
    gpus: all
    ports: ["9000:8000"]
    environment:
      - A=b
      - HF_TOKEN=hf_abcdefgh
    volumes:
      - /data:/data
      - ./models:/models
"""


def imported(text: str, file: str = "start.sh") -> ImportResult:
    launches = launches_of(text, file)
    assert launches
    return import_launch(launches, file, ImportChoices())


def settings(result: ImportResult) -> dict[str, object]:
    found = result.values.get("executor_config", {})
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("folder", ["$HOME/.cache/huggingface", "~/.cache/huggingface", "${HOME}/x", "./models"])
def test_a_volume_of_the_user_is_left_out_with_its_line(folder: str) -> None:
    result = imported(f'docker run -v /data:/data \\\n  -v "{folder}:/x" \\\n  {END}\n')
    assert settings(result)["volumes"] == ["/data:/data"]
    (row,) = [one for one in result.said if one.startswith("line 2: volume")]
    assert ("gb10-cache" if "huggingface" in folder else "absolute path") in row


@pytest.mark.parametrize(("network", "port"), [("", 9000), ("--network host", 8000)])
def test_the_port_of_the_machine_is_the_recipes(network: str, port: int) -> None:
    result = imported(f"docker run {network} -p 9000:8000 {END}\n")
    assert result.values["defaults"] == {"port": port}
    assert "--port {port}" in str(result.values["command"])


def test_no_secret_is_written_or_said() -> None:
    names = {"HF_TOKEN": "hf_abcdefgh", "DB_PASS": "hunter22", "WANDB_APIKEY": "wandbvalue"}
    given = " ".join(f"-e {name}={value}" for name, value in names.items())
    result = imported(
        f"docker run -e EMPTY= \\\n {given} \\\n {END} --served-model-name org/model-m --api-key sk-very\n"
    )
    text = recipe_text(result, "x") + "\n".join(result.said)
    for value in (*names.values(), "sk-very", "sk-v"):
        assert value not in text
    for name in names:
        assert any(row.startswith(f"line 2: {name} is left out") for row in result.said)
    assert any("--api-key is left out" in row for row in result.said)
    assert any("EMPTY is empty" in row for row in result.said)


def test_a_compose_file_names_the_lines_of_its_entries() -> None:
    result = imported(COMPOSE, "compose.yaml")
    rows = "\n".join(result.said)
    assert "line 9: HF_TOKEN is left out" in rows
    assert "line 12: volume ./models:/models is left out" in rows
    assert "hf_abc" not in rows + recipe_text(result, "x")
    assert "sk-very" not in rows + recipe_text(result, "x")
    assert result.values["defaults"] == {"port": 9000}


def test_an_entrypoint_is_in_the_command_only_and_memory_says_what_to_write() -> None:
    image, server = "vllm/vllm-openai:v0.33.0", "-m vllm.entrypoints.openai.api_server --model org/m"
    result = imported(f"docker run --gpus all --memory 100g --entrypoint python3 {image} {server}\n")
    assert "entrypoint" not in settings(result)
    assert str(result.values["command"]).startswith("python3 -m vllm.entrypoints.openai.api_server")
    assert any("`run --memory GIB`" in row for row in result.said)


POD = """apiVersion: apps/v1
kind: Deployment
spec:
  replicas: 2
  template:
    spec:
      hostNetwork: true
      initContainers: [{name: i, image: busybox}]
      containers:
        - name: llm
          image: vllm/vllm-openai:v0.33.0
          args: [--model, org/m]
          env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
          resources: {limits: {nvidia.com/gpu: 2, memory: 100Gi}}
          securityContext: {privileged: true, runAsUser: 1000, capabilities: {add: [IPC_LOCK]}}
          volumeMounts:
            - {name: data, mountPath: /data, readOnly: true}
            - {name: shm, mountPath: /dev/shm}
            - {name: claim, mountPath: /claim}
      volumes:
        - {name: data, hostPath: {path: /srv/data}}
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}
        - {name: claim, persistentVolumeClaim: {claimName: c}}
"""


def test_a_pod_says_what_it_asks_of_its_host() -> None:
    result = imported(POD, "pod.yaml")
    assert settings(result) == {
        "privileged": True,
        "user": "1000",
        "cap_add": ["IPC_LOCK"],
        "volumes": ["/srv/data:/data:ro"],
        "shm_size": "16g",
    }
    rows = "\n".join(result.said)
    for part in ("line 4: replicas", "line 7: hostNetwork", "line 8: initContainers", "memory 100Gi", "gpu 2"):
        assert f"{part} is left out" in rows
    assert "volume claim at /claim is left out" in rows
    assert "POD_IP is left out: Kubernetes fills it in" in rows


def test_deploy_has_rows_beside_the_gpu() -> None:
    deploy = "deploy: {replicas: 2, resources: {limits: {memory: 100g}, reservations: {devices: [{driver: nvidia}]}}}"
    rows = "\n".join(imported(COMPOSE.replace("gpus: all", deploy), "compose.yaml").said)
    assert "deploy -> the GPU" in rows
    assert "line 5: deploy.replicas is left out" in rows
    assert "line 5: deploy.resources.limits.memory is left out" in rows


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n", "a diff"),
        ("INFO 11-27 12:00:00 [x.py:1] a: b\nINFO 11-27 12:00:01 [x.py:2] c\n", "a log"),
        ("2026-11-27 12:00:00 a\n2026-11-27 12:00:01 b: c\n", "a log"),
        ("some words\nand: more\n - of them\n", "no file of YAML"),
    ],
)
def test_a_text_is_named_for_what_it_is(text: str, what: str) -> None:
    launches = launches_of(text, "x.txt")
    assert launches
    assert launches.what.startswith(what)


def test_import_of_a_log_names_it() -> None:
    with pytest.raises(UsageError, match="it is a log"):
        import_recipe("INFO 11-27 a: b: c\nINFO 11-27 [x\n", "x.log", ImportChoices())


def test_a_folder_says_which_verb_reads_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        read_text(tmp_path)
    assert f"recipe lint {tmp_path}" in str(raised.value.hint)
