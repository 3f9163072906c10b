"""`selftest` as a user starts it: real servers that a command starts, real compilers, kills, full disks."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gb10.containers.connection import client
from gb10.containers.reach import connect_or_start
from gb10.core.installation import ROOT
from gb10.core.store import open_store
from gb10.serving.selftest.device_compiles import compiles_seen
from gb10.serving.selftest.place import LocalPlace, run_program
from gb10.serving.selftest.step_table import STEPS
from tests.hang import until
from tests.integration.openai_server import BATCH, UNSTEADY
from tests.integration.own_store import claim, release, variables
from tests.integration.services import called

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SCHEMA = json.loads((ROOT / "docs/schemas/selftest-v1.schema.json").read_text(encoding="utf-8"))
SERVER = f"{sys.executable} {ROOT}/tests/integration/openai_server.py --port {{port}} --rate 400 --only"
SLOWER = SERVER.replace("--rate 400", "--rate 60")
"""Tokens a second: answers meet also where this machine is busy."""
HOST, USER, TOKEN, ADDRESS = "spark-7f3a", "kathrin", "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi", "192.168.177.12"


@pytest.fixture(scope="module", autouse=True)
def _no_image_of_ours() -> Iterator[None]:
    """A store of its own: the worker's engine may hold images that other files made, and selftest takes one."""
    store = claim(os.environ, "selftest")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables(os.environ, store).items():
            patch.setenv(name, value)
        yield
    release(os.environ, store)


def started_by_tests() -> list[str]:
    """Servers that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if ("openai_server.py --port" in command and "--rate 400" in command) or command == "sleep 98765 ":
            found.append(command)
    return found


def selftest(out: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the report with the steps that were asked for, and what is said."""
    code, printed, said = called("selftest", "--out", str(out), "--json", *words)
    assert started_by_tests() == []
    try:
        document = json.loads(printed)
    except ValueError:
        return code, {}, said + printed
    if "steps" in document:
        jsonschema.validate(document, SCHEMA)
        assert {one["id"] for one in document["steps"]} == {one.id for one in STEPS}
        document["steps"] = [one for one in document["steps"] if one["asked"]]
    return code, document, said


def results(document: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["result"] for one in document["steps"]}


def steps(*names: str) -> list[str]:
    return [word for name in names for word in ("--step", name)]


def test_a_good_server_passes_and_its_report_names_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are planted in the command, its environment, its log and the model's folder."""
    model = tmp_path / f"home/{USER}/models"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}', encoding="utf-8")
    for name, value in {"USER": USER, "HF_TOKEN": TOKEN, "HOSTNAME": HOST}.items():
        monkeypatch.setenv(name, value)
    talk = f"connecting {HOST} {ADDRESS} {TOKEN} /home/{USER}/x; Serial Number: 1982734650012"
    launch = f"sh -c 'echo \"{talk}\"; exec {SLOWER} good'"
    wanted = steps("server", "first-request", "guard", "batches", "speed")
    code, document, said = selftest(tmp_path / "r", "--launch", launch, "--most", "3", *wanted)
    assert (code, set(results(document).values())) == (0, {"holds"}), said
    assert document["steps"][1]["claims"]["first-request.compiles"] == {"value": 0}
    kept = [path for path in (tmp_path / "r").rglob("*") if path.is_file()]
    assert {"report.json", "report.html", "report.txt", "server.log", "server.json"} <= {one.name for one in kept}
    assert "connecting" in (tmp_path / "r/server.log").read_text(encoding="utf-8")
    for path in kept:
        text = path.read_text(encoding="utf-8")
        assert [one for one in (HOST, USER, TOKEN, ADDRESS, "1982734650012") if one in text] == [], path.name


STRANGERS = {
    "IPv4": "10.20.30.41",
    "IPv6": "2001:db8:85a3::8a2e:370:7334",
    "MAC": "a0:36:bc:12:34:56",
    "GPU": "GPU-5d1c7e52-8a0b-4f3e-9c55-0123456789ab",
    "serial number": "XK77120A9",
    "comment of a key": "annas-laptop",
    "token": "hf_" + "ZxCvBnMaSdFgHjKlQwErTyUiOpZxCvBnMa",
    "user": "annamaria",
    "host": "spark-55c1",
    "e-mail": "anna.maria@lab.example.org",
}
SAID = [
    "Nov 28 09:00:00 {host} vllm[12]: listening on {IPv4}:8000 and [{IPv6}]:8000, link/ether {MAC}",
    "{host}:724:724 [0] NCCL INFO Bootstrap : Using eth0:{IPv4}<0>",
    "GPU 0: NVIDIA GB10 (UUID: {GPU}), Serial Number : {serial number}",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8Gq1 {comment of a key}",
    "OSError: /home/{user}/models/x is not a folder; mail {e-mail}; token {token}",
    "RuntimeError: http://{host}:8000 of {user}@{host}, /home/{user}/x, {IPv4}, {token}: CUDA error",
]
"""Of a machine and a user that no file of this machine names."""


def test_what_the_driver_a_program_a_server_and_an_error_say_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(SAID).format_map(STRANGERS)
    (tmp_path / "said").write_text(f"{text}\n", encoding="utf-8")
    row = f"NVIDIA GB10 {STRANGERS['GPU']}, 12.1, 580.95.05 {STRANGERS['host']}.local:1, 124610"
    smi = f"#!/bin/sh\ncase $1 in --query-gpu=name,compute*) echo '{row}' ;; *) cat {tmp_path}/said ;; esac\n"
    for name, script in {"nvidia-smi": smi, "python": f"#!/bin/sh\ncat {tmp_path}/said\nexit 1\n"}.items():
        (tmp_path / name).write_text(script, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fails = ("--launch", f"sh -c 'cat {tmp_path}/said; exit 3' {{port}}", "--python", str(tmp_path / "python"))
    code, document, said = selftest(tmp_path / "fails", *fails, *steps("machine", "limits", "server"))
    assert (code, results(document)["limits"], results(document)["server"]) == (9, "not checked", "does not hold"), said
    assert "CUDA error" in document["steps"][1]["why"] and "OSError" in document["steps"][2]["why"]
    launch = f"sh -c 'cat {tmp_path}/said; exec {SERVER} good'"
    code, document, said = selftest(tmp_path / "serves", "--launch", launch, *steps("memory", "backends"))
    assert (code, results(document)["server"]) == (13, "holds"), said
    found = {
        path: path.read_text(encoding="utf-8")
        for folder in ("fails", "serves")
        for path in (tmp_path / folder).iterdir()
    }
    assert "listening on <address>" in found[tmp_path / "serves/server.log"]
    for path, content in found.items():
        assert [kind for kind, value in STRANGERS.items() if value in content] == [], path


def test_garbage_at_some_batch_sizes_only_is_found(tmp_path: Path) -> None:
    code, document, _ = selftest(
        tmp_path / "r", "--launch", f"{SERVER} '{BATCH}'", "--most", "3", *steps("first-request", "batches")
    )
    assert code == 9
    assert results(document) == {"server": "holds", "first-request": "holds", "batches": "does not hold"}
    why = document["steps"][-1]["why"]
    assert "2 at once" in why and "1 at once" not in why


@pytest.mark.parametrize(("model", "code", "result"), [("good", 0, "holds"), (UNSTEADY, 9, "does not hold")])
def test_a_warm_answer_that_parts_from_the_cold_one_is_found(
    model: str, code: int, result: str, tmp_path: Path
) -> None:
    found, document, said = selftest(tmp_path / "r", "--launch", f"{SERVER} '{model}'", *steps("prefix"))
    assert (found, results(document)["prefix"]) == (code, result), said
    assert ("the warm answer parts from the cold one" in document["steps"][-1]["why"]) is bool(code)


def test_an_answer_of_another_server_that_parts_is_found(tmp_path: Path) -> None:
    launch = f"{SERVER} good {{against}}"
    same = selftest(tmp_path / "same", "--launch", launch, "--against", "--rate 500", *steps("against"))
    assert (same[0], results(same[1])["against"]) == (0, "holds")
    other = f'sh -c \'exec {SERVER} "${{1:-good}}"\' sh "{{against}}"'
    code, parts, _ = selftest(tmp_path / "parts", "--launch", other, "--against", "garbage: !", *steps("against"))
    assert (code, results(parts)["against"]) == (9, "does not hold")
    assert "question 1 parts at character 0" in parts["steps"][-1]["why"]


@pytest.mark.parametrize(
    ("words", "code", "result", "says"),
    [
        ("--drafts 40", 0, "holds", "40 drafts; 8 of 8 answers are the same"),
        (f"--drafts 40 --only '{BATCH}'", 9, "does not hold", "3 at once"),
        ("--drafts 40 --only 'garbage: !'", 9, "does not hold", "question 1 parts at character 0"),
        ("--drafts 0", 13, "not checked", "made no draft"),
        ("--no-such-option", 13, "not checked", "the other server did not start"),
    ],
)
def test_drafts_on_and_off(words: str, code: int, result: str, says: str, tmp_path: Path) -> None:
    """Drafts that only spoil several requests at once, drafts that spoil all, and drafts that nobody made."""
    found, document, said = selftest(
        tmp_path / "r", "--launch", f"{SERVER} good {{args}}", "--drafts", words, *steps("drafts")
    )
    assert (found, results(document)["drafts"]) == (code, result), said
    assert says in document["steps"][-1]["why"]
    assert [one["id"] for one in document["steps"]] == ["server", "greedy", "drafts"]


def test_answers_that_do_not_repeat_themselves_leave_the_canaries_and_start_no_server_in_vain(tmp_path: Path) -> None:
    launch = ("--launch", f"{SERVER} '{UNSTEADY}' {{args}}", "--against", "args='--rate 500'")
    words = ("--drafts", f"--drafts 40 --only '{BATCH}'", *steps("drafts", "against"))
    code, document, said = selftest(tmp_path / "r", *launch, *words)
    assert (code, results(document)["drafts"], results(document)["against"]) == (9, "does not hold", "not checked"), (
        said
    )
    *_, drafts, against = document["steps"]
    assert "3 at once" in drafts["why"]
    assert drafts["claims"] == {"drafts.right": {"value": False}}
    assert "greedy answers repeat themselves" in against["why"]
    assert against["evidence"] == []


def switched(folder: Path, *, obeys: bool, other: str) -> str:
    """A launch: the server prints what patch vllm/0003 prints when it obeys, and then is another model.

    Each start is a line in ``starts``.
    """
    server = folder / "serve.sh"
    warning = "GB10_CUTLASS_MOE=0: FP8 MoE layers do not use gb10's kernels" if obeys else "up"
    server.write_text(
        f"""#!/bin/sh
port=$1
shift
model=good
echo start >>{folder}/starts
if [ "$GB10_CUTLASS_MOE" = 0 ]; then echo "{warning}"; model="{other}"; fi
exec {SERVER.replace("{port}", '"$port"')} "$model" --release 0.33.0 "$@"
""",
        encoding="utf-8",
    )
    server.chmod(0o755)
    return f"{server} {{port}} {{args}}"


@pytest.mark.parametrize(
    ("obeys", "other", "code", "result", "says"),
    [
        (True, "good", 0, "holds", "GB10_CUTLASS_MOE=0: 8 of 8 answers are the same"),
        (True, "garbage: !", 9, "does not hold", "GB10_CUTLASS_MOE=0: question 1 parts"),
        (False, "good", 13, "not checked", "the log does not name GB10_CUTLASS_MOE=0"),
    ],
)
def test_a_switch_that_leaves_our_kernels_out(  # noqa: PLR0917 - a row
    obeys: bool, other: str, code: int, result: str, says: str, tmp_path: Path
) -> None:
    launch = switched(tmp_path, obeys=obeys, other=other)
    found, document, said = selftest(tmp_path / "r", "--launch", launch, *steps("switches"))
    assert (found, results(document)["switches"]) == (code, result), said
    assert says in document["steps"][-1]["why"]
    assert ("switches.right" in document["steps"][-1]["claims"]) is obeys


@pytest.mark.parametrize(("other", "code", "result"), [("good", 0, "holds"), ("garbage: !", 9, "does not hold")])
def test_drafts_run_with_our_kernels_on(other: str, code: int, result: str, tmp_path: Path) -> None:
    """Each other server has one change: kernels of upstream that are wrong are held against the switch alone."""
    words = ("--drafts", "--drafts 40", "--against", "args='--rate 500'", *steps("drafts", "switches", "against"))
    launch = switched(tmp_path, obeys=True, other=other)
    found, document, said = selftest(tmp_path / "r", "--launch", launch, *words)
    *_, drafts, switches, against = document["steps"]
    assert (found, drafts["result"], switches["result"], against["result"]) == (code, "holds", result, "holds"), said
    assert (tmp_path / "starts").read_text(encoding="utf-8").split() == ["start"] * 4
    assert drafts["claims"]["drafts.right"] == {"value": True}
    assert switches["claims"]["switches.right"] == {"value": code == 0}
    logs = {one.name: one.read_text(encoding="utf-8") for one in (tmp_path / "r").glob("*server.log")}
    assert set(logs) == {"server.log", "drafts-server.log", "switches-server.log", "against-server.log"}
    assert [name for name, text in logs.items() if "GB10_CUTLASS_MOE=0" in text] == ["switches-server.log"]


def test_answers_that_were_wrong_before_are_not_the_fault_of_drafts(tmp_path: Path) -> None:
    launch = ("--launch", f"{SERVER} 'garbage: !' {{args}}", "--drafts", "--drafts 40")
    code, document, said = selftest(tmp_path / "r", *launch, *steps("drafts"))
    drafts = document["steps"][-1]
    assert (code, drafts["result"]) == (13, "not checked"), said
    assert "canaries are wrong without drafts, too" in drafts["why"]
    assert drafts["claims"] == {"drafts.same": {"value": 8}, "drafts.of": {"value": 8}}


def test_settings_in_place_of_another_image(tmp_path: Path) -> None:
    code, document, said = selftest(
        tmp_path / "r", "--launch", f"{SERVER} good {{args}}", "--against", "args='--rate 500'", *steps("against")
    )
    assert (code, results(document)["against"]) == (0, "holds"), said
    code, _, said = selftest(
        tmp_path / "none", "--launch", f"{SERVER} good", "--against", "gb10/vllm:1", *steps("against")
    )
    assert code == 2
    assert "write {against} where the text of --against belongs" in said


def test_a_resume_asks_again_for_what_the_rest_needs(tmp_path: Path) -> None:
    """The answers of greedy live in the process: a step that goes on with them brings the server and them back."""
    out, launch = tmp_path / "r", f"{SERVER} good {{args}}"
    first = selftest(out, "--launch", launch, *steps("guard", "drafts"))
    assert results(first[1])["drafts"] == "not checked"  # the server does not say which engine it is
    again = selftest(out, "--launch", launch, "--resume", "--drafts", "--drafts 7", *steps("guard", "drafts"))
    assert (again[0], set(results(again[1]).values())) == (0, {"holds"}), again[2]
    assert again[1]["steps"][1] == first[1]["steps"][1]


def test_weights_that_are_not_here_are_not_checked(tmp_path: Path) -> None:
    """As the Hub's client ends that may download nothing."""
    text = "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder"
    launch = f"sh -c 'echo huggingface_hub.errors.{text}; exit 1' {{port}}"
    code, document, said = selftest(tmp_path / "r", "--launch", launch, *steps("guard"))
    assert (code, set(results(document).values())) == (13, {"not checked"}), said
    assert "nothing is downloaded unasked" in document["steps"][0]["why"]
    code, document, said = selftest(tmp_path / "may", "--download", "--launch", launch, *steps("guard"))
    assert (code, results(document)["server"]) == (9, "does not hold"), said


def test_an_image_that_is_not_here_is_not_checked(tmp_path: Path) -> None:
    code, document, said = selftest(tmp_path / "r", "--recipe", "qwen3-0.6b", "--no-gpus", *steps("guard"))
    assert (code, set(results(document).values())) == (13, {"not checked"}), said
    assert "is not here, and nothing is downloaded unasked: ./build.py pull" in document["steps"][0]["why"]


def test_another_gpu_is_measured_and_says_nothing_of_a_gb10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "NVIDIA H100 80GB HBM3, 9.0, 580.159.04, 81559"
    script = f"#!/bin/sh\ncase $1 in --query-gpu=name,compute*) echo '{row}' ;; *) echo 'CUDA Version: 13.0' ;; esac\n"
    (tmp_path / "nvidia-smi").write_text(script, encoding="utf-8")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = ("--python", sys.executable, *steps("machine", "limits", "numerics"))
    code, document, said = selftest(tmp_path / "r", *words)
    assert (code, set(results(document).values())) == (13, {"not checked"}), said
    machine, limits, numerics = document["steps"]
    assert machine["claims"]["machine.capability"] == {"value": "9.0"}
    assert limits["why"] == "there is no Python package 'cuda' where it runs"
    assert numerics["why"].startswith("our kernels are for capability 12.x; this is NVIDIA H100")


def test_a_server_that_does_not_start_leaves_the_rest_unchecked(tmp_path: Path) -> None:
    code, document, _ = selftest(
        tmp_path / "r", "--launch", "sh -c 'echo no CUDA device; exit 3' {port}", *steps("guard", "machine")
    )
    assert code == 9
    assert (results(document)["server"], results(document)["guard"]) == ("does not hold", "not checked")
    assert "the server did not start" in document["steps"][-1]["why"]


def test_without_a_gpu_each_step_says_so(tmp_path: Path) -> None:
    code, document, said = selftest(
        tmp_path / "r", "--python", sys.executable, *steps("machine", "limits", "power", "modules", "cap", "gemm")
    )
    assert code == 13
    assert set(results(document).values()) == {"not checked"}
    assert all("GPU" in one["why"] for one in document["steps"]), said


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--model", "no-such-folder"], 2, "it has no config.json"),
        (["--python", "/no/python"], 2, "no Python"),
        (["--step", "powr"], 2, "no step 'powr'"),
        (["--launch", "x {port}", "--recipe", "y"], 2, "two ways to start"),
        (["--launch", "x {args}", "--drafts", "a 'b"], 2, "a quotation mark has no partner in"),
        (["--step", "guard"], 13, "no model"),
        (["--step", "image"], 13, "no image"),
    ],
)
def test_wrong_input_is_one_clear_sentence(words: list[str], code: int, says: str, tmp_path: Path) -> None:
    found, document, said = selftest(tmp_path / "r", *words)
    assert (found, says in said + json.dumps(document)) == (code, True), said


def test_an_image_without_our_labels_and_one_that_is_not_here(tmp_path: Path) -> None:
    """Its proof is not there: what `verify` says of it is said, and that is no result of ours."""
    engine = connect_or_start(os.environ, open_store(os.environ))
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        member = tarfile.TarInfo("etc/os-release")
        member.size = len(text := b"ID=theirs\n")
        tar.addfile(member, io.BytesIO(text))
    with closing(client(engine)) as sdk:
        sdk.api.import_image_from_data(content.getvalue(), repository="theirs", tag="1")
        try:
            code, document, said = selftest(tmp_path / "r", "--image", "theirs:1", *steps("image", "limits"))
        finally:
            sdk.images.remove("theirs:1", force=True)
        assert sdk.containers.list(all=True, filters={"ancestor": "theirs:1"}) == []
    assert (code, set(results(document).values())) == (13, {"not checked"}), said
    assert "not built by gb10" in document["steps"][0]["why"]
    assert document["steps"][1]["why"].startswith("no GPU")
    code, _, said = selftest(tmp_path / "none", "--image", "theirs:2", *steps("image"))
    assert (code, "the engine has no image theirs:2" in said) == (7, True), said


def test_a_folder_that_is_not_empty_needs_resume(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")
    code, document, said = selftest(tmp_path, *steps("machine"))
    assert (code, "--resume" in said + json.dumps(document)) == (2, True)
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "x"


def test_resume_keeps_what_was_checked_and_runs_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "r"
    first = selftest(out, "--quick", *steps("disk", "limits"))
    assert results(first[1]) == {"disk": "holds", "limits": "not checked"}
    with (out / "steps.jsonl").open("a", encoding="utf-8") as journal:  # two reboots in one step
        journal.write('{"begun": "limits"}\n{"begun": "limits"}\n')
    again = selftest(out, "--quick", "--resume", *steps("disk", "limits"))
    assert again[1]["steps"][0] == first[1]["steps"][0]
    assert "ended twice in this step" in again[1]["steps"][1]["why"]


def test_a_small_disk_is_an_error_with_a_way_on(tmp_path: Path) -> None:
    """A file system of 64 KiB: the results do not fit. Root alone may mount it."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "t", place], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        code, document, said = selftest(place / "r", "--quick", *steps("machine", "disk"))
        assert (code, "make room, and go on by --resume" in said + json.dumps(document)) == (8, True)
    finally:
        subprocess.run(["umount", place], check=True)


def interrupted(out: Path, launch: str, words: Sequence[str], when: str) -> int:
    """The exit code of a selftest that gets Ctrl-C once a line with ``when`` was said."""
    command = [sys.executable, str(ROOT / "build.py"), "selftest", "--out", str(out), "--launch", launch, *words]
    log = out.with_suffix(".said")
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as child:
        until(lambda: when in log.read_text(encoding="utf-8") or child.poll() is not None, when)
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        return child.wait(120)


@pytest.mark.parametrize(
    ("wanted", "other"),
    [
        ("disk", ""),
        ("server", "exec sleep 98765;"),
        ("guard", ""),
        ("drafts", "test $# -gt 2 && exec sleep 98765;"),
    ],
)
def test_ctrl_c_in_each_phase(wanted: str, other: str, tmp_path: Path) -> None:
    """While a file is written, while a server starts, while it answers, while the second one starts."""
    out, script = tmp_path / "r", tmp_path / "serve.sh"
    script.write_text(f"{other}\nexec {SERVER.replace('{port}', '$1')} good --rate 20\n", encoding="utf-8")
    launch = f"sh {script} {{port}} {{args}}"
    words = [*steps(wanted), "--drafts", "--drafts 7"]
    before = sorted(one.name for one in (open_store(os.environ).root / "tmp").glob("selftest*"))
    assert interrupted(out, launch, words, f"{wanted}: ") == 130
    said = out.with_suffix(".said").read_text(encoding="utf-8")
    assert said.endswith(f"interrupted; the same command with --out {out} --resume goes on\n")
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    why = {one["id"]: one["why"] for one in report["steps"]}
    assert set(why) == {one.id for one in STEPS}
    assert why[wanted] == "interrupted before its end: --resume goes on"
    assert started_by_tests() == []
    assert not (out / ".disk").exists()
    assert sorted(one.name for one in (open_store(os.environ).root / "tmp").glob("selftest*")) == before


def test_ctrl_c_leaves_nothing_running_and_resume_goes_on(tmp_path: Path) -> None:
    out, launch = tmp_path / "r", f"{SLOWER} good"
    words = ["--most", "30", *steps("first-request", "batches")]
    assert interrupted(out, launch, words, "batches: ") == 130
    assert started_by_tests() == []
    assert results(json.loads((out / "report.json").read_text(encoding="utf-8")))["first-request"] == "holds"
    code, document, _ = selftest(
        out, "--resume", "--launch", launch, "--most", "30", *steps("first-request", "batches")
    )
    assert code == 0
    assert set(results(document).values()) == {"holds"}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
def test_a_compile_on_the_device_is_counted(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("__global__ void k(float* x) { x[threadIdx.x] *= 2.f; }\n", encoding="utf-8")
    command = ["nvcc", "-O1", "-gencode", "arch=compute_90,code=sm_90", "-c", str(source), "-o", str(tmp_path / "k.o")]
    own = [str(os.getpid())]
    with compiles_seen(lambda: own, {"nvcc": tmp_path}) as seen:
        subprocess.run(command, check=True)
    assert seen.processes["ptxas"] + seen.processes["cicc"] >= 1
    assert seen.files == {"nvcc": 1}
    assert seen.of_kernels >= 1
    with compiles_seen(lambda: own, {"nvcc": tmp_path}) as nothing:
        subprocess.run(["true"], check=True)
    assert (nothing.files, nothing.of_kernels) == ({}, 0)


def test_a_program_that_lacks_its_packages_says_which(tmp_path: Path) -> None:
    place = LocalPlace(python=Path(sys.executable), env=dict(os.environ))
    ran = run_program(place, ["device.py"])
    assert (ran.lines, ran.why) == ([], "there is no Python package 'cuda' where it runs")
    assert run_program(place, ["promised.py"]).one("promised")["made"] is None
