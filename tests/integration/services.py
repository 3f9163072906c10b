"""Services in tests: an image whose ``vllm`` is a stand-in, recipes for it, and the verbs that run them."""

import io
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from gb10.cli import main
from gb10.containers.connection import Engine, client
from gb10.core.proc import background, last_lines
from gb10.core.store import Store
from gb10.image.plan.catalog import ROOT
from tests.integration.debian_roots import packed_root
from tests.integration.nodes import free_port

STAND_IN = Path(__file__).with_name("serving_stand_in.py")
IMAGE = "gb10/stand-in:1"
RECIPE = """\
recipe_version: "2"
model: {model}
runtime: vllm
container: {image}
defaults: {{port: {port}, tensor_parallel: {nodes}}}
{more}
command: vllm serve {{model}} --host {host} --port {{port}} -tp {{tensor_parallel}}
"""
CPU = ("--no-gpus", "--keep-free", "0.05")


def stand_in_image(store: Store, folder: Path) -> Path:
    """The tar of a root with bash, setsid and Python, where ``vllm`` is the stand-in."""
    shutil.copy(packed_root(store, "bash", "coreutils", "util-linux", "python3"), folder)
    with tarfile.open(folder / "root.tar", "a") as tar:
        script = b"#!/usr/bin/python3\n" + STAND_IN.read_bytes()
        member = tarfile.TarInfo("usr/local/bin/vllm")
        member.size, member.mode = len(script), 0o755
        tar.addfile(member, io.BytesIO(script))
    return folder / "root.tar"


def load(engine: Engine, image: Path) -> None:
    """Give an engine the image."""
    with closing(client(engine)) as sdk, image.open("rb") as stream:
        sdk.api.import_image_from_data(stream, repository=IMAGE.partition(":")[0], tag=IMAGE.partition(":")[2])


def containers(engine: Engine) -> list[str]:
    with closing(client(engine)) as sdk:
        return sorted(name.lstrip("/") for found in sdk.api.containers(all=True) for name in found["Names"])


def recipe(folder: Path, name: str, *, nodes: int = 1, more: str = "", host: str = "127.0.0.1") -> Path:
    path = folder / f"{name}.yaml"
    text = RECIPE.format(model=f"org/{name}", image=IMAGE, port=free_port(), nodes=nodes, more=more, host=host)
    path.write_text(text, encoding="utf-8")
    return path


def called(*arguments: str) -> tuple[int, str, str]:
    """The exit code of a command line, what it prints, and what it says; in this process, a start takes a second."""
    out, said, tool = io.StringIO(), io.StringIO(), str(ROOT / "build.py")
    with redirect_stdout(out), redirect_stderr(said), pytest.MonkeyPatch.context() as started:
        started.setattr(sys, "argv", [tool, *arguments])
        code = main(arguments)
    return code, out.getvalue(), said.getvalue()


def ran(*arguments: str) -> str:
    """What the tool prints as its result."""
    code, out, said = called(*arguments)
    assert code == 0, said
    return out


def failed(*arguments: str) -> tuple[int, str]:
    code, out, said = called(*arguments)
    assert code != 0
    return code, last_lines(said or out)


def pid_in(engine: Engine, container: str, word: str) -> int:
    """The pid, on this machine, of a process of a container."""
    with closing(client(engine)) as sdk:
        rows = sdk.containers.get(container).top(ps_args="-efww")["Processes"]  # whole lines, whatever COLUMNS says
        return next(
            int(row[1]) for row in rows if word in row[-1] and "launch.sh" not in row[-1] and "bash" not in row[-1]
        )


@contextmanager
def foreground(*arguments: str, log: Path) -> Iterator[Any]:
    command = [sys.executable, str(ROOT / "build.py"), *arguments]
    with background(["env", "--default-signal=INT", *command], log=log) as alive:  # a shell's background ignores it
        yield alive
