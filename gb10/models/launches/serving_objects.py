"""Objects that name a model and leave the server's command to a controller: KServe's, and Ray Serve's LLMs. Pure.

What KServe runs for them: the templates of its repository (config/llmisvcconfig, v0.20). What Ray makes of
``engine_kwargs``: vLLM's own engine arguments, by name (ray.serve.llm).
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gb10.models.launches.container_launch import ContainerLaunch, Taken, mapping, texts_of
from gb10.models.load.safe_yaml import UnreadableError, read_yaml

MOUNTED: Final = "/mnt/models"
"""Where KServe puts the model of an object."""
HUB: Final = "hf://"
ADDED: Final = "VLLM_ADDITIONAL_ARGS"
"""The variable by which KServe's templates take more options."""
RUNTIMES: Final = ("ServingRuntime", "ClusterServingRuntime")
NAMED: Final = ("{{.Name}}", "{{ .Name }}")
Document = Mapping[str, object]


def completed(objects: Sequence[tuple[int, Document, Sequence[ContainerLaunch]]]) -> tuple[ContainerLaunch, ...]:
    """The containers of a file with what its other objects say of their model, and the servers that Ray starts.

    ``objects`` are the first line of each document, from 0, the document, and its containers.
    """
    found: list[ContainerLaunch] = []
    for line, value, own in objects:
        if value.get("kind") == "LLMInferenceService":
            name = str(mapping(value.get("metadata")).get("name") or "main")
            bare = ContainerLaunch(form="Kubernetes", name=name, line=line + 1, image="", words=())
            found += [_llm(one, value, line) if one.name == "main" else one for one in own] or [_llm(bare, value, line)]
        else:
            found += own
    services = [(line, value) for line, value, _ in objects if value.get("kind") == "InferenceService"]
    runtimes = {
        str(mapping(value.get("metadata")).get("name")) for _, value, _ in objects if value.get("kind") in RUNTIMES
    }
    for line, value in services if len(services) == 1 else ():
        model = mapping(mapping(mapping(value.get("spec")).get("predictor")).get("model"))
        if model.get("runtime") in runtimes or (not model.get("runtime") and len(runtimes) == 1):
            found = [_inference(launch, value, model, line) if launch.engine else launch for launch in found]
    return (*found, *(one for line, value, _ in objects for one in _ray_service(value, found, line)))


def _llm(launch: ContainerLaunch, value: Document, line: int) -> ContainerLaunch:
    """The server that KServe's template starts, where the container has no command of its own."""
    if launch.entrypoint:
        return launch
    spec = mapping(value.get("spec"))
    model, sizes = mapping(spec.get("model")), mapping(spec.get("parallelism"))
    uri, name = str(model.get("uri") or ""), str(model.get("name") or "")
    tensor = str(sizes.get("tensor") or "") if "worker" not in spec else ""
    words: tuple[str, ...] = ("vllm", "serve", uri.removeprefix(HUB) if uri.startswith(HUB) else MOUNTED)
    words += ("--served-model-name", name) if name else ()
    words += ("--tensor-parallel-size", tensor) if tensor.isdecimal() else ()
    words += ("--port", "8000", *_split(launch.environment.get(ADDED, "")))
    words += tuple(word for one in launch.own for word in _split(one))  # the template's shell splits them once more
    left = [
        Taken(line=line + 1, written=f"parallelism.{key} {one}", why=_why(key, one_node="worker" not in spec))
        for key, one in sizes.items()
        if not (key == "tensor" and tensor)
    ]
    return replace(
        launch,
        words=words,
        environment={key: one for key, one in launch.environment.items() if key != ADDED},
        taken=(*launch.taken, *_of_model(uri, line), *left),
    )


def _why(key: str, *, one_node: bool) -> str:
    if one_node and key == "pipeline":
        return "KServe's template of one node does not pass it (kserve#6044)"
    return "KServe's template of several nodes decides it"


def _of_model(uri: str, line: int) -> Iterator[Taken]:
    if uri.startswith(HUB):
        yield Taken(line=line + 1, written=uri, became="model")
    elif uri:
        why = (
            f"KServe puts that model into {MOUNTED}: put it into a folder of each node, and write its path as the model"
        )
        yield Taken(line=line + 1, written=uri, why=why)


def _inference(launch: ContainerLaunch, value: Document, model: Document, line: int) -> ContainerLaunch:
    """The container of a runtime with the arguments, the variables and the model of the one service that uses it."""
    uri, name = str(model.get("storageUri") or ""), str(mapping(value.get("metadata")).get("name") or "")
    words = (*launch.words, *texts_of(model.get("args")))
    for template in NAMED:
        words = tuple(word.replace(template, name) for word in words)
    if uri.startswith(HUB):
        words = tuple(word.replace(MOUNTED, uri.removeprefix(HUB)) for word in words)
    given = [mapping(one) for one in entries_of(model.get("env"))]
    return replace(
        launch,
        words=words,
        environment={
            **launch.environment,
            **{str(one["name"]): str(one["value"]) for one in given if "name" in one and "value" in one},
        },
        taken=(
            *launch.taken,
            *_of_model(uri, line),
            *(
                Taken(line=line + 1, written=str(one.get("name")), why="its value is in another object")
                for one in given
                if "valueFrom" in one
            ),
        ),
    )


def entries_of(value: object) -> list[object]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else []


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _ray_service(value: Document, found: Sequence[ContainerLaunch], line: int) -> Iterator[ContainerLaunch]:
    """The LLMs of ``serveConfigV2``, in the image of the workers."""
    written = mapping(value.get("spec")).get("serveConfigV2")
    if value.get("kind") != "RayService" or not isinstance(written, str):
        return
    try:
        config = mapping(read_yaml(written).value)
    except UnreadableError:
        return
    image = next((one.image for one in reversed(found) if one.gpu), "")
    yield from ray_launches(config, image, line)


def ray_launches(config: Document, image: str, line: int) -> Iterator[ContainerLaunch]:
    """Each LLM that a configuration of Ray Serve starts with vLLM: ``applications[].args.llm_configs``."""
    for application in entries_of(config.get("applications")):
        for one in entries_of(mapping(mapping(application).get("args")).get("llm_configs")):
            yield from _ray_llm(mapping(one), image, line)


def _ray_llm(one: Document, image: str, line: int) -> Iterator[ContainerLaunch]:
    loading, options = mapping(one.get("model_loading_config")), mapping(one.get("engine_kwargs"))
    name = str(loading.get("model_id") or "")
    copied = mapping(loading.get("model_source"))  # of a bucket
    source = name if copied else loading.get("model_source") or name
    if not isinstance(source, str) or not source:
        return
    words = ("vllm", "serve", source, *(("--served-model-name", name) if name != source else ()))
    words += tuple(
        word for key, value in options.items() if value is not None for word in option_of_argument(key, value)
    )
    runtime = mapping(one.get("runtime_env"))
    left = [key for key in one if key not in ("model_loading_config", "engine_kwargs", "runtime_env")]
    left += [f"runtime_env.{key}" for key in runtime if key != "env_vars"]
    taken = [Taken(line=line + 1, written="model_loading_config, engine_kwargs", became="command")]
    if copied:
        why = "Ray Serve copies that model: put it into a folder of each node, and write its path as the model"
        taken.append(Taken(line=line + 1, written=f"model_source {json.dumps(copied)[:200]}", why=why))
    taken += [Taken(line=line + 1, written=key, why="Ray Serve decides it, no key of a recipe") for key in left]
    yield ContainerLaunch(
        form="Kubernetes",
        name=name,
        line=line + 1,
        image=image,
        words=words,
        environment={key: str(value) for key, value in mapping(runtime.get("env_vars")).items()},
        taken=tuple(taken),
    )


def option_of_argument(key: str, value: object) -> tuple[str, ...]:
    """A field of vLLM's engine arguments as its option: ``max_model_len: 8`` -> ``--max-model-len 8``."""
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return (f"--{name}" if value else f"--no-{name}",)
    return (f"--{name}", json.dumps(value) if isinstance(value, Mapping | list) else str(value))
