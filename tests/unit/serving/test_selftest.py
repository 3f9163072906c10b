"""A self-test: budgets, what figures say, what no report may say, and what a log says of memory, kernels and NCCL."""

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gb10.core.child_sessions import leading, members
from gb10.core.journal import head_of
from gb10.core.proc import CommandFailedError
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import BuildError, ServeError, UsageError
from gb10.image.context import Context
from gb10.image.plan.catalog import ROOT
from gb10.serving.benchmark.launcher import Launched
from gb10.serving.claims.claim_files import load_claims
from gb10.serving.load_generator import canary_batch
from gb10.serving.load_generator.canary_batch import guard_facts
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.serving.load_generator.exchange import Exchange, Usage
from gb10.serving.load_generator.server_pages import DRAFTS
from gb10.serving.selftest import answers, compared_steps, machine_steps, node_steps, server_steps
from gb10.serving.selftest.answers import (
    AT_ONCE,
    CANARY_TOKENS,
    QUESTIONS,
    Answer,
    Token,
    captured_sizes,
    met_at_once,
    parting,
    sizes,
)
from gb10.serving.selftest.cleaning import Cleaner
from gb10.serving.selftest.compared_steps import compared
from gb10.serving.selftest.device_compiles import Compiles, compiles_seen, judge_compiles, places_of
from gb10.serving.selftest.folder import Folder, cleaner_of
from gb10.serving.selftest.outcome import (
    Figure,
    ImageFacts,
    MachineFacts,
    NotCheckedError,
    Outcome,
    Report,
    Result,
    StepReport,
    holds,
    unchecked,
)
from gb10.serving.selftest.scene import Greedy, MeasuredElsewhereError, Scene, SelftestRequest
from gb10.serving.selftest.server_logs import CACHE, WEIGHTS, backends, disagreements, figure, transport, tuned_files
from gb10.serving.selftest.step_running import OverrunError, limited
from gb10.serving.selftest.step_table import (
    AGAIN_S,
    OTHERS,
    QUICK,
    START_S,
    STARTS,
    STEPS,
    WHOLE,
    Need,
    chosen,
    left_out,
    left_out_lines,
)
from tests.recipes import SHIPPED

SCHEMA = json.loads((ROOT / "docs/schemas/selftest-v1.schema.json").read_text(encoding="utf-8"))


def test_the_budgets_of_all_steps_are_an_hour_and_ten_minutes_with_quick() -> None:
    assert sum(one.budget_s for one in STEPS) <= WHOLE == 3600
    assert sum(one.quick_s for one in STEPS) <= QUICK == 600
    assert all(one.quick_s <= one.budget_s for one in STEPS)
    assert len({one.id for one in STEPS}) == len(STEPS)


def test_a_step_that_asks_has_the_time_for_its_tokens() -> None:
    """One stream of 15 tokens a second, which a dense model of 30 B has with 4 bits; prompts at 500 a second."""
    tokens = {
        "prefix": 3 * 64,
        "greedy": 2 * len(QUESTIONS) * compared_steps.TOKENS,
        "guard": 4 * CANARY_TOKENS + CANARY_TOKENS + 160,
        "speed": 3 * 256,
    }
    canaries = (4 + len(AT_ONCE)) * CANARY_TOKENS
    tokens["greedy"] += canaries
    prompts = {"prefix": 3000, "speed": (1 + 4 + 8) * 1024}
    budgets = {one.id: one.budget_s for one in STEPS}
    assert [name for name, count in tokens.items() if count / 15 + prompts.get(name, 0) / 500 > budgets[name]] == []
    compared = len(QUESTIONS) * compared_steps.TOKENS
    for name, count in {"drafts": compared + canaries, "switches": compared, "against": compared}.items():
        assert count / 15 < budgets[name] - AGAIN_S


def test_four_starts_of_a_server_that_finds_nothing_cached_fit_into_the_hour() -> None:
    """A later start may read as much from the disk as the first; what each leaves, the next one gets."""
    each = int((START_S + AGAIN_S * len(OTHERS)) / len(STARTS))
    page = (ROOT / "docs/selftest.md").read_text(encoding="utf-8")
    assert f"{len(STARTS)} starts of {each} s each" in " ".join(page.split()).replace("four", "4")
    recorded = re.search(r"starts of .{0,40}, 97 to (\d+) s on busy", page)
    assert recorded is not None and int(recorded[1]) < each


def test_what_is_given_decides_the_steps_and_each_other_one_is_named() -> None:
    alone = chosen([], frozenset({"machine"}), quick=False)
    assert [one.id for one in alone] == ["machine", "disk"]
    quick = {one.id for one in chosen([], frozenset({"machine", "gpu", "server"}), quick=True)}
    assert {"power", "server", "guard"} <= quick
    assert not {"gemm", "batches"} & quick
    assert "moe-files" not in {one.id for one in chosen([], frozenset({"server"}), quick=False, experts=False)}


def test_a_step_that_nobody_asked_for_is_named_with_what_asks_for_it() -> None:
    machine, everything = frozenset[Need]({"machine"}), frozenset(one.need for one in STEPS)
    found = left_out(chosen([], machine, quick=False), machine, named=False, quick=False)
    assert set(found) == {one.id for one in STEPS if one.need != "machine"}
    assert found["image"].startswith("--image REF")
    assert left_out(chosen([], everything, quick=False), everything, named=False, quick=False) == {}
    quick = left_out(chosen([], everything, quick=True), everything, named=False, quick=True)
    assert quick["gemm"] == "--quick leaves it out; --step gemm"
    dense = left_out(chosen([], everything, quick=False, experts=False), everything, named=False, quick=False)
    assert dense == dict.fromkeys(("moe-files", "switches"), "the model has no experts")
    lines = left_out_lines({**dense, **quick})
    assert [one.partition(": ")[2].partition(": ")[2] for one in lines] == [
        "the model has no experts",
        "--quick leaves it out",
    ]


def test_a_report_has_what_nobody_asked_for(tmp_path: Path) -> None:
    """In report.json, on the page and in the text; and it counts as neither checked nor failed."""
    step = replace(planted_report("").steps[0], outcome=holds())
    other = replace(step, id="image", outcome=unchecked("not asked for: --image REF"), asked=False)
    report = replace(planted_report(""), steps=[step, other])
    assert report.counts == "1 holds, 0 do not hold, 0 not checked, 1 not asked for"
    assert (report.of(Result.UNCHECKED), report.unasked) == ([], [other])
    folder = Folder(tmp_path / "r", Cleaner([]), {})
    document = folder.write(report)
    jsonschema.validate(document, SCHEMA)
    assert [one["asked"] for one in document["steps"]] == [True, False]
    for name in ("report.html", "report.txt"):
        assert "not asked for: --image REF" in (folder.path / name).read_text(encoding="utf-8"), name
    assert "Nobody asked for these steps" in (folder.path / "report.html").read_text(encoding="utf-8")


def test_a_step_by_its_name_brings_the_server_that_it_needs() -> None:
    assert [one.id for one in chosen(["batches"], frozenset(), quick=True)] == ["server", "batches"]
    assert [one.id for one in chosen(["power", "machine"], frozenset(), quick=False)] == ["machine", "power"]
    with pytest.raises(UsageError, match="no step 'batch'"):
        chosen(["batch"], frozenset(), quick=False)


def test_a_step_ends_with_its_budget_and_nothing_catches_it() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(OverrunError), limited(0.05):
        while True:
            try:
                time.sleep(600)
            except Exception as error:
                raise AssertionError from error
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before


# what no report may have

HOST, USER, SERIAL, TOKEN = (
    "spark-7f3a.lab.example.org",
    "kathrin",
    "1982734650012",
    "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi",
)
PLANTED = {
    "host": HOST,
    "its short name": "spark-7f3a",
    "user": USER,
    "serial": SERIAL,
    "token": TOKEN,
    "IPv4": "192.168.177.12",
    "IPv6": "fe80::a236:bcff:fe12:3456",
    "another IPv6": "2001:db8:85a3::8a2e:370:7334",
    "MAC": "a0:36:bc:12:34:56",
    "GPU": "GPU-5d1c7e52-8a0b-4f3e-9c55-0123456789ab",
    "machine": "3f2b9c1de0a44b7f8a6c5d4e3f2a1b0c",
    "login": "admin7@10.0.0.4",
}
INPUTS = (
    "{} said it",
    "(EngineCore pid=7) INFO [utils.py:1] connecting to tcp://{}:29500",
    '{{"where": "{}"}}',
    "Serial Number                         : {}",
    "/home/{}/models/mine/model.safetensors",
    "http://{}:8000/v1",
    "NCCL INFO Bootstrap: Using eth0:{}<0>",
    "{}:724:724 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so",
    "token={}",
)


def planted_report(text: str) -> Report:
    step = StepReport(
        id="guard",
        title="Canaries",
        outcome=Outcome(result=Result.BROKEN, why=text, claims={"guard.canaries": Figure(text[:90])}),
        seconds=1.0,
        budget_s=90,
        evidence=("guard.log",),
    )
    return Report(
        gb10="0.3.0",
        when="2026-11-27T15:00:00Z",
        machine=MachineFacts(gpu="NVIDIA GB10", capability="12.1", kernel="6.14.0-1015-nvidia", arch="aarch64"),
        image=ImageFacts(reference="gb10/vllm:0.33.0", tag="0.33.0", engine="vllm"),
        steps=[step],
        wall_s=1.0,
    )


def test_a_report_counts_in_good_english() -> None:
    one = planted_report("it fell")
    assert one.counts == "0 hold, 1 does not hold, 0 not checked"
    assert replace(one, steps=[*one.steps, *one.steps]).counts == "0 hold, 2 do not hold, 0 not checked"


@pytest.mark.parametrize("kind", PLANTED)
def test_nothing_that_names_somebody_is_in_any_file(kind: str, tmp_path: Path) -> None:
    """Planted in every kind of line, as evidence, as a reason, as a value and in the options of the job."""
    value = PLANTED[kind]
    cleaner = Cleaner([HOST, USER, SERIAL, PLANTED["machine"]], [TOKEN])
    for at, form in enumerate(INPUTS):
        text = form.format(value)
        folder = Folder(tmp_path / f"{at}", cleaner, {"launch": text, "model": f"/home/{USER}/m"})
        folder.begin("guard")
        folder.keep("guard.log", text)
        folder.keep("guard.json", {"rows": [{"where": [text]}]})
        report = planted_report(text)
        folder.end(report.steps[0])
        folder.write(report)
        for path in folder.path.iterdir():
            content = path.read_text(encoding="utf-8").lower()
            assert value.lower() not in content, (form, path.name)
            assert USER not in content


STRANGERS = {
    "192.168.177.12": (
        "{}",
        "a={}",
        "_{}_",
        "eth0:{}<0>",
        "host-{}-up",
        "tcp://{}:1",
        "\\n{}",
        "\x1b[31m{}\x1b[0m",
        "{}\\n",
    ),
    "2001:db8:85a3::8a2e:370:7334": ("{}", "[{}]:1", "eth0:{}<0>", "{}/64", "{}%eth0", "\\n{}", "\x1b[31m{}"),
    "2001:db8:85a3:0:0:8a2e:370:7334": ("{}", "eth0:{}<0>", "id:{}", "[{}]:1"),
    "a0:36:bc:12:34:56": ("{}", "link/ether {} brd ff:ff:ff:ff:ff:ff", "80:00:02:08:fe:80:00:00:00:00:00:00:{}"),
    "043f:7203:00f8:a1b2": ("node_guid: {}", "{}"),
    "0x043f720300f8a1b2": ("Node GUID: {}",),
    "GPU-5d1c7e52-8a0b-4f3e-9c55-0123456789ab": ("{}", "(UUID: {})", "_{}_"),
    "XK77120A": (
        "Serial Number   : {}",
        "Serial#: {}",
        "SN: {}",
        '"serial": "{}"',
        "serial_number={}",
        "Product Serial:\t{}",
    ),
    "kathrins-laptop": (
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8Gq1 {}",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 Kathrin {}",
        "256 SHA256:9gE0m6lY0Qyt0RzJ1G1f8q3z7w2y5b8n1k4m7p0s3v6 {} (ED25519)",
    ),
    TOKEN: ("{}", "Bearer {}", "_{}_", "\\n{}", "https://x:{}@huggingface.co/m"),
    "kathrin": (
        *(
            "/home/{}/x",
            "/home/{}",
            "/data/users/{}/y",
            "~{}/.ssh",
            "C:\\Users\\{}\\x",
            "%2Fhome%2F{}%2Fx",
            "USER={}",
            "{}@a:~$",
        ),
        *("uid=1000({0}) gid=1000({0}) groups=1000({0}),27(sudo)", "drwxr-xr-x 1 {0} {0} 4096 x", "\\n/home/{}/x"),
    ),
    "spark-7f3a": (
        *(
            "Nov 28 09:00:00 {} vllm[12]: up",
            "2026-11-28T09:00:00+0000 {} kernel: NVRM: Xid",
            "Linux {} 6.14.0 #15 SMP",
        ),
        *("{}:724:724 [0] NCCL INFO x", "http://{}:8000/v1", "tcp://{}.lan:29500", "{}.lab.uni.edu:8000 is down"),
        *("Could not resolve host: {}", "connect to host {} port 22", "HTTPConnectionPool(host='{}', port=80)"),
        *("hostname: {}", "nodename='{}'", "https://{}.uni.edu/x", "\\nNov 28 09:00:00 {} sshd[1]: x"),
    ),
    "feed:1::2": ("{}",),
    "fd12::c1": ("{}", "a={}"),
    "fe80::a": ("{}%eth0", "[{}]:1"),
    "fdab::cafe": ("{}",),
    "torch.lab.edu": ("{}:8000", "http://{}/x"),
    "vllm.spark.de": ("{}:8000/v1",),
    "spark.cluster.university": ("{}:8000/v1", "tcp://{}:1"),
    "kathrin.mueller+hub@lab.example.org": ("{}", "<{}>", "mailto:{}", "\\n{}"),
}
"""What names a machine or a person that this machine does not know, with the places where it stands."""


@pytest.mark.parametrize("value", STRANGERS)
def test_what_names_a_stranger_is_in_no_text(value: str) -> None:
    cleaner = Cleaner([])
    assert [form for form in STRANGERS[value] if value in cleaner.clean(form.format(value))] == []


def test_a_host_that_is_a_key_is_cleaned_and_one_that_is_a_word_of_ours_spoils_no_report(tmp_path: Path) -> None:
    """Facts of a server have the hosts of its ranks as keys; a machine may be called "guard" or "power"."""
    cleaner = Cleaner(["spark-1", "spark-2", "guard", "canaries"])
    assert cleaner.cleaned({"spark-1": "a", "spark-2": "b"}) == {"<name>": "a", "<name>'": "b"}
    folder = Folder(tmp_path / "r", cleaner, {})
    document = folder.write(replace(planted_report("guard"), image=None))
    jsonschema.validate(document, SCHEMA)
    (step,) = document["steps"]
    assert (step["id"], step["why"], list(step["claims"])) == ("guard", "<name>", ["guard.canaries"])
    assert "&lt;name&gt;" in (folder.path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", [MachineFacts, ImageFacts, StepReport, Report])
def test_a_machine_may_be_called_like_any_part_of_a_report(part: type, tmp_path: Path) -> None:
    """A server "gpu", a user "tag": the parts keep their names, and what they say has none."""
    names = [one.name for one in fields(part)]
    folder = Folder(tmp_path / "r", Cleaner([*names, "launch", "6.14.0-1015-nvidia"]), {"launch": "by launch"})
    document = folder.write(planted_report("gpu and tag"))
    jsonschema.validate(document, SCHEMA)
    assert document["machine"]["kernel"] == "<name>"
    assert head_of((folder.path / "steps.jsonl").read_text(encoding="utf-8"))["launch"] == "by <name>"


@pytest.mark.parametrize("name", ["robert", "nina", "tom", "spark-7f3a"])
@pytest.mark.parametrize(
    "form",
    [
        "CORP\\{}",
        "CORP\\\\{}",
        "\\\\{}\\share",
        "a\\n{}",
        "a\\\\n{}\\n",
        "a\\t{}: x",
        "\\x00{}\\x00",
        "a\\u0000{}",
        "\\b{}",
    ],
)
def test_a_name_is_found_after_a_backslash_and_after_an_escape(form: str, name: str) -> None:
    """``CORP\\robert`` is a domain and a user; in ``\\nrobert`` a line ended before the name."""
    assert name not in Cleaner(["robert", "nina", "tom", "spark-7f3a"]).clean(form.format(name))


def test_what_stands_beside_a_name_after_a_backslash_is_cleaned() -> None:
    text = Cleaner(["robert"]).clean("CORP\\robert@spark-9.lab.edu at 10.0.0.4")
    assert not any(one in text for one in ("robert", "spark-9", "10.0.0.4"))


def test_what_names_nobody_stays() -> None:
    cleaner = Cleaner(["root", "nvidia", "gb10"])
    for text in (
        "nvidia-smi by root on a gb10, 127.0.0.1:8000, at 15:04:05, 101,376 B",
        "vllm 0.33.0+cu130, driver 580.159.04, NCCL version 2.28.9+cuda13.0",
        "std::vector<float>, c10::Error, at::cuda, listens on ::1",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM, 11-27 15:33:19",
        "https://forums.developer.nvidia.com/t/359960",
        'libcudnn.so.9.10.2.21, torch/nn/modules.py:12, File "/opt/v/x.py", line 3',
        "(EngineCore pid=87) INFO 11-24 08:00:55 [gpu_model_runner.py:5089] Model loading took 17.21 GiB memory",
        "ServerArgs(host='0.0.0.0', port=8000, user=None), 0000:01:00.0, Serial Number : N/A, http://localhost:1/x",
        "cafe::add, c10::add(at::Tensor), dead::beef::fade, ::abs, ::bad",
        "vllm.v1.engine:88 numpy.core.multiarray:12 torch.distributed.run:901 asyncio.runners:118",
        "inproc://engine, ipc://engine-0, inproc://vllm.core:12",
        "cuDNN version 9.10.2.21, nvidia-cudnn-cu13==9.13.0.50, nvidia_cudnn_cu13-9.13.0.50-py3-none-any.whl",
        "gb10/vllm@sha256:0123456789abcdef, cudaLaunchKernel@plt, memcpy@GLIBC_2.17, libcuda.so.1@0x7f00aa",
        "on host: 12.25 GiB, user: 0.12 s",
    ):
        assert cleaner.clean(text) == text


def test_the_machine_itself_is_known_by_its_files(tmp_path: Path) -> None:
    for name, text in (("etc/hostname", "spark-09"), ("sys/class/dmi/id/product_serial", "XK77120")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    env = {"USER": "kathrin", "HF_TOKEN": TOKEN, "PATH": "/usr/bin"}
    cleaner = cleaner_of(env, ["me@spark-10", "spark-11"], root=tmp_path)
    text = f"spark-09 XK77120 kathrin spark-10 spark-11 {TOKEN}"
    assert cleaner.clean(text).replace("<name>", "").replace("***", "").strip() == ""


# the folder


def test_a_report_is_what_its_schema_says(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "r", Cleaner([]), {"quick": True})
    document = folder.write(planted_report("it <b>fails</b> & so on"))
    jsonschema.validate(document, SCHEMA)
    jsonschema.validate(json.loads((folder.path / "report.json").read_text(encoding="utf-8")), SCHEMA)
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "<b>fails" not in page
    assert not any(word in page for word in ("<script", "src=", "href=", "url(", "http:", "https:"))
    assert "FAIL guard" in (folder.path / "report.txt").read_text(encoding="utf-8")


def test_a_folder_knows_how_far_it_came(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "r", Cleaner([]), {"quick": True})
    folder.begin("machine")
    folder.end(planted_report("x").steps[0])
    folder.begin("power")
    with (folder.path / "steps.jsonl").open("a", encoding="utf-8") as cut:
        cut.write('{"begun": "po')
    again = Folder(tmp_path / "r", Cleaner([]), {"quick": True})
    done, begun = again.earlier()
    assert list(done) == ["guard"]
    assert begun == {"machine": 1, "power": 1}
    with pytest.raises(UsageError, match="another job"):
        Folder(tmp_path / "r", Cleaner([]), {"quick": False})


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "r", Cleaner([]), {})
    (folder.path / "report.html").symlink_to("/dev/full")
    with pytest.raises(BuildError, match="No space left") as error:
        folder.write(planted_report("x"))
    assert "--resume" in str(error.value.hint)


def test_long_evidence_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "r", Cleaner(["spark-7f3a"]), {})
    folder.keep("a.log", "begin\n" + "spark-7f3a\n" * (7 << 16) + "end")  # the cut would divide a name
    text = (folder.path / "a.log").read_text(encoding="utf-8")
    assert text.startswith("begin") and text.endswith("end\n") and len(text) < 4 << 20
    assert set(text.split()) == {"begin", "end", "<name>", "…"}


# what figures say: each with the fault that it must find


def test_the_page_names_tests_that_exist_for_every_planted_fault() -> None:
    page = (ROOT / "docs/selftest.md").read_text(encoding="utf-8")
    files = {
        short: (ROOT / path).read_text(encoding="utf-8") for short, path in re.findall(r"\b([UIE]):\s+`([^`]+)`", page)
    }
    rows = [row.split("|")[3] for row in page.partition("| planted fault |")[2].splitlines() if row.startswith("| ")]
    assert set(files) == {"U", "I", "E"} and len(rows) > len(files)
    named = [re.findall(r"([UIE]) `(test_\w+)`", row) for row in rows]
    assert all(named), rows
    assert [test for row in named for short, test in row if f"def {test}(" not in files[short]] == []


def result(outcome: Outcome) -> tuple[Result, str]:
    return outcome.result, outcome.why


GOOD_POWER = {"clock": 2418, "most": 3003, "watts": 62.0, "use": 98, "tflops": 90.0}


def test_a_machine_that_is_stuck_at_low_power_is_found() -> None:
    assert machine_steps.power_outcome(GOOD_POWER, {}, low=1000).result is Result.HOLDS
    stuck = machine_steps.power_outcome({**GOOD_POWER, "clock": 851, "watts": 14.0}, {}, low=1000)
    assert stuck.result is Result.BROKEN and "851 MHz" in stuck.why
    claim = next(one for subject in load_claims() for one in subject.claims if one.id == "power.clock")
    assert claim.must.least == machine_steps.LOW_MHZ
    assert machine_steps.power_outcome({**GOOD_POWER, "use": 3}, {}, low=1000).result is Result.UNCHECKED


def test_an_image_under_the_tag_of_another_plan_is_found() -> None:
    facts = ImageFacts(reference="gb10/vllm:1", tag="1-cu130-sm121f-2e56cb2083e5", engine="vllm", plan="2e56cb2083e5ab")
    assert machine_steps.image_outcome(facts, 0, None).claims == {"image.proof": Figure(True)}
    moved = machine_steps.image_outcome(replace(facts, plan="0123456789abcd"), 0, None)
    assert moved.result is Result.BROKEN and "the tag names plan 2e56cb2083e5, the label has 0123456789ab" in moved.why
    broken = machine_steps.image_outcome(facts, 9, "a file is not the proven one")
    assert (broken.result, broken.why) == (Result.BROKEN, "a file is not the proven one")
    assert moved.claims == broken.claims == {"image.proof": Figure(False)}
    for unknown in (
        machine_steps.image_outcome(facts, 13, None),
        machine_steps.image_outcome(replace(facts, plan=None), 0, ""),
    ):
        assert (unknown.result, unknown.claims) == (Result.UNCHECKED, {})


def library(name: str, counts: dict[str, int], wrong: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "library", "name": name, "counts": counts, "wrong": wrong}


def test_a_library_that_the_driver_refuses_is_found() -> None:
    """As an H100 answered for a table that calls sm_80 native."""
    found = {"capability": "9.0", "kinds": 2, "libraries": 2}
    right = [
        library("sm90.so", {"native loads": 2}, []),
        library("sm121a.so", {"nothing CUDA_ERROR_NO_BINARY_FOR_GPU": 2}, []),
    ]
    assert machine_steps.modules_outcome(found, right).result is Result.HOLDS
    wrong = {"codes": ["sm_80"], "fit": "native", "driver": "CUDA_ERROR_NO_BINARY_FOR_GPU"}
    planted = [*right, library("sm80.so", {"native CUDA_ERROR_NO_BINARY_FOR_GPU": 1}, [wrong])]
    outcome = machine_steps.modules_outcome(found, planted)
    assert outcome.result is Result.BROKEN and "sm80.so: sm_80 is native" in outcome.why
    assert outcome.claims["modules.native-load"] == Figure(False)
    assert outcome.claims["modules.other-refused"] == Figure(True)
    assert machine_steps.modules_outcome(found, []).result is Result.UNCHECKED


def test_a_wrong_scale_is_found() -> None:
    """As an H100 printed them for an operator with one scale 2 % too large."""
    case = {"kind": "case", "experts": 8, "n": 2048, "k": 7168, "per_row": True, "per_column": False, "beyond": 0.0}
    assert machine_steps.numerics_outcome({"worst": 0.0, "cases": 1}, [case]).result is Result.HOLDS
    outcome = machine_steps.numerics_outcome({"worst": 0.0054, "cases": 1}, [{**case, "beyond": 0.00123}])
    assert outcome.result is Result.BROKEN and "1.2e-03 beyond rounding" in outcome.why
    lacks = machine_steps.numerics_outcome({"why": "torch.ops.gb10 has no cutlass_moe_mm"}, [])
    assert lacks.result is Result.UNCHECKED


def test_a_cap_that_nobody_holds_is_found() -> None:
    """As an H100 printed them with the cap, and without."""
    held = {"allowed": 21254373376, "given": 21206401024, "refused": "CUDA out of memory", "goes_on": True}
    assert machine_steps.cap_outcome(held).result is Result.HOLDS
    planted = machine_steps.cap_outcome({**held, "given": 22548578304, "refused": ""})
    assert planted.result is Result.BROKEN and planted.claims["cap.refused"] == Figure(False)
    assert machine_steps.cap_outcome({**held, "goes_on": False}).result is Result.BROKEN
    assert machine_steps.cap_outcome({"why": "others use the GPU"}).result is Result.UNCHECKED


def test_a_slow_gemm_is_found() -> None:
    line = {"kernel": "nvfp4_dense", "shape": "dense 4096x14336x4096", "tflops": 340.0, "published": 356}
    good = machine_steps.gemm_outcome({"times": [line], "not_run": None}, 0)
    assert good.result is Result.HOLDS
    assert good.claims["gemm.nvfp4-dense-dense-4096x14336x4096"] == Figure(340.0, "TFLOPS")
    slow = machine_steps.gemm_outcome({"times": [{**line, "tflops": 120.0}], "not_run": None}, 0)
    assert slow.result is Result.BROKEN and "published 356" in slow.why
    assert machine_steps.gemm_outcome({"times": [], "not_run": "no GPU"}, 0).result is Result.UNCHECKED


def seen(**processes: int) -> Compiles:
    return Compiles(processes=Counter(processes))


def test_a_compile_that_was_not_promised_is_found() -> None:
    files = Compiles(files=Counter(triton=6))
    assert judge_compiles(seen(), seen(), ["one"]) == []
    assert judge_compiles(seen(nvcc=1, cicc=1, ptxas=1), seen(), None) == []
    assert "compiled 3 kernels" in judge_compiles(seen(nvcc=1, cicc=1, ptxas=1), seen(), [])[0]
    assert "the image leaves 1" in judge_compiles(files, seen(), ["b12x"])[0]
    assert "the second request" in judge_compiles(seen(), seen(ptxas=1), None)[0]
    assert judge_compiles(seen(cc1=2), seen(cc1plus=1), []) == []  # host code


def test_a_compiler_of_somebody_else_is_not_the_servers(tmp_path: Path) -> None:
    """A build on the same machine meanwhile. The server's own shows as its child, and when its parent has ended."""
    compiler = tmp_path / "ptxas"
    os.mkfifo(tmp_path / "never")  # nobody writes to it: a process that waits, and starts no other
    compiler.write_text(f"#!/bin/sh\nread _ <{tmp_path / 'never'}\n", encoding="utf-8")
    compiler.chmod(0o755)

    def compilers(leader: int) -> int:
        names = [Path(f"/proc/{pid}/comm") for pid in members(leader)]
        return sum(name.exists() and name.read_text(encoding="utf-8") == "ptxas\n" for name in names)

    def start(script: str, count: int) -> str:
        child = stack.enter_context(leading(["sh", "-c", script], log=tmp_path / "log", env=dict(os.environ)))
        while compilers(child.pid) < count:
            time.sleep(0.01)
        return str(child.pid)

    with ExitStack() as stack:
        server: list[str] = []
        with compiles_seen(lambda: server) as seen:
            start(f"{compiler}; :", 1)
            server.append(start(f"{compiler} & ({compiler} &); wait", 2))
        assert (seen.processes, seen.unseen, seen.away) == (Counter(ptxas=2), (), "")
    with compiles_seen(lambda: ["a" * 64]) as away:
        pass
    assert (away.processes, away.unseen) == (Counter(), ("a" * 64,))
    assert away.away == "1 rank on other machines, whose compilers nobody sees"


@pytest.mark.parametrize(
    "lines",
    [
        "0::/system.slice/docker-{}.scope",
        "12:pids:/gb10-1/{}\n0::/",
        "0::/kubepods.slice/pod1.slice/cri-containerd-{}.scope",
    ],
)
def test_a_process_of_a_container_is_told_by_its_cgroup(lines: str, tmp_path: Path) -> None:
    identity = "0123456789abcdef" * 4
    for name, parent in (("40", "1"), ("41", "40"), ("9", "1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(f"{name} (p) x) S {parent} 1 40 0", encoding="utf-8")
        (tmp_path / name / "cgroup").write_text(lines.format(identity) if name != "9" else "0::/", encoding="utf-8")
    assert places_of(tmp_path, "41") == {"41", "40", identity}
    assert places_of(tmp_path, "9") == {"9", "40"}
    assert places_of(tmp_path, "77") == set()


def test_a_server_with_another_backend_is_found() -> None:
    log = (
        "INFO [cuda.py:334] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER']."
    )
    chosen_by_explain = [("attention", "FLASHINFER"), ("linear", "CutlassFp8")]
    outcome = server_steps.backends_outcome(chosen_by_explain, backends(log))
    assert outcome.result is Result.BROKEN and "explain says FLASHINFER, the log names FLASH_ATTN" in outcome.why
    right = server_steps.backends_outcome(
        chosen_by_explain, backends(log.replace("Using FLASH_ATTN", "Using FLASHINFER"))
    )
    assert right.result is Result.HOLDS
    assert server_steps.backends_outcome(chosen_by_explain, []).result is Result.UNCHECKED


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Using 'FLASHINFER_B12X' NvFp4 MoE backend out of potential backends: ['A', 'B']", "FLASHINFER_B12X"),
        ("[gptq_marlin.py:387] Using MarlinLinearKernel for GPTQMarlinLinearMethod", "MarlinLinearKernel"),
        ("server_args=ServerArgs(model_path='m', attention_backend='flashinfer', x=1)", "flashinfer"),
        ("Using max model len 1024", None),
        ("Using LBHNC KV cache layout.", None),
    ],
)
def test_names_of_kernels_in_logs(line: str, name: str | None) -> None:
    assert backends(line) == ([name] if name else [])


def test_agreement_counts_kinds() -> None:
    wrong, agree = disagreements([("attention", "TRITON_ATTN"), ("experts", "MARLIN")], ["TRITON_ATTN", "MARLIN"])
    assert (wrong, agree) == ([], 2)


LOG = """\
(EngineCore pid=87) INFO 11-24 08:00:55 [gpu_model_runner.py:5089] Model loading took 17.21 GiB memory and 14.1 seconds
(EngineCore pid=87) INFO 11-24 08:01:20 [gpu_worker.py:773] Available KV cache memory: 71.08 GiB
"""
SGLANG = "KV Cache is allocated. #tokens: 371661, K size: 12.74 GB, V size: 12.74 GB"
CPU = (
    "(Worker pid=31064) INFO 11-24 23:17:40 [cpu_worker.py:260] Explicitly set (1.0/23.54) GiB for KV cache on node 0."
)


def test_memory_that_is_not_as_estimated_is_found() -> None:
    assert (figure(LOG, WEIGHTS), figure(LOG, CACHE)) == (17.21, 71.08)
    assert (figure(SGLANG, CACHE), figure(CPU, CACHE), figure("", CACHE)) == (25.48, 1.0, None)
    assert server_steps.memory_outcome(17.21, 17.0, {}).result is Result.HOLDS
    planted = server_steps.memory_outcome(34.4, 17.0, {})
    assert planted.result is Result.BROKEN and "recipe memory says 17.00" in planted.why
    assert server_steps.memory_outcome(None, 17.0, {}).result is Result.UNCHECKED


def test_a_default_in_place_of_a_tuned_file_is_found() -> None:
    loaded = (
        "INFO [fused_moe.py:1060] Using configuration from /c/E=128,N=768,device_name=NVIDIA_GB10.json for MoE layer."
    )
    default = "WARNING [fused_moe.py:1073] Using default MoE config. Performance might be sub-optimal!"
    assert server_steps.moe_outcome(*tuned_files(loaded)).result is Result.HOLDS
    assert server_steps.moe_outcome(*tuned_files(f"{loaded}\n{default}")).result is Result.BROKEN
    assert server_steps.moe_outcome(*tuned_files("nothing")).result is Result.UNCHECKED


def said(*texts: str) -> list[Answer]:
    return [Answer(text=one) for one in texts]


def spoken(*tokens: tuple[str, dict[str, float]]) -> Answer:
    """An answer of these tokens, with those that came near."""
    return Answer(
        text="".join(text for text, _ in tokens), tokens=tuple(Token(text=text, near=near) for text, near in tokens)
    )


def test_answers_that_part_are_found() -> None:
    ours, steady = said("one two", "three", "four"), [True] * 3
    same = compared(ours, steady, ours)
    assert (same.same, same.of, same.apart, same.near) == (3, 3, (), ())
    parts = compared(ours, steady, said("one two", "thrEe", "four"))
    assert parts.apart == ("question 2 parts at character 3 of 5",)
    assert compared(ours, [True, False, True], said("one two", "thrEe", "four")).apart == ()
    with pytest.raises(NotCheckedError, match="only 1 of 3"):
        compared(ours, [False, False, True], ours)
    assert (parting("same", "same"), parting("same", "sam"), parting("", "a")) == (None, 3, 0)


START_OF = ("The", {"The": -0.1, "A": -2.4})
NEAR = ((" sky", {" sky": -0.7, " sea": -0.8}), (" sea", {" sea": -0.6, " sky": -0.9}))
FAR = ((" sky", {" sky": -0.1, " sea": -2.9}), (" sea", {" sea": -0.6, " sky": -0.9}))
ONE_SIDED = ((" sky", {" sky": -0.1, " sun": -0.3}), (" !", {" !": -0.1, " sky": -0.2}))
"""The last that the first server names lies near; ours may be anywhere below."""
UNNAMED = ((" sky", {" sky": -0.1, " sun": -3.0}), (" !", {" !": -0.1, " sky": -0.2}))


@pytest.mark.parametrize(
    ("pair", "near", "words"),
    [
        (NEAR, True, "token 2: ' sky' or ' sea', 0.30 nats apart"),
        (FAR, False, "token 2: ' sky' or ' sea', 2.80 nats apart"),
        (UNNAMED, False, "token 2: ' sky' or ' !', and one server has not both among its 5 best"),
        (ONE_SIDED, False, "token 2: ' sky' or ' !', and one server has not both among its 5 best"),
    ],
)
def test_rounding_may_decide_between_two_tokens_that_lie_near_and_no_others(
    pair: tuple[tuple[str, dict[str, float]], tuple[str, dict[str, float]]], near: bool, words: str
) -> None:
    ours, theirs = spoken(START_OF, pair[0]), spoken(START_OF, pair[1])
    found = compared([ours], [True], [theirs])
    assert (bool(found.near), bool(found.apart)) == (near, not near)
    assert words in (found.near + found.apart)[0]
    longer = spoken(START_OF, NEAR[0], (" is", {" is": -0.1}))
    assert compared([spoken(START_OF, NEAR[0])], [True], [longer]).apart == ("question 1 parts at character 7 of 7",)


def test_a_step_that_goes_on_with_others_brings_them() -> None:
    assert [one.id for one in chosen(["drafts"], frozenset(), quick=False)] == ["server", "greedy", "drafts"]
    assert [one.id for one in chosen(["against"], frozenset(), quick=False)] == ["server", "greedy", "against"]
    assert [one.id for one in chosen(["rank-death"], frozenset(), quick=False)] == ["server", "rank-death"]
    assert "switches" not in {one.id for one in chosen([], frozenset({"server"}), quick=False, experts=False)}


def test_answers_met_where_all_were_under_way_at_one_moment() -> None:
    def answer(*arrived: float, seconds: float = 9.0) -> Exchange:
        return Exchange(arrived=arrived, seconds=seconds)

    assert met_at_once([answer(1, 3), answer(2, 4), answer(3, 5)]) == 3
    assert met_at_once([answer(1, 2), answer(2.5, 4), answer(3, 5)]) == 2
    assert met_at_once([answer(1, 2), answer(3, seconds=3), answer(seconds=1.5)]) == 3, "a text at once, and none"
    assert met_at_once([answer(1, 2), answer(3, 4), answer(1)]) == 2


def test_batch_sizes_lie_between_the_captured_ones_too() -> None:
    log = "compilation_config={'cudagraph_capture_sizes': [1, 2, 4, 8, 16, 24], 'mode': 3}"
    assert captured_sizes(log) == [1, 2, 4, 8, 16, 24]
    assert sizes(8, [], quick=False) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sizes(24, captured_sizes(log), quick=True) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24]
    assert captured_sizes("no such line") == []


def channel(way: str) -> str:
    return f"<name>:940:940 [1] NCCL INFO Channel 01/0 : 1[1] -> 0[0] [send] via {way}"


START = """\
<name>:725:725 [1] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
<name>:725:725 [1] NCCL INFO NET/IB : No device found.
<name>:725:725 [1] NCCL INFO NET/IB : Using [RO]; OOB eth0:<address><0>
<name>:725:725 [1] NCCL INFO NET/Socket : Using [0]eth0:<address><0>
<name>:725:725 [1] NCCL INFO Using network Socket
"""
"""NCCL 2.28.9 on two H100 of one host, without RDMA."""
ROCE = """\
<name>:1 [0] NCCL INFO NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; OOB enp1s0f1np1:<address><0>
<name>:1 [0] NCCL INFO Using network IB
"""


@pytest.mark.parametrize(
    ("log", "way"),
    [
        (START + channel("P2P/CUMEM"), "P2P"),
        (START + channel("SHM/direct/direct"), "SHM"),
        (START + channel("NET/Socket/0"), "sockets"),
        (START, "sockets"),
        (ROCE + channel("NET/IB/0/GDRDMA"), "RoCE"),
        (ROCE, "RoCE"),
        (ROCE.replace("/RoCE", "/IB"), "InfiniBand"),
        ("no NCCL", None),
    ],
)
def test_the_way_of_nccl_by_its_own_log(log: str, way: str | None) -> None:
    assert transport(log) == way


def test_sockets_in_place_of_roce_are_found() -> None:
    assert node_steps.nodes_outcome("RoCE").result is Result.HOLDS
    planted = node_steps.nodes_outcome(transport(START + channel("NET/Socket/0")))
    assert planted.result is Result.BROKEN and "by sockets, not by RoCE" in planted.why
    with pytest.raises(NotCheckedError, match="NCCL_DEBUG=INFO"):
        node_steps.nodes_outcome(None)


def test_outcomes_are_three() -> None:
    assert [one.result for one in (holds(), unchecked("why"))] == [Result.HOLDS, Result.UNCHECKED]


# steps as they run: a server that answers by a function, programs that print by a table


Reply = Callable[[str, int, int], Exchange]
"""To a prompt, the place of the request, and how many came at once."""


def exchange(text: str, *, first: float = 0.1, seconds: float = 1.0, tokens: int = 20, **more: object) -> Exchange:
    usual = Exchange(
        status=200,
        content=text,
        finish_reason="stop",
        done=True,
        steps=2,
        arrived=(first, seconds),
        seconds=seconds,
        usage=Usage(prompt=50, completion=tokens),
    )
    return replace(usual, **more)  # type: ignore[arg-type]


def knows(prompt: str, _number: int = 0, _of: int = 1) -> Exchange:
    """A good model: it copies the code of a canary, and knows the fact."""
    code = re.search(r"Code: (.+)", prompt)
    fact = next((one for one in guard_facts() if one.ask in prompt), None)
    return exchange(f"{code[1]} {fact.accept[0]}" if code and fact else "A bridge carries its load by its cables.")


def fails(prompt: str, _number: int = 0, _of: int = 1) -> Exchange:
    return exchange("", error="the server closed the connection", done=False, arrived=())


class Printed:
    """A place whose programs print what a table says."""

    def __init__(self, **lines: list[dict[str, Any]]) -> None:
        self.lines, self.ran = lines, list[tuple[Sequence[str], Mapping[str, str]]]()

    def run(self, argv: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]) -> int:
        self.ran.append((argv, env))
        for line in self.lines.get(argv[0].removesuffix(".py"), []):
            on_line(json.dumps(line))
        return 0


SPARK = MachineFacts(gpu="NVIDIA GB10", capability="12.1", driver="580.95.05", memory_gib=119.6, arch="aarch64")


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A GB10 with a server that runs; ``asks`` gives it a model."""
    monkeypatch.setattr(Scene, "endpoint", Endpoint(url="http://s/v1", model="m"))
    monkeypatch.setattr(Scene, "longest", lambda _: 4096)
    ctx = Context(env={}, store=Store(tmp_path / "store"), reporter=Reporter({}, verbosity=-1), catalog=SHIPPED)
    return Scene(
        ctx=ctx,
        asked=SelftestRequest(most=3),
        folder=Folder(tmp_path / "r", Cleaner([]), {}),
        work=tmp_path,
        machine=SPARK,
        server=Launched(url="http://s", log=lambda: ["up"]),
    )


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reply], list[list[str]]]:
    """What the server answers; the prompts of each moment."""

    def set_reply(reply: Reply) -> list[list[str]]:
        asked: list[list[str]] = []

        def ask_all(_: Endpoint, bodies: Sequence[Mapping[str, Any]], *__: object) -> tuple[Exchange, ...]:
            asked.append([one["messages"][0]["content"] for one in bodies])
            return tuple(reply(prompt, at, len(bodies)) for at, prompt in enumerate(asked[-1]))

        for module in (answers, canary_batch):
            monkeypatch.setattr(module, "ask_all", ask_all)
        return asked

    return set_reply


def values(outcome: Outcome) -> dict[str, object]:
    return {name: one.value for name, one in outcome.claims.items()}


@contextmanager
def started(url: str = "http://s", processes: Sequence[str] = ()) -> Iterator[Launched]:
    yield Launched(url=url, log=lambda: ["up"], processes=processes)


def refuses(error: Exception) -> Callable[[], Any]:
    def launch() -> Any:  # noqa: ANN401 - it raises
        raise error

    return launch


def test_a_server_that_starts_is_timed_and_its_log_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_steps, "server_facts", lambda *_: {"vLLM": {"version": "1"}})
    scene.server = None
    with pytest.raises(NotCheckedError, match="no model: --model DIR"):
        server_steps.server(scene)
    scene.launcher = started
    outcome = server_steps.server(scene)
    assert (outcome.result, set(outcome.claims)) == (Result.HOLDS, {"server.start", "server.start-compiles"})
    assert outcome.why == "healthy after 0 s; compilers meanwhile: nothing"
    assert "up" in (scene.folder.path / "server.log").read_text(encoding="utf-8")
    scene.launcher = lambda: started(processes=["f" * 64])
    outcome = server_steps.server(scene)
    assert set(outcome.claims) == {"server.start"}, "nobody saw what another machine compiled"
    assert "1 rank on other machines" in outcome.why
    logs = {"rank 0 on a": ["one"], "rank 1 on b": ["two"]}
    scene.server = Launched(url="http://s", log=lambda: ["one"], logs=lambda: logs)
    assert server_steps.log_of(scene) == "== rank 0 on a\none\n== rank 1 on b\ntwo"


@pytest.mark.parametrize(
    ("error", "download", "result", "why", "later"),
    [
        (ServeError("it died"), False, Result.BROKEN, "it died; no line of a log", "did not start: it died"),
        (ServeError("it died", where="CUDA\nx"), False, Result.BROKEN, "it died; CUDA", "did not start: it died"),
        (ServeError("x", where="LocalEntryNotFoundError"), False, None, "nothing is downloaded unasked", "weights"),
        (ServeError("x", where="LocalEntryNotFoundError"), True, Result.BROKEN, "x; LocalEntryNotF", "start: x"),
        (NotCheckedError("no image"), False, None, "no image", "no image"),
    ],
)
def test_a_server_that_does_not_start_is_broken_unless_something_is_not_here(  # noqa: PLR0917 - a row
    error: Exception,
    download: bool,
    result: Result | None,
    why: str,
    later: str,
    scene: Scene,
) -> None:
    scene.server, scene.launcher = None, refuses(error)
    scene.asked = replace(scene.asked, download=download)
    if result is None:
        with pytest.raises(NotCheckedError, match=why):
            server_steps.server(scene)
    else:
        outcome = server_steps.server(scene)
        assert outcome.result is result and outcome.why.startswith(why)
    with pytest.raises(NotCheckedError, match=later):
        server_steps.log_of(scene)


@pytest.mark.parametrize(
    ("first", "second", "left", "result", "words"),
    [
        (seen(), seen(), None, Result.HOLDS, "the image promises no kernels"),
        (seen(), seen(), [], Result.HOLDS, "the image leaves 0 to the device"),
        (seen(ptxas=2), seen(), ["a", "b"], Result.HOLDS, "first: ptxas 2; second: nothing"),
        (seen(ptxas=2), seen(), ["a"], Result.BROKEN, "compiled 2 kernels"),
        (seen(), seen(ptxas=1), None, Result.BROKEN, "the second request"),
        (Compiles(unseen=("f",)), seen(), None, Result.UNCHECKED, "1 rank on other machines"),
        (seen(), Compiles(unseen=("f", "g")), None, Result.UNCHECKED, "2 ranks on other machines"),
        (Compiles(unseen=("f",)), seen(ptxas=1), None, Result.BROKEN, "the second request"),
    ],
)
def test_the_first_two_requests(  # noqa: PLR0917 - a row
    first: Compiles,
    second: Compiles,
    left: list[str] | None,
    result: Result,
    words: str,
    scene: Scene,
    asks: Callable[[Reply], list[list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter((first, second))
    monkeypatch.setattr(server_steps, "compiles_seen", lambda *_: nullcontext(next(looks)))
    promised = {"kind": "promised", "made": None if left is None else 5, "left": left}
    scene.place = (
        Printed(promised=[promised]) if left != [] else Printed(promised=[{**promised, "left": ["x"]}, promised])
    )
    asked = asks(lambda prompt, *_: exchange("a", first=0.25 if prompt.startswith("0") else 0.125))
    outcome = server_steps.first_request(scene)
    assert outcome.result is result and words in outcome.why
    assert values(outcome).items() >= {"first-request.first-ttft": 0.25, "first-request.second-ttft": 0.125}.items()
    assert ("first-request.compiles" in outcome.claims) is (not first.unseen and not second.unseen)
    assert [one[:3] for (one,) in asked] == ["0: ", "1: "]


def test_a_request_that_fails_is_named_by_its_number(scene: Scene, asks: Callable[[Reply], object]) -> None:
    asks(lambda prompt, *_: fails(prompt) if prompt.startswith("1") else exchange("a"))
    outcome = server_steps.first_request(scene)
    assert result(outcome) == (Result.BROKEN, "request 2: the server closed the connection")
    asks(lambda *_: exchange("a", done=False))
    assert server_steps.first_request(scene).why == "request 1: the stream ended before its end mark"


def test_canaries_and_prose_that_are_good_hold_and_garbage_does_not(
    scene: Scene, asks: Callable[[Reply], list[list[str]]]
) -> None:
    asked = asks(knows)
    outcome = server_steps.guard(scene)
    assert result(outcome) == (Result.HOLDS, "alone 4 of 4 right, at once 8 of 8")
    assert values(outcome) == {"guard.canaries": 1.0}
    assert list(map(len, asked)) == [1] * 4 + [8, 4]
    asks(lambda prompt, at, of: exchange("!" * 400) if of == 8 else knows(prompt))
    assert server_steps.guard(scene).result is Result.BROKEN
    asks(lambda prompt, at, of: exchange("!" * 400) if of == 4 and at == 3 else knows(prompt))
    assert server_steps.guard(scene).result is Result.BROKEN
    asks(lambda prompt, at, of: fails(prompt) if of == 4 and at == 3 else knows(prompt))
    assert "the server closed the connection" in server_steps.guard(scene).why
    asks(lambda prompt, *_: exchange("a stack is a pile") if "Code:" in prompt else knows(prompt))
    assert values(server_steps.guard(scene)) == {"guard.canaries": 0.0}


@pytest.mark.parametrize(
    ("log", "most", "sizes"),
    [(["up"], 3, [1, 2, 3]), (["max_num_seqs=2"], 2, [1, 2]), (["max_num_seqs: 9"], 3, [1, 2, 3])],
)
def test_every_batch_size_is_tried(
    log: list[str], most: int, sizes: list[int], scene: Scene, asks: Callable[[Reply], list[list[str]]]
) -> None:
    scene.server = Launched(url="http://s", log=lambda: log)
    asked = asks(knows)
    outcome = server_steps.batches(scene)
    assert result(outcome) == (Result.HOLDS, f"sizes 1 to {most}, {most} of them; alone 4 of 4")
    assert values(outcome) == {"batches.most": most, "batches.right": True}
    assert list(map(len, asked)) == [1] * 4 + sizes


def test_a_batch_that_is_garbage_is_named_and_one_that_never_met_is_not_checked(
    scene: Scene, asks: Callable[[Reply], list[list[str]]]
) -> None:
    asks(lambda prompt, at, of: exchange("!" * 400) if of == 2 else knows(prompt))
    outcome = server_steps.batches(scene)
    assert outcome.result is Result.BROKEN and outcome.why.startswith("2 at once: ") and "3 at once" not in outcome.why
    assert values(outcome)["batches.right"] is False

    def one_by_one(prompt: str, at: int, of: int) -> Exchange:
        return replace(knows(prompt), arrived=(at + 0.1, at + 0.9))

    asked = asks(one_by_one)
    outcome = server_steps.batches(scene)
    assert result(outcome) == (
        Result.UNCHECKED,
        "2 at once: at most 1 answers met; 3 at once: at most 1 answers met",
    )
    assert values(outcome) == {"batches.most": 3}
    assert list(map(len, asked)) == [1] * 5 + [2] * answers.TRIES + [3] * answers.TRIES, "quick answers are asked again"
    asked = asks(lambda prompt, at, of: replace(one_by_one(prompt, at, of), seconds=answers.QUICK))
    server_steps.batches(scene)
    assert list(map(len, asked)) == [1] * 5 + [2, 3], "slow ones are not"


def test_a_warm_answer_is_held_against_the_cold_one(scene: Scene, asks: Callable[[Reply], list[list[str]]]) -> None:
    times = iter((2.0, 0.5, 0.25))
    asked = asks(lambda *_: exchange("same", first=next(times)))
    outcome = server_steps.prefix(scene)
    assert values(outcome) == {"prefix.same": True, "prefix.cold-ttft": 2.0, "prefix.warm-ttft": 0.25}
    assert outcome.why == "the first token comes after 2.00 s cold and 0.25 s warm"
    assert len({prompt for (prompt,) in asked}) == 1 and len(asked[0][0]) > 4 * 4096 // 3
    texts = iter(("same", "same", "some"))
    asks(lambda *_: exchange(next(texts)))
    outcome = server_steps.prefix(scene)
    assert result(outcome) == (Result.BROKEN, "the warm answer parts from the cold one at character 1 of 4")
    asks(fails)
    assert server_steps.prefix(scene).why == "the server closed the connection"


@pytest.mark.parametrize(
    ("longest", "most", "note"),
    [
        (None, 16_384, ""),
        (30_000, 14_872, "; the model takes 30,000 tokens"),
        (4096, 1920, "; the model takes 4,096 tok"),
    ],
)
def test_a_long_answer_is_as_long_as_the_model_takes(
    longest: int | None, most: int, note: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scene, "longest", lambda _: longest)
    wanted: list[int] = []

    def ask(_: object, __: object, ___: object, tokens: int, extra: object) -> tuple[Exchange, ...]:
        wanted.append(tokens)
        return (exchange("The bridge stands.", tokens=count),)

    monkeypatch.setattr(answers, "ask", ask)
    for count, held in ((most, Result.HOLDS), (most // 2, Result.HOLDS), (most // 2 - 1, Result.UNCHECKED)):
        outcome = server_steps.long_decode(scene)
        assert (outcome.result, values(outcome)) == (held, {"long-decode.right": True, "long-decode.tokens": count})
    assert set(wanted) == {most}
    assert outcome.why == f"the answer ended after {count} tokens, {most} were asked for"
    count = most
    assert server_steps.long_decode(scene).why.startswith(f"{most:,} tokens after 50{note}")
    monkeypatch.setattr(answers, "ask", lambda *_: (exchange("!" * 2000),))
    assert values(server_steps.long_decode(scene))["long-decode.right"] is False


def test_speeds_are_tokens_a_second_of_all_at_once(scene: Scene, asks: Callable[[Reply], list[list[str]]]) -> None:
    asked = asks(lambda prompt, at, of: exchange("a", first=1.0 + at, seconds=11.0, tokens=101))
    outcome = server_steps.speeds(scene)
    assert values(outcome) == {
        **{"speed.decode-1": 10.0, "speed.decode-4": 40.0, "speed.decode-8": 80.0},
        **{"speed.prefill-1": 50.0, "speed.prefill-4": 50.0, "speed.prefill-8": 50.0},
    }
    assert outcome.why == "recorded: prompts of about 1024 tokens, answers of 256"
    assert len({prompt for prompts in asked for prompt in prompts}) == 13, "no prompt is in a cache of prefixes"
    scene.asked = replace(scene.asked, quick=True)
    assert server_steps.speeds(scene).why == "recorded: prompts of about 256 tokens, answers of 32"

    def last_of_four(found: Exchange) -> Reply:
        return lambda _, at, of: found if (of, at) == (4, 3) else exchange("a")

    uncounted = (exchange("a", usage=None), exchange("a", usage=Usage(prompt=1, completion=0)))
    for found in (*uncounted, exchange("a", arrived=(1.0,))):
        asks(last_of_four(found))
        outcome = server_steps.speeds(scene)
        assert outcome.result is Result.UNCHECKED and outcome.why.startswith("at 4: the server counts no tokens")
        assert set(outcome.claims) == {"speed.decode-1", "speed.prefill-1"}
    asks(fails)
    assert server_steps.speeds(scene).why == "at 1: the server closed the connection"


def test_what_the_log_says_of_memory_is_held_against_the_estimate(scene: Scene) -> None:
    scene.server = Launched(url="http://s", log=LOG.splitlines)
    outcome = server_steps.memory(scene)
    assert (outcome.result, outcome.why) == (Result.UNCHECKED, "the model's sizes are not known: --model DIR")
    assert values(outcome) == {"memory.weights": 17.21, "memory.kv-cache": 71.08}
    scene.estimated_weights = 17.0
    assert server_steps.memory(scene).result is Result.HOLDS
    scene.server = Launched(url="http://s", log=lambda: ["up"])
    with pytest.raises(NotCheckedError, match="names no size"):
        server_steps.memory(scene)
    for ours, theirs, held in ((1.0, 1.25, True), (1.0, 1.26, False), (20.0, 22.0, True), (20.0, 17.9, False)):
        assert (server_steps.memory_outcome(theirs, ours, {}).result is Result.HOLDS) is held


def verb(monkeypatch: pytest.MonkeyPatch, module: Any, code: int, document: dict[str, Any]) -> list[tuple[str, ...]]:  # noqa: ANN401
    ran: list[tuple[str, ...]] = []

    def own_verb(_: Scene, __: str, *words: str) -> tuple[int, dict[str, Any]]:
        ran.append(words)
        return code, document

    monkeypatch.setattr(module, "own_verb", own_verb)
    return ran


def test_explain_is_asked_when_its_wheels_are_here_or_may_come(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scene.server = Launched(url="http://s", log=lambda: ["Using FLASHINFER attention backend"])
    with pytest.raises(NotCheckedError, match="--model DIR"):
        server_steps.backends(scene)
    scene.asked = replace(scene.asked, model=tmp_path)
    with pytest.raises(NotCheckedError, match="--download fetches them"):
        server_steps.backends(scene)
    layers = [{"kind": "attention", "chosen": "FLASHINFER"}, {"kind": "linear", "chosen": None}]
    ran = verb(monkeypatch, server_steps, 0, {"layers": layers})
    scene.asked = replace(scene.asked, download=True)
    outcome = server_steps.backends(scene)
    assert (outcome.result, values(outcome)) == (Result.HOLDS, {"backends.agree": True})
    assert outcome.why == "1 of 1 kinds of layer agree; the log names FLASHINFER"
    (scene.ctx.store.root / "explain/x").mkdir(parents=True)
    scene.asked = replace(scene.asked, download=False)
    scene.image_reference, scene.image = "gb10/vllm:1", ImageFacts(reference="gb10/vllm:1")
    server_steps.backends(scene)
    scene.image = replace(scene.image, plan="2e56")
    server_steps.backends(scene)
    assert [words[2:] for words in ran] == [(), (), ("--image", "gb10/vllm:1")]
    for document, why in (({"error": {"message": "no wheel"}}, "no wheel"), ({}, "exit code 5"), ({"error": {}}, "5")):
        verb(monkeypatch, server_steps, 5, document)
        with pytest.raises(NotCheckedError, match=f"explain: .*{why}"):
            server_steps.backends(scene)
    other = server_steps.backends_outcome([("linear", "Marlin")], ["FLASHINFER"])
    assert (other.result, values(other)) == (Result.UNCHECKED, {"backends.agree": True})
    assert server_steps.backends_outcome([], ["FLASHINFER"]).result is Result.UNCHECKED


def test_tuned_files_and_nodes_are_read_from_the_log(scene: Scene) -> None:
    scene.server = Launched(url="http://s", log=lambda: ["x", f"{ROCE} NCCL"])
    assert server_steps.moe_files(scene).result is Result.UNCHECKED
    assert node_steps.nodes(scene).result is Result.HOLDS
    assert "x" not in (scene.folder.path / "nccl.log").read_text(encoding="utf-8").split()
    with pytest.raises(NotCheckedError, match="--nodes A,B"):
        node_steps.rank_death(scene)


# programs on the GPU


def on_gpu(scene: Scene, step: Callable[[Scene], Outcome], **lines: list[dict[str, Any]]) -> Outcome:
    scene.place = Printed(**lines)
    return step(scene)


def test_a_program_needs_a_place_and_a_gpu(scene: Scene) -> None:
    steps = (
        machine_steps.limits,
        machine_steps.power,
        machine_steps.modules,
        machine_steps.numerics,
        machine_steps.cap,
    )
    for step in steps:
        scene.place = None
        with pytest.raises(NotCheckedError, match="no image and no --python"):
            step(scene)
        scene.place = Printed()
        with pytest.raises(NotCheckedError, match="exit code 0: it printed nothing"):
            step(scene)
    scene.machine = replace(SPARK, gpu=None)
    with pytest.raises(NotCheckedError, match="no GPU"):
        machine_steps.cap(scene)
    scene.asked = replace(scene.asked, gpus=False)
    with pytest.raises(NotCheckedError, match="it printed nothing"):
        machine_steps.cap(scene)


@pytest.mark.parametrize(
    ("memory", "count", "words"),
    [
        (101376, 48, ""),
        (101375, 48, "a block has 101,375 B of shared memory, we say 101,376"),
        (101376, 47, "the GPU has 47 SMs, we say 48"),
    ],
)
def test_a_gpu_with_other_limits_is_found(memory: int, count: int, words: str, scene: Scene) -> None:
    device = {"kind": "device", "shared_memory": memory, "sm_count": count, "capability": "12.1"}
    outcome = on_gpu(scene, machine_steps.limits, device=[device])
    assert result(outcome) == ((Result.BROKEN, words) if words else (Result.HOLDS, "101,376 B and 48 SMs"))
    assert values(outcome) == {"limits.shared-memory": memory, "limits.sm-count": count}
    assert scene.machine.sm_count == count
    scene.machine = replace(SPARK, capability=None)
    on_gpu(scene, machine_steps.limits, device=[device])
    assert scene.machine.capability == "12.1"
    scene.machine = replace(SPARK, capability="9.0")
    with pytest.raises(MeasuredElsewhereError, match="measured on NVIDIA GB10"):
        on_gpu(scene, machine_steps.limits, device=[device])
    assert scene.machine.capability == "9.0"


def test_a_clock_is_low_by_a_number_on_a_gb10_and_by_a_share_elsewhere(scene: Scene) -> None:
    def at(clock: int, **more: object) -> Outcome:
        return on_gpu(scene, machine_steps.power, power=[{"kind": "power", **GOOD_POWER, "clock": clock, **more}])

    assert values(at(2418)) == {"power.clock": 2418, "power.draw": 62.0, "power.bf16": 90.0}
    assert [at(clock).result for clock in (1000, 999)] == [Result.HOLDS, Result.BROKEN]
    assert [at(2418, use=use).result for use in (50, 49)] == [Result.HOLDS, Result.UNCHECKED]
    assert at(2418).why == "81% of the highest clock, 3003 MHz"
    assert isinstance(scene.place, Printed) and scene.place.ran[0][0] == ["power.py", "15"]
    scene.asked = replace(scene.asked, quick=True)
    scene.machine = replace(SPARK, capability="9.0")
    assert [at(clock, most=2000).result for clock in (1000, 999)] == [Result.HOLDS, Result.BROKEN]
    assert scene.place.ran[0][0] == ["power.py", "5"]


def test_kernels_of_ours_are_not_checked_on_another_gpu(scene: Scene) -> None:
    cases = [{"kind": "case", "experts": 8, "n": 1, "k": 1, "per_row": 1, "per_column": 1, "beyond": 0.0}]
    lines: dict[str, list[dict[str, Any]]] = {
        "numerics": [*cases, {"kind": "other"}, {"kind": "numerics", "worst": 0.0, "cases": 1}]
    }
    assert on_gpu(scene, machine_steps.numerics, **lines).result is Result.HOLDS
    lines["numerics"][0] = {**cases[0], "beyond": 0.1}
    assert on_gpu(scene, machine_steps.numerics, **lines).result is Result.BROKEN
    for capability in ("9.0", "1.2", None):
        scene.machine = replace(SPARK, capability=capability)
        for step in (machine_steps.numerics, machine_steps.gemm):
            with pytest.raises(NotCheckedError, match=r"for capability 12\.x; this is NVIDIA GB10"):
                on_gpu(scene, step, **lines)


def test_each_fit_of_the_table_is_counted_for_itself(scene: Scene) -> None:
    counts = {"native loads": 3, "family loads": 1, "compatible X": 1, "nothing X": 2, "ptx loads": 1}
    rows = [library("a.so", counts, []), library("b.so", {"native loads": 1}, [])]
    found = {"kind": "modules", "capability": "12.1", "kinds": 2, "libraries": 2}
    outcome = on_gpu(scene, machine_steps.modules, modules=[*rows, found])
    assert values(outcome) == {
        "modules.native-load": True,
        "modules.family-load": False,
        "modules.other-refused": False,
    }
    assert outcome.why.endswith("4 of 4 native-load, 1 of 2 family-load, 2 of 3 other-refused")
    wrong = [
        library(f"{at}.so", {"native X": 1}, [{"codes": ["a", "b"], "fit": "native", "driver": "X"}]) for at in "123"
    ]
    outcome = machine_steps.modules_outcome(found, [*wrong, wrong[0]])
    assert outcome.why == "; ".join(f"{at}.so: a+b is native by our table, the driver: X" for at in "123")
    assert set(outcome.claims) == {"modules.native-load"}


def test_the_cap_is_set_as_run_sets_it(scene: Scene) -> None:
    line = {"kind": "cap", "allowed": 2 << 30, "given": 1 << 30, "refused": "CUDA out of memory", "goes_on": True}
    outcome = on_gpu(scene, machine_steps.cap, cap=[line])
    assert result(outcome) == (Result.HOLDS, "1.0 GiB of 2.0 were given, then: CUDA out of memory")
    assert isinstance(scene.place, Printed)
    assert scene.place.ran == [(["cap.py", "0.25"], {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.25"})]
    both = machine_steps.cap_outcome({**line, "refused": "", "goes_on": False})
    assert both.why == "1.0 GiB were given, the cap is 2.0; after the refusal the process computes wrongly"


@pytest.mark.parametrize(
    ("rows", "lines", "outcome"),
    [
        ("0\n", [], "this machine has one GPU"),
        ("0\n1\n", [{"kind": "allreduce", "bus_gb_s": 22.04, "right": True, "world": 2}], Result.HOLDS),
        ("0\n1\n", [{"kind": "allreduce", "bus_gb_s": 22.04, "right": False, "world": 2}], Result.BROKEN),
        (None, [], "nvidia-smi is missing"),
    ],
)
def test_a_sum_over_gpus(
    rows: str | None, lines: list[dict[str, Any]], outcome: Result | str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def capture(*_: object, **__: object) -> str:
        if rows is None:
            raise CommandFailedError(["nvidia-smi"], 127, "")
        return rows

    monkeypatch.setattr(node_steps, "capture", capture)
    if not isinstance(outcome, Result):
        with pytest.raises(NotCheckedError, match=outcome):
            on_gpu(scene, node_steps.bandwidth, ranks=lines)
    else:
        found = on_gpu(scene, node_steps.bandwidth, ranks=lines)
        assert (found.result, values(found)) == (outcome, {"bandwidth.of-gpus": 22.0})
        assert isinstance(scene.place, Printed) and scene.place.ran[0][0] == ["ranks.py", "2"]


# the machine, the image, the disk


SMI = "NVIDIA GB10, 12.1, 580.95.05, {memory}\nanother, 9.0, 1, 2\n"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (SMI.format(memory="122880"), ("NVIDIA GB10", "12.1", "580.95.05", 120.0, "13.0")),
        (SMI.format(memory="[N/A]"), ("NVIDIA GB10", "12.1", "580.95.05", "kernel", "13.0")),
        ("NVIDIA GB10, [N/A], 580.95.05, 1024", ("NVIDIA GB10", None, "580.95.05", 1.0, "13.0")),
        ("NVIDIA GB10, 12.1", (None, None, None, "kernel", None)),
        (None, (None, None, None, "kernel", None)),
    ],
)
def test_facts_of_the_machine(
    row: str | None, expected: tuple[object, ...], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def capture(argv: Sequence[str], **_: object) -> str:
        if row is None:
            raise CommandFailedError(argv, 127, "")
        return row if len(argv) > 1 else "| CUDA Version: 13.0 |"

    monkeypatch.setattr(machine_steps, "capture", capture)
    found = machine_steps.machine_facts(scene.ctx)
    memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1)
    wanted = tuple(memory if one == "kernel" else one for one in expected)
    assert (found.gpu, found.capability, found.driver, found.memory_gib, found.cuda) == wanted
    assert (found.kernel, found.arch) == (os.uname().release, os.uname().machine)


def test_an_image_is_verified_by_the_verb(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotCheckedError, match="then --image REF"):
        machine_steps.image(scene)
    scene.image, scene.image_reference = ImageFacts(reference="r:1", plan="2e56cb2083e5ab"), "host/r:1"
    for code, document, held in ((0, {}, Result.HOLDS), (9, {"error": {"message": "a file"}}, Result.BROKEN)):
        assert verb(monkeypatch, machine_steps, code, document) == []
        outcome = machine_steps.image(scene)
        assert outcome.result is held and outcome.why.startswith("a file" if code else "verify finds nothing wrong")
    assert machine_steps.image_outcome(scene.image, 9, None).why == "verify exits with 9"
    assert machine_steps.image_outcome(replace(scene.image, plan=None), 0, None).why.endswith(
        "; verify finds nothing wrong"
    )


def test_a_gemm_is_judged_by_the_verb(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"kernel": "k", "shape": "s", "tflops": 80.0, "published": 100}
    rows = (
        (0, {"times": [line]}, Result.HOLDS),
        (0, {"times": [{**line, "tflops": 79.9}]}, Result.BROKEN),
        (0, {"times": [{**line, "tflops": 1.0, "published": None}, {**line, "tflops": None}]}, Result.HOLDS),
        (1, {"times": [line]}, Result.UNCHECKED),
        (9, {"error": {"message": "wrong sums"}}, Result.BROKEN),
        (7, {"error": {"message": "no nvcc"}}, Result.UNCHECKED),
    )
    for code, document, held in rows:
        verb(monkeypatch, machine_steps, code, document)
        outcome = machine_steps.gemm(scene)
        assert outcome.result is held, (code, document)
        assert set(outcome.claims) == ({"gemm.k-s"} if "times" in document else set())


def test_a_disk_whose_mapped_reads_are_slow_twice_is_found(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_steps, "GIB", 64 << 20)
    model = tmp_path / "model"
    model.mkdir()
    for name, size in (("a", 80 << 20), ("b", 63 << 20)):
        with (model / f"{name}.safetensors").open("wb") as file:
            file.truncate(size)
    speeds: list[float] = []
    monkeypatch.setattr(machine_steps, "_timed", lambda *_, **__: speeds.pop(0))
    for given, held, words in (
        ([4e9, 1e9, 9e9], Result.HOLDS, "0.0 GB of a file made for it: recorded"),
        ([4e9, 0.9e9, 9e9, 2e9], Result.HOLDS, "0.1 GB of the model's weights: recorded"),
        ([4e9, 0.9e9, 9e9, 0.8e9], Result.BROKEN, "a mapped file is read 4.4 times slower"),
    ):
        scene.asked = SelftestRequest(
            model=model if "weights" in words or held is Result.BROKEN else None, quick="made" in words
        )
        speeds[:] = given
        outcome = machine_steps.disk(scene)
        assert result(outcome) == (held, words)
        assert (speeds, not (scene.folder.path / ".disk").exists()) == ([], True)
    monkeypatch.setattr(machine_steps, "GIB", 1 << 60)
    scene.asked = SelftestRequest()
    with pytest.raises(NotCheckedError, match="GB are free where the results go"):
        machine_steps.disk(scene)


# another server


def ready(scene: Scene, **more: Any) -> Greedy:  # noqa: ANN401 - fields of Greedy
    usual = {"answers": said(*"abcdefgh"), "steady": [True] * 8, "engine": "vLLM", "drafts": None, "command": ""}
    scene.greedy = Greedy(**{**usual, **more})
    return scene.greedy


@pytest.fixture
def other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """Another server, which answers the same; the parameters with which it was started."""
    given: list[Mapping[str, str]] = []

    def launcher(parameters: Mapping[str, str]) -> Callable[[], Any]:
        given.append(parameters)
        return started

    scene.other, scene.other_launcher = launcher, started
    theirs = dict(zip(QUESTIONS, "abcdefgh", strict=True))
    monkeypatch.setattr(answers, "greedy_answer", lambda _, __, prompt, ___: Answer(text=theirs[prompt]))
    monkeypatch.setattr(compared_steps, "counters", lambda *_: {})
    monkeypatch.setattr(compared_steps, "server_facts", lambda *_: {"vLLM": {}})
    return given


@pytest.mark.parametrize("repeats", [8, 4, 3])
def test_greedy_answers_that_repeat_themselves(
    repeats: int, scene: Scene, other: list[Mapping[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = iter(range(100))

    def answer(_: object, __: object, prompt: str, ___: int) -> Answer:
        at = next(count)
        return Answer(text=f"{prompt}{at if at % 8 >= repeats else ''}")

    monkeypatch.setattr(answers, "greedy_answer", answer)
    outcome = compared_steps.greedy(scene)
    assert outcome.result is (Result.HOLDS if repeats >= 4 else Result.UNCHECKED)
    assert outcome.why == f"{repeats} of 8 answers repeat themselves; the server names no tokens that came near"
    assert values(outcome) == {"greedy.steady": repeats, "greedy.of": 8}
    assert scene.greedy is not None and (scene.greedy.engine, scene.greedy.canaries) == ("vLLM", None)
    monkeypatch.setattr(answers, "greedy_answer", lambda *_: Answer(error="it answered 500"))
    with pytest.raises(NotCheckedError, match="a question has no answer: it answered 500"):
        compared_steps.greedy(scene)


def test_another_server_is_compared_or_nobody_knows(
    scene: Scene, other: list[Mapping[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotCheckedError, match="the step greedy brought no answers"):
        compared_steps.against(scene)
    ready(scene)
    outcome = compared_steps.against(scene)
    assert result(outcome) == (Result.HOLDS, "8 of 8 answers are the same")
    assert values(outcome) == {"against.same": 8, "against.of": 8}
    assert {"server.log", "against-server.log", "against.json"} <= {one.name for one in scene.folder.path.iterdir()}
    ready(scene, answers=said(*"abcdefgX"), steady=[True, False] * 4)
    assert compared_steps.against(scene).why == "4 of 4 answers are the same"
    ready(scene, answers=said(*"XXcdefgh"))
    outcome = compared_steps.against(scene)
    assert outcome.why == "question 1 parts at character 0 of 1; question 2 parts at character 0 of 1"
    assert values(outcome) == {"against.same": 6, "against.of": 8}
    ready(scene, steady=[False] * 5 + [True] * 3)
    with pytest.raises(NotCheckedError, match="only 3 of 8"):
        compared_steps.against(scene)
    ready(scene)
    monkeypatch.setattr(answers, "greedy_answer", lambda *_: Answer(error="no JSON"))
    with pytest.raises(NotCheckedError, match="the other server: no JSON"):
        compared_steps.against(scene)
    scene.other_launcher = refuses(ServeError("it died"))
    with pytest.raises(NotCheckedError, match="the other server did not start: it died"):
        compared_steps.against(scene)
    scene.other_launcher = None
    with pytest.raises(NotCheckedError, match="--against REF"):
        compared_steps.against(scene)


@pytest.mark.parametrize(
    ("engine", "log", "words"),
    [
        ("vLLM", "GB10_CUTLASS_MOE=0: off", ""),
        ("vLLM", "up", "the log does not name GB10_CUTLASS_MOE=0"),
        ("SGLang", "", "no switch of ours is known for SGLang"),
        ("", "", "no switch of ours is known for this engine"),
    ],
)
def test_a_switch_counts_when_the_engine_obeys(
    engine: str, log: str, words: str, scene: Scene, other: list[Mapping[str, str]]
) -> None:
    ready(scene, engine=engine)

    def launcher(given: Mapping[str, str]) -> Callable[[], Any]:
        other.append(given)
        return lambda: nullcontext(Launched(url="u", log=lambda: [log]))

    scene.other = launcher
    if words:
        with pytest.raises(NotCheckedError, match=words):
            compared_steps.switches(scene)
        return
    outcome = compared_steps.switches(scene)
    assert result(outcome) == (Result.HOLDS, "GB10_CUTLASS_MOE=0: 8 of 8 answers are the same")
    assert (values(outcome)["switches.right"], other) == (True, [{"env.GB10_CUTLASS_MOE": "0"}])
    ready(scene, answers=said(*"Xbcdefgh"))
    outcome = compared_steps.switches(scene)
    assert (outcome.result, values(outcome)["switches.right"]) == (Result.BROKEN, False)


NGRAM = {"vLLM": "--speculative-config", "SGLang": "--speculative-algorithm NGRAM"}


@pytest.mark.parametrize(
    ("ours", "asked", "given"),
    [
        ({}, {}, ("args", NGRAM["vLLM"])),
        ({"engine": "SGLang"}, {}, ("args", NGRAM["SGLang"])),
        ({"engine": ""}, {}, "no drafts are known for this engine"),
        ({"engine": ""}, {"drafts": "--mine"}, ("args", "--mine")),
        ({"drafts": 4.0}, {}, ("speculative", "")),
        ({"drafts": 0.0}, {}, ("args", NGRAM["vLLM"])),
        ({"command": "vllm serve --speculative-config x"}, {}, ("speculative", "")),
        ({"drafts": 4.0}, {"drafts": "--mine"}, "the server drafts already"),
        ({"drafts": 4.0}, {"launch": "x"}, "the server drafts already"),
    ],
)
def test_drafts_are_turned_on_or_off_by_what_the_server_does(  # noqa: PLR0917 - a row
    ours: dict[str, Any],
    asked: dict[str, Any],
    given: tuple[str, str] | str,
    scene: Scene,
    other: list[Mapping[str, str]],
    asks: Callable[[Reply], object],
) -> None:
    asks(knows)
    scene.asked = SelftestRequest(**asked)
    ready(scene, canaries=answers.canaries_of(scene.endpoint, {}, "s", {}), **ours)
    if isinstance(given, str):
        with pytest.raises(NotCheckedError, match=given):
            compared_steps.drafts(scene)
    else:
        compared_steps.drafts(scene)
        (found,) = other
        assert list(found) == [given[0]] and found[given[0]].startswith(given[1])


@pytest.mark.parametrize(
    ("counted", "reply", "answered", "outcome"),
    [
        (7.0, knows, "abcdefgh", (Result.HOLDS, "7 drafts; 8 of 8 answers are the same; they spoil no canary")),
        (0.0, knows, "abcdefgh", (Result.UNCHECKED, "the server with drafts made no draft")),
        (None, knows, "abcdefgh", (Result.UNCHECKED, "the server with drafts counts no drafts")),
        (7.0, knows, "Xbcdefgh", (Result.BROKEN, "question 1 parts at character 0")),
        (7.0, None, "abcdefgh", (Result.BROKEN, "3 at once: ")),
        (7.0, None, None, (Result.BROKEN, "3 at once: ")),
        (7.0, knows, None, NotCheckedError),
    ],
)
def test_drafts_that_spoil_something_are_found(  # noqa: PLR0917 - a row
    counted: float | None,
    reply: Reply | None,
    answered: str | None,
    outcome: tuple[Result, str] | type[Exception],
    scene: Scene,
    other: list[Mapping[str, str]],
    asks: Callable[[Reply], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without ``reply`` the server with drafts talks nonsense where three come at once; without ``answered`` no greedy
    answer repeats itself."""
    asks(knows)
    with pytest.raises(NotCheckedError, match="the step greedy asked no canaries"):
        ready(scene)
        compared_steps.drafts(scene)
    ready(
        scene,
        canaries=answers.canaries_of(scene.endpoint, {}, "s", {}),
        **({"answers": said(*answered)} if answered else {"steady": [False] * 8}),
    )
    asks(reply or (lambda prompt, at, of: exchange("!" * 400) if of == 3 else knows(prompt)))
    monkeypatch.setattr(compared_steps, "counters", lambda *_: {} if counted is None else {(DRAFTS, ""): counted})
    if isinstance(outcome, type):
        with pytest.raises(outcome, match="only 0 of 8"):
            compared_steps.drafts(scene)
        return
    found = compared_steps.drafts(scene)
    assert found.result is outcome[0] and outcome[1] in found.why
    right = {Result.HOLDS: True, Result.BROKEN: False, Result.UNCHECKED: None}[found.result]
    assert values(found).get("drafts.right") is right


def test_canaries_that_are_wrong_anyway_say_nothing_of_drafts(
    scene: Scene, other: list[Mapping[str, str]], asks: Callable[[Reply], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    asks(lambda prompt, at, of: exchange("!" * 400) if of == 3 else knows(prompt))
    monkeypatch.setattr(compared_steps, "counters", lambda *_: {(DRAFTS, ""): 7.0})
    ready(scene, canaries=answers.canaries_of(scene.endpoint, {}, "s", {}))
    outcome = compared_steps.drafts(scene)
    assert outcome.result is Result.UNCHECKED and "canaries are wrong without drafts, too" in outcome.why
    ready(scene, canaries=answers.canaries_of(scene.endpoint, {}, "s", {}), drafts=5.0)
    outcome = compared_steps.drafts(scene)
    assert outcome.result is Result.UNCHECKED and "the other server drafts, too (7 drafts)" in outcome.why
