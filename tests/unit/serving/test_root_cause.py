"""One cause out of what ranks, processes and loggers print of it, however the lines look."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.diagnosis import Finding
from gb10.serving.doctor.log_exceptions import CHUNK, FIRST, ExceptionReader, Raised
from gb10.serving.doctor.log_scan import scan_log
from gb10.serving.doctor.log_speech import clean, speech
from gb10.serving.doctor.rule_files import load_doctor_rules, load_stages

RULES = load_doctor_rules()
CHAIN = """Traceback (most recent call last):
  File "/opt/v/lib/python3.12/site-packages/vllm/quant/loader.py", line 41, in load
    table = read(path)
            ^^^^^^^^^^
  File "/opt/v/lib/python3.12/site-packages/vllm/quant/reader.py", line 7, in read
    raise OddTableError(path, 4711)
vllm.quant.reader.OddTableError: the table of layer 17 has 4711 rows, not 4096

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/v/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 1231, in run
    self.start()
RuntimeError: worker 0 did not start"""
INFO = "(APIServer pid=1) INFO 11-24 08:00:00 [api_utils.py:345] version 0.33.0"
ECHO = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)


def exceptions(text: str, size: int = CHUNK) -> tuple[Raised, ...]:
    reader, data = ExceptionReader(), text.encode()
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
    return reader.found()


def found(**logs: str) -> tuple[Finding, ...]:
    scans = {name: scan_log([text.encode()], RULES, marks=load_stages().mark) for name, text in logs.items()}
    return diagnose(RULES, Evidence(logs=scans)).seen


def each_line(text: str, form: Callable[[str], str]) -> str:
    return "\n".join(form(line) for line in text.splitlines())


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda line: line,
    "vllm": lambda line: f"(EngineCore pid=94) ERROR 11-24 08:01:12 [core.py:1231] {line}",
    "process": lambda line: f"(APIServer pid=1) {line}",
    "compose": lambda line: f"vllm-1  | (EngineCore pid=94) ERROR 11-24 08:01:12 [core.py:1231] {line}",
    "kubernetes": lambda line: f"2026-11-24T08:01:12.123456789Z stderr F (EngineCore pid=94) {line}",
    "kubectl": lambda line: f"[pod/llm-0/server] 2026-11-24T08:01:12Z {line}",
    "colours": lambda line: f"\x1b[0;36m(EngineCore pid=94)\x1b[0;0m ERROR 11-24 08:01:12 [core.py:1231] {line}\x1b[0m",
    "ray": lambda line: f"\x1b[36m(RayWorkerWrapper pid=301, ip=10.0.0.2)\x1b[0m ERROR 11-24 08:01:12 [w.py:9] {line}",
    "torchrun": lambda line: f"[rank1]: {line}",
    "mpirun": lambda line: f"[1,1]<stderr>:{line}",
    "sglang": lambda line: f"[2026-11-24 08:01:12 TP1] {line}",
    "journal": lambda line: f"Nov 24 08:01:12 spark-1 docker[812]: {line}",
    "without indentation": lambda line: f"ERROR 11-24 08:01:12 [core.py:1231] {line.strip()}",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_chain_is_one_cause_whatever_stands_before_its_lines(form: str) -> None:
    text = each_line(CHAIN, FORMS[form])
    (raised,) = exceptions(f"{INFO}\n{text}\n{ECHO}\n")[:1]
    assert [one.name for one in raised.chain] == ["OddTableError", "RuntimeError"]
    assert [len(one.frames) for one in raised.chain] == [2, 1]
    (one,) = found(log=f"{INFO}\n{text}\n{ECHO}\n")
    assert one.value.endswith("the table of layer 17 has 4711 rows, not 4096")
    assert (one.raised_at, one.echoes) == ("vllm/quant/reader.py:7 in read", 1)
    assert one.chain == ("RuntimeError: worker 0 did not start",)


@pytest.mark.parametrize("seed", range(8))
def test_ranks_that_write_into_each_other_are_told_apart(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test
    texts = [CHAIN.replace("layer 17", f"layer {rank}") for rank in range(4)]
    rows = [
        [f"(Worker_TP{rank} pid={rank}) ERROR 11-24 08:01:12 [m.py:971] {line}" for line in text.splitlines()]
        for rank, text in enumerate(texts)
    ]
    mixed = []
    while any(rows):
        mixed.append(draw.choice([one for one in rows if one]).pop(0))
    raised = exceptions("\n".join(mixed))
    assert sorted((one.who, one.chain[0].message[:23]) for one in raised) == [
        (f"Worker_TP{rank} pid={rank}", f"the table of layer {rank} ha") for rank in range(4)
    ]
    (one,) = found(log="\n".join(mixed))
    assert one.count == 4


@pytest.mark.parametrize("lost", range(1, 7))
def test_a_traceback_without_its_beginning_is_read(lost: int) -> None:
    text = "\n".join(CHAIN.splitlines()[lost:])
    assert exceptions(text)[0].name == "OddTableError"


def test_a_traceback_without_its_end_invents_no_exception() -> None:
    text = "\n".join(CHAIN.splitlines()[:4])
    assert exceptions(text) == ()


@pytest.mark.parametrize("size", [1, 100, 3000])
def test_where_a_log_is_cut_into_blocks_decides_nothing(size: int) -> None:
    text = "\n".join((INFO, CHAIN, ECHO, CHAIN)) + "\n"
    assert exceptions(text, size) == exceptions(text)


def test_pydantic_s_reasons_belong_to_its_headline() -> None:
    text = (
        "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 2 validation errors for ModelConfig\n"
        "(APIServer pid=7) dtype\n"
        "(APIServer pid=7)   Input should be 'auto' or 'half' [type=literal_error, input_value='bf61']\n"
        "(APIServer pid=7)     For further information visit https://errors.pydantic.dev/2.12/v/literal_error\n"
    )
    (one,) = found(log=text)
    assert "bf61" in one.value


def test_c_plus_plus_under_python_keeps_its_words() -> None:
    text = (
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
        "  what():  [PG 0] Process group watchdog thread terminated with exception: CUDA error: unknown 719\n"
        "Exception raised from ncclCommWatchdog at /pytorch/x.cpp:1834 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0xd4\n"
    )
    (one,) = exceptions(text)
    assert (one.type, one.message.startswith("[PG 0]")) == ("c10::DistBackendError", True)


def test_what_a_look_up_raised_is_not_the_cause() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/p/site-packages/vllm/registry.py", line 4, in find\n'
        "    return TABLE[name]\n"
        "KeyError: 'Glm6ForCausalLM'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/p/site-packages/vllm/registry.py", line 6, in find\n'
        "    raise ValueError(name)\n"
        "ValueError: 'Glm6ForCausalLM' is no architecture of this release\n"
    )
    (one,) = found(log=text)
    assert one.value.startswith("ValueError")
    assert one.chain == ("KeyError: 'Glm6ForCausalLM'",)


def test_processes_that_lose_their_peer_are_echoes_and_count() -> None:
    head = f"{INFO}\n" + each_line(CHAIN, FORMS["vllm"]) + "\n"
    worker = (
        "(Worker_TP1 pid=9) ERROR 11-24 08:01:20 [m.py:9] RuntimeError: [x.cc:553] Connection closed by peer\n"
        "(Worker_TP1 pid=9) ERROR 11-24 08:01:21 [m.py:9] BrokenPipeError: [Errno 32] Broken pipe\n"
    )
    (one,) = found(head=head, worker=worker)
    assert (one.where, one.echoes) == ("head", 2)


def test_an_exception_that_a_program_only_warns_of_is_none() -> None:
    text = each_line(CHAIN, lambda line: f"(APIServer pid=1) WARNING 11-24 08:01:12 [x.py:1] {line}")
    assert found(log=f"{INFO}\n{text}\nINFO:     Application startup complete.\n") == ()


def test_a_flood_of_tracebacks_keeps_the_first_and_the_last() -> None:
    text = "\n".join(CHAIN.replace("4711", str(5000 + number)) for number in range(3000))
    raised = exceptions(text)
    assert FIRST < len(raised) < 3000
    assert ("5000" in raised[0].chain[0].message, "7999" in raised[-1].chain[0].message) == (True, True)
    assert raised[-1].line > 41_980


def test_a_long_message_keeps_the_number_at_its_end() -> None:
    (one,) = found(log=f"ValueError: {'a word ' * 400}(have 101376)\n")
    assert one.shown.endswith("(have 101376)")
    assert len(one.shown) < 1500


@pytest.mark.parametrize(
    ("line", "who", "level"),
    [
        ("(Worker_TP0 pid=4) INFO 11-24 08:00:00 [a.py:1] x", "Worker_TP0 pid=4", "INFO"),
        ("[2026-11-24 08:00:00 DP1 TP3] x", "DP1 TP3", None),
        ("[11/26/2026-08:10:20] [TRT-LLM] [RANK 1] [W] x", "rank 1", "WARNING"),
        ("[rank0]:[E1127 10:00:01.123456 ProcessGroupNCCL.cpp:607] x", "rank0", "ERROR"),
        ("ERROR:    x", "", "ERROR"),
        ("x", "", None),
    ],
)
def test_who_speaks_and_how_loud(line: str, who: str, level: str | None) -> None:
    said = speech(clean(line.encode()))
    assert (said.who, said.level, said.body) == (who, level, "x")


def test_a_progress_bar_is_its_last_state() -> None:
    assert clean(b"  0%| | 0/36 [00:00<?]\r 50%| | 18/36 [00:10<00:10]") == " 50%| | 18/36 [00:10<00:10]"


VLLM = """(APIServer pid=1) INFO 11-24 08:00:00 [api_utils.py:273] non-default args: {'model': 'm', 'nnodes': 2, 'node_rank': 0}
(Worker pid=4) INFO 11-24 08:00:20 [pynccl.py:148] vLLM is using nccl==2.30.7
(Worker pid=4) INFO 11-24 08:00:30 [gpu_model_runner.py:4025] Starting to load model m...
(Worker pid=4) INFO 11-24 08:02:30 [gpu_model_runner.py:5089] Model loading took 70.21 GiB memory and 120.1 seconds
(Worker pid=4) INFO 11-24 08:02:31 [backends.py:420] Using cache directory: /c/torch_compile_cache/1/rank_0_0
(Worker pid=4) INFO 11-24 08:03:31 [monitor.py:53] torch.compile took 64.95 s in total
(Worker pid=4) INFO 11-24 08:03:40 [gpu_worker.py:773] Available KV cache memory: 22.31 GiB
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/51 [00:00<?, ?it/s]
(Worker pid=4) INFO 11-24 08:04:40 [gpu_model_runner.py:6001] Graph capturing finished in 31 secs, took 0.84 GiB
(EngineCore pid=3) INFO 11-24 08:04:50 [core.py:402] init engine (profile, create kv cache, warmup model) took 140.20 s
INFO:     Application startup complete.
""".splitlines()  # noqa: E501
WANTED = ["connect", "load", "profile", "compile", "profile", "profile", "capture", "warm-up"]


@pytest.mark.parametrize(("lines", "stage"), [(number + 2, stage) for number, stage in enumerate(WANTED)])
def test_a_start_that_ends_early_says_in_which_stage(lines: int, stage: str) -> None:
    (one,) = found(log="\n".join(VLLM[:lines]))
    assert (one.code, one.stage, one.level) == ("start-stopped", stage, "error")
    assert f"in the stage {stage}" in one.words(one.rule.meaning if one.rule else "")


def test_a_start_that_was_ready_has_no_finding_and_a_second_one_is_judged_alone() -> None:
    whole = "\n".join(VLLM)
    assert found(log=whole) == ()
    again = "\n".join((*VLLM, *VLLM[:4]))
    (one,) = found(log=again)
    assert (one.stage, one.line) == ("profile", len(VLLM) + 4)


def test_the_rank_that_is_behind_is_named_with_the_others() -> None:
    worker = [line.replace("Worker pid=4", "Worker pid=8").replace("'node_rank': 0", "'node_rank': 1") for line in VLLM]
    (one,) = found(head="\n".join(VLLM[:8]), worker="\n".join(worker[:3]))
    assert (one.where, one.stage) == ("worker", "load")
    assert "head Worker pid=4: capture" in one.words(one.rule.meaning if one.rule else "")


def test_a_worker_of_a_ready_head_is_ready() -> None:
    worker = [line.replace("'node_rank': 0", "'node_rank': 1") for line in VLLM]
    assert found(head="\n".join(VLLM), worker="\n".join(worker[:9])) == ()
    assert found(worker="\n".join(worker[:9])) == ()


def test_a_log_of_no_server_has_no_stage() -> None:
    text = (Path(__file__).parents[1] / "data/doctor/healthy/made-nvidia-smi.log").read_text(encoding="utf-8")
    assert found(log=text) == ()
