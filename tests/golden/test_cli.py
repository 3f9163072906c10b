"""The command line's own words: help, wrong verbs, wrong arches, stale locks; with their exit codes."""

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from gb10.cli import main
from gb10.cli.app import MODULES, SECTIONS, VERBS
from gb10.cli.causes import machine_error
from gb10.cli.common import verb_app
from gb10.containers.embedded.daemon import Place
from gb10.core.store import Store
from gb10.image.plan.catalog import ROOT
from tests.golden.conftest import Golden, section
from tests.golden.test_surface import ALL


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("DOCKER_HOST", Place(Store(tmp_path / "store")).endpoint.host)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


COMMANDS = """
--help
help
imgae
weather
image vllm
image --tag 'my/vllm:a b'
image --push registry.example/My/vllm
image --compression zstd
image --engine sglang-0.5.10
image --engine sglang-0.5.10 --arch 12.0f
plan --ref vllm=git:https://h.invalid/o/r.git@main
plan --patch http://h.invalid/pull/1.diff
plan --arhc 12.1f
plan --builder x
plan --gpu
plan --arch 9.0
plan --source vllm
plan --source nope=/tmp
plan --engine /nope/x.yaml
plan --arhc 12.1f --json
plan --arch sm_121a
plan --platform linux/arm64/v8
plan --engine vlm
plan --overlay nowhere
plan --patch nowhere
plan --mod moe-config
plan --mod ./nowhere
plan --mod qwen3.5-autoround
plan --mod fixed-memory --mod fixed-memory
plan --arch gb10 --json
lock --to 0.34.0
lock --check --upgrade engine
lock --upgrade nope
lock --check
verify a.whl --claim 12.1f
verify --checks
verify ../nowhere.whl --claim
verify gb10/vllm:nope
recipe memory qwen3-0.6b
recipe memory qwen3-0.6b --set gpu_memory_utilization=0.95
recipe memory glm-4.7-fp8-sglang --nodes 2
recipe memory qwen3-0.6b --set max_num_seqs=many
recipe memory qwen3-0.6b --weights /nope
recipe render qwen3-0.6b --set gpu_memory_utilization=0.02
recipe list
recipe render qwen3-0.6b --set port=9000 -- --seed 1
recipe render deepseek-v4-flash --as docker --nodes a,b
recipe render qwen3-0.6b --as helm
recipe render qwen3-0.6b --image a:1
recipe render qwen3-0.6b --as docker --peer eugr
recipe add
recipe add https://me:secret@example.org/recipes
recipe show @theirs/x
recipe show qwen3-0.6
recipe render qwen3-0.6b --set tensor_parallel=2 --nodes a
run qwen3-0.6b --dry-run --no-gpus
run deepseek-v4-flash
run qwen
run gpt-oss-120b-llamacpp
run deepseek-v4-flash --nodes @home
stop
patches show nothing
patches status --ref 0.33.0
patches status --source triton
patches status --source vllm --ref newest
mods list
mods show qwen3.5-autoround
publish gb10/vllm:a
publish gb10/vllm:a registry.example/gb10/vllm
publish gb10/vllm:a registry.example/GB10
publish gb10/vllm:a registry.example/a --compression zstd:40
engine start
engine
cache gc
cache gc --keep 50
cache gc --older-than '14 days'
cache ls
cache pull me/gb10-wheels
cache weather
doctor --rules
doctor --log head=tests/unit/data/doctor/head.log --log worker=tests/unit/data/doctor/worker.log
bench compare spark-1:8000 qwen3-0.6b
bench compare a=1 a=2 --launch x --recipe qwen3-0.6b
bench compare a=1 a=2 --launch 'serve --port {port}'
bench matrix glm-4.7-nvfp4-sglang --dry-run --skip-refused
bench matrix gpt-oss-120b-llamacpp --dry-run
bench replay nowhere.zip http://spark-1:8000
bench show nowhere
bench guard nowhere
bench serve ftp://spark-1
bench serve spark-1:8000 --extra-body top_p
"""
"""Command lines whose output is approved; the verb's heading in ``--help`` names the golden file."""
NO_VERB = "No verb"
HEADING_OF = {verb: heading for heading, verbs in SECTIONS.items() for verb in verbs}


def file_of(heading: str) -> str:
    return f"cli/{heading.lower().replace(' ', '-')}.txt"


@pytest.fixture
def said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str]], str]:
    """A command line, its output and its exit code, as a section of a golden file. Each has an empty store."""

    def say(arguments: list[str]) -> str:
        store = tempfile.mkdtemp(dir=tmp_path)
        monkeypatch.setenv("GB10_CACHE_DIR", store)
        # The engine of an empty store does not run, and that is known without a connection.
        monkeypatch.setenv("DOCKER_HOST", Place(Store(Path(store))).endpoint.host)
        code = main(arguments)
        out, err = capsys.readouterr()
        text = section(f"$ {shlex.join(['build.py', *arguments])}", f"{out}{err}exit {code}\n")
        for pattern, word in {
            re.escape(store): "<store>",
            re.escape(str(tmp_path)): "<tmp>",
            re.escape(str(ROOT)): "<checkout>",
            r"(?<=-sm121f-)[0-9a-f]{12}": "<key>",
            r"(?<=failed after )\d+\.\d s": "<time>",
        }.items():
            text = re.sub(pattern, word, text)
        return text

    return say


@pytest.mark.parametrize("heading", [NO_VERB, *SECTIONS])
def test_what_commands_print(golden: Golden, said: Callable[[list[str]], str], heading: str) -> None:
    commands = [[], *map(shlex.split, COMMANDS.strip().splitlines())]
    own = [words for words in commands if HEADING_OF.get("".join(words[:1]), NO_VERB) == heading]
    golden(file_of(heading), "\n".join(map(said, own)))


@pytest.mark.parametrize("heading", SECTIONS)
def test_help_pages(golden: Golden, said: Callable[[list[str]], str], heading: str) -> None:
    """Every page of a verb, and of a verb's subcommands after it."""
    words = [path.split() for path in ALL if HEADING_OF[path.split()[0]] == heading]
    pages = dict.fromkeys(tuple(path[:length]) for path in words for length in range(1, len(path) + 1))
    golden(f"help/{Path(file_of(heading)).name}", "\n".join(said([*page, "--help"]) for page in pages))


def test_mistakes_in_files_and_variables(
    golden: Golden, said: Callable[[list[str]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod = tmp_path / "a mod"
    (mod / "sub").mkdir(parents=True)
    (mod / "sub/run.sh").write_text("true\n", encoding="utf-8")
    (mod / "link").symlink_to("/etc/passwd")
    broken_mod = said(["mods", "check", str(mod)])

    recipe = tmp_path / "vllm.yaml"
    text = (ROOT / "recipes/images/vllm.yaml").read_text(encoding="utf-8")
    recipe.write_text(text.replace("0.33.0", "0.34.0"), encoding="utf-8")
    (tmp_path / "vllm.lock.json").write_bytes((ROOT / "recipes/images/vllm.lock.json").read_bytes())
    stale_lock = said(["plan", "--engine", str(recipe)])
    stale_lock = re.sub(r".*(?:locked from|recipe is).*\n", "", stale_lock)
    stale_lock = re.sub(r"(?<=locked on )[-\d]{10}", "<date>", stale_lock)

    monkeypatch.setenv("GB10_JOBS", "many")
    no_number = said(["plan"])
    monkeypatch.delenv("GB10_JOBS")

    (tmp_path / "config/gb10").mkdir(parents=True)
    (tmp_path / "config/gb10/config.toml").write_text('debian-miror = "x"\n', encoding="utf-8")
    unknown_setting = said(["config", "show"])
    golden("cli/files-and-variables.txt", "\n".join([broken_mod, stale_lock, no_number, unknown_setting]))


def test_a_plan_as_json_is_one_document_with_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gb10/plan/v1"
    assert set(document["hit"]) == {step["name"] for step in document["steps"]}
    assert main(["image", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_a_refused_claim_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", sys.executable, "--claim", "--json"]) == 9
    out, err = capsys.readouterr()
    assert [problem["found"] for problem in json.loads(out)["problems"]] == ["no GPU code"]
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.ENOSPC, "build", "the disk is full"),
        (errno.EDQUOT, "build", "the disk is full"),
        (errno.EACCES, "usage", "cannot read or write /some/file: Permission denied"),
        (errno.EROFS, "usage", "cannot read or write /some/file: Read-only file system"),
    ],
)
def test_what_the_machine_refuses_is_no_bug(number: int, kind: str, message: str) -> None:
    error = machine_error(OSError(number, os.strerror(number), "/some/file"))
    assert error
    assert (error.kind, error.message) == (kind, message)
    assert "/some/file" in str(error)
    assert error.hint


def test_what_nobody_foresaw_is_a_bug(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    verb = ModuleType("gb10.cli.broken")
    verb.app = verb_app("Always fails.")  # type: ignore[attr-defined]

    def broken() -> None:
        raise KeyError("x")

    verb.app.command()(broken)
    monkeypatch.setitem(sys.modules, verb.__name__, verb)
    monkeypatch.setitem(VERBS, "broken", "Always fails.")
    monkeypatch.setitem(MODULES, "broken", verb.__name__)
    assert main(["broken"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2] == "error: this is a bug in gb10: KeyError: 'x'"


def test_interrupted_it_says_so_in_one_line(tmp_path: Path) -> None:
    pipe = tmp_path / "config/gb10/config.toml"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    script = "import sys; from gb10.cli import main; sys.exit(main(['config', 'show']))"
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, text=True) as run:
        while run.poll() is None and not is_read(pipe):
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (130, "interrupted; run the same command again to continue\n")


def is_read(pipe: Path) -> bool:
    """True as soon as another process waits for what the pipe holds."""
    try:
        os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # kept open: its end would end the wait
    except OSError:
        return False
    return True


def test_a_password_of_any_setting_is_hidden(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GB10_DEBIAN_MIRROR", "https://me:secret@mirror.example/debian")
    monkeypatch.setenv("GB10_COMPILE_CACHE", "redis://me:secret@cache.example")
    for arguments in (["config", "show"], ["config", "show", "--json"]):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert "secret" not in out
        assert "https://***@mirror.example/debian" in out


def test_the_plan_counts_steps_and_names_wheels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\d+ steps: 0 cached, \d+ to run", out)
    assert re.search(r"layer-cudnn .* 1 wheel: nvidia_cudnn", out)
