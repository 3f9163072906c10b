"""Write what users and caches see into a folder, one file for each command, and print one sha256 over all of it.

    python3 -m bootstrap scripts/freeze.py FOLDER [--jobs N]

For changes that must change no behaviour: run it before and after, and compare the folders (`diff -r`) or the digests.
Each file has the command, its stdout, its stderr and its exit code. Paths of this machine are replaced. Commands run in
an empty store, without a container engine, so no cache of the user's decides a byte; the network is not asked.

--mask-keys writes keys and digests of keys as `<key>`: what then differs is more than a key.
"""

import argparse
import contextlib
import hashlib
import io
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gb10.cli import main  # noqa: E402 - the checkout goes on the path first
from gb10.cli.app import MODULES, VERBS  # noqa: E402
from gb10.containers.embedded.daemon import Place  # noqa: E402
from gb10.core.store import Store  # noqa: E402

Command = tuple[str, ...]
ENGINES: Final = ("vllm", "sglang")
ARCHES: Final = ("12.1f", "12.0f")
OPTIONS: Final = (
    (),
    ("--slim", "none"),
    ("--slim", "all"),
    ("--kernels", "moe"),
    ("--kernels", "all"),
    ("--mod", "fixed-memory"),
    ("--overlay", "docs/schemas"),
    ("--platform", "linux/amd64"),
)
OUTPUTS: Final = ("--json", "--dockerfile", "--bake")
FORMS: Final = ("script", "docker", "compose", "k8s", "sparkrun", "systemd", "ansible")
NODES: Final = (1, 2, 4)
MISTAKES: Final[tuple[Command, ...]] = (
    *(
        ("imege",),
        ("image", "vllm"),
        ("image", "--engin", "vllm"),
        ("image", "--engine", "vlm"),
        ("image", "--arch", "9"),
    ),
    *(("image", "--patch", "nothing.diff"), ("image", "--mod", "nothing"), ("image", "--overlay", "nothing")),
    *(("image", "--without", "nothing"), ("image", "--kernels", "nothing"), ("image", "--slim", "most")),
    *(("image", "--ref", "vllm=git:https://h.invalid/o/r.git@main"), ("image", "--source", "vllm=nothing")),
    *(("image", "--targets", "nothing"), ("image", "--recipe", "nothing"), ("image", "--platform", "linux/riscv64")),
    *(
        ("wheels", "--rebuild", "nothing"),
        ("wheels", "nothing"),
        ("plan", "--json", "--bake"),
        ("plan", "--patch", "."),
    ),
    *(("lock", "--to", "0.34.0"), ("lock", "--check", "--upgrade", "engine"), ("verify", "nothing.whl")),
    *(("verify", "gb10/vllm:nothing"), ("show", "nothing"), ("report", "nothing"), ("rebuild", "nothing")),
    *(
        ("explain", "nothing"),
        ("moe", "check", "nothing"),
        ("recipe", "show", "nothing"),
        ("recipe", "lint", "nothing"),
    ),
    *(("recipe", "render", "nothing"), ("recipe", "render", "qwen3-0.6b", "--as", "nothing")),
    *(("recipe", "memory", "nothing"), ("recipe", "render", "qwen3-0.6b", "--set", "nothing")),
    *(
        ("run", "qwen"),
        ("run", "gpt-oss-120b-llamacpp"),
        ("run", "deepseek-v4-flash"),
        ("stop",),
        ("publish", "gb10/a"),
    ),
    *(("patches", "status", "--source", "nothing"), ("patches", "show", "nothing"), ("mods", "check", "nothing")),
    *(
        ("config", "nothing"),
        ("bench", "serve", "--url", "nothing"),
        ("doctor", "--log", "nothing"),
        ("cache", "nothing"),
    ),
)
FREE: Final = re.compile(r"\d+(?:\.\d+)? GB free")
"""What the disk of this moment has."""
KEYS: Final = re.compile(r"\b[0-9a-f]{64}\b|(?:(?<=-)|(?<=key ))[0-9a-f]{12}\b")


def commands() -> Iterator[Command]:
    """All of them, in order."""
    for engine in ENGINES:
        for arch in ARCHES:
            for options in OPTIONS:
                for output in OUTPUTS:
                    yield "plan", "--engine", engine, "--arch", arch, *options, output
    recipes = sorted(path.stem for path in (ROOT / "recipes/models").glob("*.yaml"))
    for recipe in recipes:
        for form in FORMS:
            for count in NODES:
                nodes = ",".join(f"10.0.0.{number}" for number in range(1, count + 1))
                yield "recipe", "render", recipe, "--as", form, "--nodes", nodes, "--json"
        yield "recipe", "lint", recipe, "--json"
        yield "recipe", "memory", recipe, "--json"
        yield "recipe", "show", recipe, "--json"
        yield "run", recipe, "--dry-run", "--no-gpus"
    yield ("--help",)
    for page in _help_pages():
        yield *page, "--help"
    for log in sorted((ROOT / "tests/unit/data/doctor").glob("*/*.log")):
        yield "doctor", "--log", str(log.relative_to(ROOT)), "--json"
    for file in sorted((ROOT / "tests/unit/data/scan").iterdir()):
        yield "verify", str(file.relative_to(ROOT)), "--json"
    yield from (("recipe", "lint", "--rules"), ("recipe", "list"), ("mods", "list"), ("doctor", "--rules"))
    yield from MISTAKES


def _help_pages() -> Iterator[Command]:
    """Each verb, and each command below one."""
    import importlib  # noqa: PLC0415 - every verb is imported here, and nowhere else

    import typer  # noqa: PLC0415
    from typer.core import TyperGroup  # noqa: PLC0415

    from gb10.cli.typer_click import Context  # noqa: PLC0415

    for verb in VERBS:
        yield (verb,)
        found = typer.main.get_command(importlib.import_module(MODULES[verb]).app)
        if isinstance(found, TyperGroup):
            for name in found.list_commands(Context(found)):
                yield verb, name


def said(command: Command, mask: bool) -> str:
    """What a command printed, and its exit code, without paths of this machine. Changes this process's environment."""
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in os.environ if name.startswith(("GB10_", "DOCKER_", "HF_"))]:
            del os.environ[name]
        os.environ |= {
            "GB10_CACHE_DIR": f"{folder}/store",
            "XDG_CONFIG_HOME": f"{folder}/config",
            "XDG_STATE_HOME": f"{folder}/state",
            "HOME": f"{folder}/home",
            "DOCKER_HOST": Place(Store(Path(folder) / "store")).endpoint.host,  # known not to run
            "GB10_DEBIAN_MIRROR": "http://mirror.invalid/debian",
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        out, err = io.BytesIO(), io.BytesIO()
        with contextlib.redirect_stdout(_text(out)), contextlib.redirect_stderr(_text(err)):
            code = main(command)
            sys.stdout.flush()
            sys.stderr.flush()
            printed = [held.getvalue().decode() for held in (out, err)]
        text = f"$ build.py {' '.join(command)}\n{printed[0]}--- stderr\n{printed[1]}--- exit {code}\n"
        text = text.replace(folder, "<tmp>").replace(str(ROOT), "<checkout>")
        text = FREE.sub("<free>", text)
        return KEYS.sub("<key>", text) if mask else text


def _text(held: io.BytesIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(held, encoding="utf-8", errors="backslashreplace")


def _freeze(one: tuple[int, Command, Path, bool]) -> None:
    number, command, folder, mask = one
    name = re.sub(r"[^A-Za-z0-9.]+", "-", " ".join(command)).strip("-")[:120]
    (folder / f"{number:04} {name}.txt").write_text(said(command, mask), encoding="utf-8")


def freeze() -> None:
    """Freeze, and print the digest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mask-keys", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    work = [(number, command, given.folder, given.mask_keys) for number, command in enumerate(commands())]
    with multiprocessing.Pool(given.jobs) as pool:
        for done, _ in enumerate(pool.imap_unordered(_freeze, work), start=1):
            if not done % 100:
                print(f"{done} of {len(work)}", file=sys.stderr)
    total = hashlib.sha256()
    for path in sorted(given.folder.iterdir()):
        total.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    print(total.hexdigest())


if __name__ == "__main__":
    freeze()
