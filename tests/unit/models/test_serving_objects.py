"""Objects that name a model and leave the command to a controller: KServe's, and Ray Serve's LLMs."""

import pytest
import yaml

from gb10.models.launches.container_launch import ContainerLaunch
from gb10.models.launches.launch_forms import launches_of
from gb10.models.launches.launch_recipe import model_of

RUNTIME = """
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: mine}
spec:
  containers:
  - name: kserve-container
    image: quay.io/x/vllm:1
    command: [python3, -m, vllm.entrypoints.openai.api_server]
    args: [--model=/mnt/models, "--served-model-name={{.Name}}"]
"""
SERVICE = """
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: served}
spec:
  predictor:
    model:
      runtime: RUNTIME
      args: [--max-model-len=8192]
      env: [{name: VLLM_LOGGING_LEVEL, value: DEBUG}, {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}]
      storageUri: URI
"""


def servers(text: str) -> tuple[ContainerLaunch, ...]:
    found = launches_of(text, "x.yaml")
    assert found is not None
    return found.servers


def llm(container: str = "{name: main}", **spec: object) -> str:
    spec = {
        "model": {"uri": "hf://org/m", "name": "served"},
        "template": {"containers": [yaml.safe_load(container)]},
    } | spec
    return yaml.safe_dump({"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "spec": spec})


def test_a_service_has_the_command_of_its_runtime_and_its_own_arguments() -> None:
    (one,) = servers(RUNTIME + SERVICE.replace("RUNTIME", "mine").replace("URI", "hf://org/m"))
    assert one.words[3:] == ("--model=org/m", "--served-model-name=served", "--max-model-len=8192")
    assert one.environment == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert [left.written for left in one.left] == ["HF_TOKEN"]


def test_a_model_that_only_kserve_fetches_is_said() -> None:
    (one,) = servers(RUNTIME + SERVICE.replace("RUNTIME", "mine").replace("URI", "oci://x/y:1"))
    assert model_of(one) == "/mnt/models"
    assert any(left.written == "oci://x/y:1" and "/mnt/models" in left.why for left in one.left)


@pytest.mark.parametrize("services", [SERVICE.replace("RUNTIME", "another"), SERVICE.replace("RUNTIME", "mine") * 2])
def test_a_runtime_of_another_service_or_of_several_stays_as_it_is(services: str) -> None:
    (one,) = servers(RUNTIME + services)
    assert one.words[-1] == "--served-model-name={{.Name}}"


def test_an_llm_is_served_by_kserves_own_command() -> None:
    env = "[{name: VLLM_ADDITIONAL_ARGS, value: --max-model-len=16000 --enable-auto-tool-choice}, {name: A, value: b}]"
    (one,) = servers(llm(f"{{name: main, args: [--dtype auto], env: {env}}}", parallelism={"tensor": 2, "pipeline": 2}))
    named = ("--served-model-name", "served", "--tensor-parallel-size", "2", "--port", "8000")
    added = ("--max-model-len=16000", "--enable-auto-tool-choice", "--dtype", "auto")
    assert one.words == ("vllm", "serve", "org/m", *named, *added)
    assert one.environment == {"A": "b"}
    assert [left.written for left in one.left] == ["parallelism.pipeline 2"]


def test_an_llm_with_a_command_of_its_own_keeps_it() -> None:
    (one,) = servers(llm("{name: main, command: [vllm, serve, other/m], args: [--port, '1']}"))
    assert one.words == ("vllm", "serve", "other/m", "--port", "1")


def test_what_several_nodes_take_is_left_to_kserve() -> None:
    (one,) = servers(llm(parallelism={"tensor": 4}, worker={"containers": [{"name": "main"}]}))[:1]
    assert "--tensor-parallel-size" not in one.words
    assert "several nodes" in one.left[-1].why


def test_each_llm_of_a_file_is_a_server_of_its_own_model_also_without_a_template() -> None:
    bare = llm(model={"uri": "hf://org/bare"}, template={})
    other = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main"}]}})
    found = servers("---\n".join((llm(), other, llm(model={"uri": "hf://org/two"}), bare)))
    assert [model_of(one) for one in found] == ["org/m", "org/two", "org/bare"]
    assert len(found[0].taken) == len(found[1].taken)


def test_another_container_of_an_llm_is_no_server() -> None:
    assert servers(llm("{name: sidecar, image: x}")) == ()


CONFIG = {
    "applications": [
        {
            "args": {
                "llm_configs": [
                    {
                        "model_loading_config": {"model_id": "short", "model_source": "org/m"},
                        "accelerator_type": "B200",
                        "engine_kwargs": {
                            "max_model_len": 8192,
                            "enable_prefix_caching": True,
                            "enable_chunked_prefill": False,
                            "speculative_config": {"method": "mtp"},
                        },
                    }
                ]
            }
        }
    ]
}
WORDS = (
    *("vllm", "serve", "org/m", "--served-model-name", "short", "--max-model-len", "8192", "--enable-prefix-caching"),
    *("--no-enable-chunked-prefill", "--speculative-config", '{"method": "mtp"}'),
)


def test_ray_serve_starts_vllm_with_its_engine_arguments() -> None:
    (one,) = servers(yaml.safe_dump(CONFIG, sort_keys=False))
    assert one.words == WORDS
    assert [left.written for left in one.left] == ["accelerator_type"]
    pods = {
        "template": {
            "spec": {"containers": [{"name": "w", "image": "x/ray:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
        }
    }
    spec = {"serveConfigV2": yaml.safe_dump(CONFIG, sort_keys=False), "rayClusterConfig": {"workerGroupSpecs": [pods]}}
    (two,) = servers(yaml.safe_dump({"apiVersion": "ray.io/v1", "kind": "RayService", "spec": spec}))
    assert (two.words, two.image) == (WORDS, "x/ray:1")


def test_a_model_that_ray_copies_from_a_bucket_is_said() -> None:
    one = {"model_loading_config": {"model_id": "m", "model_source": {"bucket_uri": "s3://b/m"}}}
    config = {"applications": [{"args": {"llm_configs": [one]}}]}
    spec = {"serveConfigV2": yaml.safe_dump(config)}
    (found,) = servers(yaml.safe_dump({"apiVersion": "ray.io/v1", "kind": "RayService", "spec": spec}))
    assert found.words == ("vllm", "serve", "m")
    assert 'model_source {"bucket_uri": "s3://b/m"}' in [one.written for one in found.taken if not one.became]


def test_variables_of_rays_runtime_are_the_servers_and_an_empty_argument_is_none() -> None:
    llm_config = {
        "model_loading_config": {"model_id": "org/m"},
        "engine_kwargs": {"max_model_len": None, "seed": 1},
        "runtime_env": {"env_vars": {"VLLM_LOGGING_LEVEL": "DEBUG"}, "pip": ["x"]},
    }
    (one,) = servers(yaml.safe_dump({"applications": [{"args": {"llm_configs": [llm_config]}}]}))
    assert one.words == ("vllm", "serve", "org/m", "--seed", "1")
    assert one.environment == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert [left.written for left in one.left] == ["runtime_env.pip"]


@pytest.mark.parametrize(
    "config", ["applications: 1", "applications: [{args: {llm_configs: [{engine_kwargs: {}}]}}]", "[", "a: &a [*a]"]
)
def test_a_configuration_of_other_things_starts_no_server(config: str) -> None:
    spec = {"serveConfigV2": config}
    assert servers(yaml.safe_dump({"apiVersion": "ray.io/v1", "kind": "RayService", "spec": spec})) == ()


def test_values_of_vllms_chart_are_named() -> None:
    found = launches_of("servingEngineSpec: {modelSpec: [{name: a, modelURL: org/m}]}\n", "values.yaml")
    assert found is not None
    assert "vLLM's production stack" in found.what


@pytest.mark.parametrize(("quote", "model"), [("", "org/m"), ("'", "$M")])
def test_an_object_that_a_script_pipes_is_read_with_the_scripts_values(quote: str, model: str) -> None:
    body = llm().replace("hf://org/m", "hf://$M")
    script = f"#!/bin/sh\nM=org/m\ncat <<{quote}EOF{quote} | kubectl apply -f -\n{body}EOF\necho done\n"
    found = launches_of(script, "x.sh")
    assert found is not None
    assert found.what == "a script with an object of Kubernetes (LLMInferenceService)"
    (one,) = found.servers
    assert one.words[2] == model
    assert one.line == 12


@pytest.mark.parametrize("body", ["a: [", "just a text", "services: {a: {image: x}}"])
def test_another_text_that_a_script_pipes_starts_no_server(body: str) -> None:
    found = launches_of(f"cat <<EOF > x\n{body}\nEOF\n", "x.sh")
    assert found is not None
    assert found.servers == ()
