"""A self-test: budgets, what figures say, what no report may say, and what a log says of memory, kernels and NCCL."""

import json
import os
import re
import signal
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gb10.core.child_sessions import leading, members
from gb10.core.journal import head_of
from gb10.errors import BuildError, UsageError
from gb10.image.plan.catalog import ROOT
from gb10.serving.claims.claim_files import load_claims
from gb10.serving.load_generator.exchange import Exchange
from gb10.serving.selftest import compared_steps, machine_steps, node_steps, server_steps
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
