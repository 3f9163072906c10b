"""Hostile logs and hostile engine files: bounded time and memory, and no crash, whatever stands in them."""

import random

import pytest

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.engine_statements import statements_of
from gb10.serving.doctor.log_scan import scan_log
from gb10.serving.doctor.printed_statements import python_statements
from gb10.serving.doctor.rule_files import load_doctor_rules, load_stages
from tests.hang import MOST, grown, no_hang

PIECES = (
    *(
        "Traceback (most recent call last):",
        '  File "/x/site-packages/vllm/a.py", line 3, in f',
        "    raise X",
        "    ^^^^",
    ),
    *(
        "ValueError: x",
        "RuntimeError",
        "The above exception was the direct cause of the following exception:",
        "",
        '"""',
    ),
    *("During handling of the above exception, another exception occurred:", "what():  x", "terminate called after"),
    *("(EngineCore pid=1) ERROR 11-24 08:01:12 [core.py:1] ", "[rank0]: ", "[2026-11-24 08:01:12 TP0] ", "vllm-1  | "),
    *(
        "non-default args: {'nnodes': 2}",
        "server_args=ServerArgs(nnodes=2)",
        "Capture cuda graph begin",
        "0/36 [00:00<?",
    ),
    *(
        "NCCL INFO NET/IB OOB eth0:10.0.0.1<0>",
        "Init COMPLETE",
        "torch==2.1",
        "\x1b[31m",
        "\r",
        "\t",
        "é",
        "(" * 30,
        "]" * 30,
    ),
)


def judged(text: bytes) -> int:
    scan = scan_log([text], load_doctor_rules(), marks=load_stages().mark)
    return len(diagnose(load_doctor_rules(), Evidence(logs={"a": scan})).seen)


@pytest.mark.parametrize("seed", range(30))
def test_lines_in_any_order_make_a_diagnosis(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test
    lines = ["".join(draw.choice(PIECES) for _ in range(draw.randrange(1, 4))) for _ in range(300)]
    text = bytearray("\n".join(lines).encode())
    for _ in range(40):
        text[draw.randrange(len(text))] = draw.randrange(256)
    judged(bytes(text))


FLOODS = {
    "heads": "Traceback (most recent call last):\n",
    "frames": '  File "/x/y.py", line 3, in f\n',
    "exceptions": "ValueError: x\n",
    "links": "During handling of the above exception, another exception occurred:\n\n",
    "chains": 'Traceback (most recent call last):\n  File "/x/y.py", line 3, in f\nValueError: x\n\n'
    "During handling of the above exception, another exception occurred:\n\n",
    "ranks": "(Worker_TP1 pid=1) Traceback (most recent call last):\n(Worker_TP0 pid=1) ValueError: x\n",
    "stages": "(Worker pid=1) INFO 11-24 08:00:20 [p.py:1] vLLM is using nccl==2.30.7\nserver_args=ServerArgs(a=1)\n",
    "no line end": "ValueError: x Traceback (most recent call last): ",
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_takes_time_as_it_has_length(name: str) -> None:
    assert grown(lambda text: judged(text.encode()), FLOODS[name], 100_000) <= MOST


@pytest.mark.parametrize(
    "piece", ["(", "[", "-", "not ", "lambda: ", "x if y else ", "f'{", "a.b", "x+", "\\\n", "if 1:\n "]
)
@no_hang()
def test_files_of_engines_of_any_depth_end(piece: str) -> None:
    python_statements(piece * 20_000, "x.py")
    python_statements("raise ValueError(" + piece * 200 + "1)", "x.py")


@pytest.mark.parametrize(
    "piece", ["(", "{", "<", "f(", "a<<", "if(x)", "#define A(x) \\\n", '"a" ', "template<", "/*", "x?"]
)
@no_hang()
def test_files_of_cpp_of_any_depth_end(piece: str) -> None:
    statements_of(piece * 20_000, "x.cu")
    statements_of('TORCH_CHECK(x, "some text" ' + piece * 2000 + "1)", "x.cu")
