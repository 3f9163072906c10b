"""The command line's own words: help, wrong verbs, wrong arches, stale locks; with their exit codes."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from gb10.cli import main
from gb10.cli.app import MODULES, VERBS
from gb10.cli.causes import machine_error
from gb10.cli.common import verb_app
from gb10.containers.embedded.daemon import Place
from gb10.core.store import Store
from gb10.image.plan.catalog import ROOT
from tests.golden.conftest import Golden


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    # The engine of an empty store does not run, and that is known without a connection.
    monkeypatch.setenv("DOCKER_HOST", Place(Store(tmp_path / "store")).endpoint.host)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def said(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> str:
    code = main(arguments)
    out, err = capsys.readouterr()
    text = f"$ build.py {' '.join(arguments)}\n{out}{err}exit {code}\n"
    return text.replace(str(tmp_path), "<tmp>").replace(str(ROOT), "<checkout>")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("start", []),
        ("help", ["--help"]),
        ("help-as-a-verb", ["help"]),
        ("argument-of-image", ["image", "vllm"]),
        ("arch-of-verify", ["verify", "a.whl", "--claim", "12.1f"]),
        ("no-argument", ["publish", "gb10/vllm:a"]),
        ("image-help", ["image", "--help"]),
        ("explain-help", ["explain", "--help"]),
        ("moe-help", ["moe", "--help"]),
        ("moe-check-help", ["moe", "check", "--help"]),
        ("moe-seed-help", ["moe", "seed", "--help"]),
        ("moe-tune-help", ["moe", "tune", "--help"]),
        ("verify-help", ["verify", "--help"]),
        ("lock-help", ["lock", "--help"]),
        ("rebuild-help", ["rebuild", "--help"]),
        ("lock-to-nothing", ["lock", "--to", "0.34.0"]),
        ("lock-check-and-upgrade", ["lock", "--check", "--upgrade", "engine"]),
        ("ref-without-commit", ["plan", "--ref", "vllm=git:https://h.invalid/o/r.git@main"]),
        ("patch-not-read", ["plan", "--patch", "http://h.invalid/pull/1.diff"]),
        ("engine-help", ["engine"]),
        ("config-help", ["config"]),
        ("wheels-help", ["wheels", "--help"]),
        ("publish-help", ["publish", "--help"]),
        ("pull-help", ["pull", "--help"]),
        ("run-help", ["run", "--help"]),
        ("run-dry", ["run", "qwen3-0.6b", "--dry-run", "--no-gpus"]),
        ("run-one-node-of-two", ["run", "deepseek-v4-flash"]),
        ("run-no-recipe", ["run", "qwen"]),
        ("run-no-image", ["run", "gpt-oss-120b-llamacpp"]),
        ("stop-help", ["stop", "--help"]),
        ("stop-nothing", ["stop"]),
        ("status-help", ["status", "--help"]),
        ("logs-help", ["logs", "--help"]),
        ("cluster-help", ["cluster"]),
        ("cluster-check-help", ["cluster", "check", "--help"]),
        ("cluster-init-help", ["cluster", "init", "--help"]),
        ("cluster-of-nobody", ["run", "deepseek-v4-flash", "--nodes", "@home"]),
        ("doctor-help", ["doctor", "--help"]),
        ("doctor-rules", ["doctor", "--rules"]),
        (
            "doctor-log",
            [
                "doctor",
                "--log",
                "head=tests/unit/data/doctor/head.log",
                "--log",
                "worker=tests/unit/data/doctor/worker.log",
            ],
        ),
        ("plan-help", ["plan", "--help"]),
        ("bench-help", ["bench"]),
        ("bench-gemm-help", ["bench", "gemm", "--help"]),
        ("cache-help", ["cache"]),
        ("cache-gc-help", ["cache", "gc", "--help"]),
        ("cache-gc-of-nothing", ["cache", "gc"]),
        ("cache-gc-no-size", ["cache", "gc", "--keep", "50"]),
        ("cache-gc-no-age", ["cache", "gc", "--older-than", "14 days"]),
        ("cache-ls-empty", ["cache", "ls"]),
        ("cache-push-help", ["cache", "push", "--help"]),
        ("cache-pull-help", ["cache", "pull", "--help"]),
        ("cache-pull-of-nobody", ["cache", "pull", "me/gb10-wheels"]),
        ("verify-checks", ["verify", "--checks"]),
        ("verify-nothing", ["verify", "../nowhere.whl", "--claim"]),
        ("verify-no-image", ["verify", "gb10/vllm:nope"]),
        ("publish-no-image", ["publish", "gb10/vllm:a", "registry.example/gb10/vllm"]),
        ("publish-no-target", ["publish", "gb10/vllm:a", "registry.example/GB10"]),
        ("wrong-verb", ["imgae"]),
        ("wrong-option", ["plan", "--arhc", "12.1f"]),
        ("option-of-another-verb", ["plan", "--builder", "x"]),
        ("option-of-nobody", ["plan", "--gpu"]),
        ("wrong-verb-far", ["weather"]),
        ("wrong-verb-of-engine", ["engine", "start"]),
        ("wrong-verb-of-cache", ["cache", "weather"]),
        ("lock-upgrade-of-nothing", ["lock", "--upgrade", "nope"]),
        ("arch-of-another-gpu", ["plan", "--arch", "9.0"]),
        ("source-without-folder", ["plan", "--source", "vllm"]),
        ("source-of-nobody", ["plan", "--source", "nope=/tmp"]),
        ("no-recipe-file", ["plan", "--engine", "/nope/x.yaml"]),
        ("wrong-option-json", ["plan", "--arhc", "12.1f", "--json"]),
        ("wrong-tag", ["image", "--tag", "my/vllm:a b"]),
        ("wrong-push", ["image", "--push", "registry.example/My/vllm"]),
        ("wrong-compression", ["publish", "gb10/vllm:a", "registry.example/a", "--compression", "zstd:40"]),
        ("compression-of-nothing", ["image", "--compression", "zstd"]),
        ("wrong-arch", ["plan", "--arch", "sm_121a"]),
        ("wrong-platform", ["plan", "--platform", "linux/arm64/v8"]),
        ("wrong-engine", ["plan", "--engine", "vlm"]),
        ("no-cuda-torch", ["image", "--engine", "sglang-0.5.10"]),
        ("other-cuda-torch", ["image", "--engine", "sglang-0.5.10", "--arch", "12.0f"]),
        ("no-overlay", ["plan", "--overlay", "nowhere"]),
        ("patches-help", ["patches"]),
        ("no-patch", ["patches", "show", "nothing"]),
        ("whose-release", ["patches", "status", "--ref", "0.33.0"]),
        ("no-series", ["patches", "status", "--source", "triton"]),
        ("no-version", ["patches", "status", "--source", "vllm", "--ref", "newest"]),
        ("no-diff", ["plan", "--patch", "nowhere"]),
        ("mods-help", ["mods"]),
        ("mods-check-help", ["mods", "check", "--help"]),
        ("no-mod", ["plan", "--mod", "moe-config"]),
        ("no-mod-there", ["plan", "--mod", "./nowhere"]),
        ("mod-already-upstream", ["plan", "--mod", "qwen3.5-autoround"]),
        ("mod-twice", ["plan", "--mod", "fixed-memory", "--mod", "fixed-memory"]),
        ("mods-list", ["mods", "list"]),
        ("mod-show", ["mods", "show", "qwen3.5-autoround"]),
        ("recipe-help", ["recipe"]),
        ("recipe-render-help", ["recipe", "render", "--help"]),
        ("recipe-memory-help", ["recipe", "memory", "--help"]),
        ("recipe-memory", ["recipe", "memory", "qwen3-0.6b"]),
        ("recipe-memory-too-much", ["recipe", "memory", "qwen3-0.6b", "--set", "gpu_memory_utilization=0.95"]),
        ("recipe-memory-too-few-nodes", ["recipe", "memory", "glm-4.7-fp8-sglang", "--nodes", "2"]),
        ("recipe-memory-no-number", ["recipe", "memory", "qwen3-0.6b", "--set", "max_num_seqs=many"]),
        ("recipe-memory-no-folder", ["recipe", "memory", "qwen3-0.6b", "--weights", "/nope"]),
        ("recipe-render-too-large", ["recipe", "render", "qwen3-0.6b", "--set", "gpu_memory_utilization=0.02"]),
        ("recipe-list", ["recipe", "list"]),
        ("recipe-render", ["recipe", "render", "qwen3-0.6b", "--set", "port=9000", "--", "--seed", "1"]),
        ("recipe-render-two-files", ["recipe", "render", "deepseek-v4-flash", "--as", "docker", "--nodes", "a,b"]),
        ("recipe-render-as-nothing", ["recipe", "render", "qwen3-0.6b", "--as", "helm"]),
        ("recipe-render-script-of-an-image", ["recipe", "render", "qwen3-0.6b", "--image", "a:1"]),
        ("recipe-render-peers-form", ["recipe", "render", "qwen3-0.6b", "--as", "docker", "--peer", "eugr"]),
        ("recipe-add-help", ["recipe", "add", "--help"]),
        ("recipe-add-nothing", ["recipe", "add"]),
        ("recipe-add-login", ["recipe", "add", "https://me:secret@example.org/recipes"]),
        ("recipe-registry-of-nobody", ["recipe", "show", "@theirs/x"]),
        ("recipe-of-nobody", ["recipe", "show", "qwen3-0.6"]),
        ("recipe-without-nodes", ["recipe", "render", "qwen3-0.6b", "--set", "tensor_parallel=2", "--nodes", "a"]),
        ("bench-serve-help", ["bench", "serve", "--help"]),
        ("bench-guard-help", ["bench", "guard", "--help"]),
        ("bench-compare-help", ["bench", "compare", "--help"]),
        ("bench-compare-one-endpoint", ["bench", "compare", "spark-1:8000", "qwen3-0.6b"]),
        ("bench-compare-two-ways", ["bench", "compare", "a=1", "a=2", "--launch", "x", "--recipe", "qwen3-0.6b"]),
        ("bench-compare-no-place", ["bench", "compare", "a=1", "a=2", "--launch", "serve --port {port}"]),
        ("bench-matrix-help", ["bench", "matrix", "--help"]),
        ("bench-matrix-rows", ["bench", "matrix", "glm-4.7-nvfp4-sglang", "--dry-run", "--skip-refused"]),
        ("bench-matrix-no-axes", ["bench", "matrix", "gpt-oss-120b-llamacpp", "--dry-run"]),
        ("bench-replay-help", ["bench", "replay", "--help"]),
        ("bench-replay-nothing", ["bench", "replay", "nowhere.zip", "http://spark-1:8000"]),
        ("bench-show-help", ["bench", "show", "--help"]),
        ("bench-show-nothing", ["bench", "show", "nowhere"]),
        ("bench-quality-help", ["bench", "quality", "--help"]),
        ("bench-guard-nothing", ["bench", "guard", "nowhere"]),
        ("bench-serve-no-url", ["bench", "serve", "ftp://spark-1"]),
        ("bench-serve-wrong-field", ["bench", "serve", "spark-1:8000", "--extra-body", "top_p"]),
        ("json-error", ["plan", "--arch", "gb10", "--json"]),
        ("lock-check", ["lock", "--check"]),
    ],
)
def test_said(
    golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, arguments: list[str]
) -> None:
    text = said(capsys, tmp_path, *arguments)
    text = re.sub(r"(?<=-sm121f-)[0-9a-f]{12}", "<key>", text)
    golden(f"cli/{name}.txt", re.sub(r"(?<=failed after )\d+\.\d s", "<time>", text))


def test_a_mod_that_breaks_the_contract_is_told_all_of_it(
    golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mod = tmp_path / "a mod"
    (mod / "sub").mkdir(parents=True)
    (mod / "sub/run.sh").write_text("true\n", encoding="utf-8")
    (mod / "link").symlink_to("/etc/passwd")
    golden("cli/mod-broken.txt", said(capsys, tmp_path, "mods", "check", str(mod)))


def test_a_stale_lock_names_the_way_out(golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = tmp_path / "vllm.yaml"
    text = (ROOT / "recipes/images/vllm.yaml").read_text(encoding="utf-8")
    recipe.write_text(text.replace("0.33.0", "0.34.0"), encoding="utf-8")
    (tmp_path / "vllm.lock.json").write_bytes((ROOT / "recipes/images/vllm.lock.json").read_bytes())
    text = said(capsys, tmp_path, "plan", "--engine", str(recipe))
    assert text.endswith("exit 4\n")
    kept = [line for line in text.splitlines() if "locked from" not in line and "recipe is" not in line]
    golden("cli/stale-lock.txt", "\n".join(kept) + "\n")


def test_an_unknown_setting_names_the_file_and_the_closest(
    golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config/gb10").mkdir(parents=True)
    (tmp_path / "config/gb10/config.toml").write_text('debian-miror = "x"\n', encoding="utf-8")
    golden("cli/wrong-setting.txt", said(capsys, tmp_path, "config", "show"))


def test_a_plan_as_json_is_one_document_with_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gb10/plan/v1"
    assert set(document["hit"]) == {step["name"] for step in document["steps"]}
    assert main(["image", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_jobs_that_are_no_number_name_the_variable(
    golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GB10_JOBS", "many")
    golden("cli/wrong-jobs.txt", said(capsys, tmp_path, "plan"))


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
