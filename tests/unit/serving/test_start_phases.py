"""The phases of a start by the times of its lines: real logs of vLLM, and made ones of each engine."""

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.models.lint.engine_words import known_words, releases
from gb10.serving.doctor.rule_files import load_stages
from gb10.serving.run.start_phases import StartPhases

HEALTHY = Path(__file__).parents[1] / "data/doctor/healthy"
BEGAN = dt.datetime(2026, 11, 27, 10, 0, tzinfo=dt.UTC)
STAGES = load_stages()


def timed(*lines: tuple[float, str]) -> bytes:
    """A log as Docker hands it out: a time before each line, in nanoseconds."""
    stamp = ((BEGAN + dt.timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%f") for at, _ in lines)
    return "".join(f"{when}123Z {text}\n" for when, (_, text) in zip(stamp, lines, strict=True)).encode()


def of(*lines: tuple[float, str], size: int = 1 << 20) -> StartPhases | None:
    data = timed(*lines)
    return StartPhases.of_log((data[at : at + size] for at in range(0, len(data), size)), BEGAN.isoformat(), STAGES)


VLLM = (
    (0.5, "INFO 11-27 10:00:00 [__init__.py:1] nothing of a stage"),
    (12, "(APIServer pid=1) INFO 11-27 10:00:12 [api_server.py:1] vLLM API server version 0.33.0"),
    (20, "(EngineCore pid=9) INFO 11-27 10:00:20 [gpu_model_runner.py:1] Starting to load model x"),
    (100, "(EngineCore pid=9) INFO 11-27 10:01:40 [gpu_model_runner.py:1] Model loading took 5 GiB"),
    (101, "(EngineCore pid=9) INFO 11-27 10:01:41 [backends.py:1] Using cache directory: /x/torch_compile_cache/a"),
    (141, "(EngineCore pid=9) INFO 11-27 10:02:21 [gpu_worker.py:1] Available KV cache memory: 9 GiB"),
    (145, "Capturing CUDA graphs (PIECEWISE): 10%"),
    (165, "(EngineCore pid=9) INFO 11-27 10:02:45 [gpu_model_runner.py:1] Graph capturing finished in 20 secs"),
    (
        166,
        "(EngineCore pid=9) INFO 11-27 10:02:46 [core.py:1] init engine (profile, create kv cache) took 60 s",
    ),
    (900, '(APIServer pid=1) INFO: "POST /v1/chat/completions HTTP/1.1" 200 OK'),
)


@pytest.mark.parametrize("size", [7, 100, 1 << 20])
def test_phases_of_vllm_come_in_their_order_and_sum_up(size: int) -> None:
    found = of(*VLLM, size=size)
    assert found
    assert found.phases == {
        "import": 12.0, "config": 8.0, "load": 80.0, "profile": 5.0, "compile": 40.0, "capture": 20.0, "warm-up": 1.0,
    }  # fmt: skip
    assert found.ready == pytest.approx(166)
    assert found.line.startswith("ready after 2:46: import 0:12, config 0:08, load 1:20")
    assert found.engine == "vllm"
    assert found.advice(STAGES) == f"the longest phase is load: {STAGES.stage['load'].shortened_by('vllm')}"
    older = found.model_copy(update={"engine": None})
    assert older.advice(STAGES) == "the longest phase is load: keep the weights on the NVMe disk"
    kept = StartPhases.model_validate_json(found.model_copy(update={"first_answer": 2.1}).model_dump_json())
    assert kept.line.endswith("; first answer after 2.1 s more")


def test_a_start_that_is_not_ready_has_no_phases_and_a_short_one_no_advice() -> None:
    assert of(*VLLM[:-2]) is None
    assert of((1, "nothing")) is None
    short = of((1, "server_args=ServerArgs("), (2, "Load weight begin"), (3, "The server is fired up"))
    assert short
    assert short.phases == {"import": 1.0, "config": 1.0, "load": 1.0}
    assert short.advice(STAGES) is None


def test_weights_of_a_draft_model_are_loaded_as_well() -> None:
    """By a real log of vLLM: a draft model's weights come after the model's, and both before "Model loading took"."""
    found = of(
        (1, "vLLM API server version 0.33.0"),
        (10, "Starting to load model x"),
        (130, "Loading weights took 120.01 seconds"),
        (136, "Loading weights took 5.92 seconds"),
        (137, "Model loading took 17.17 GiB memory and 127.259276 seconds"),
        (160, "Capturing CUDA graphs (decode, FULL): 1%"),
        (170, "Graph capturing finished in 10 secs"),
        (171, "Capturing model for EAGLE speculator..."),
        (181, "init engine (profile, create kv cache, warmup model) took 44 s"),
    )
    assert found
    phases = {"import": 1.0, "config": 9.0, "load": 127.0, "profile": 23.0, "capture": 20.0, "warm-up": 1.0}
    assert found.phases == phases


@pytest.mark.parametrize(
    "kinds",
    [
        ("cuda graph", "draft cuda graph", "piecewise CUDA graph"),
        ("target verify CUDA graph", "draft decode CUDA graph", "target prefill CUDA graph"),
    ],
    ids=["0.5.10", "0.5.23"],
)
def test_sglang_captures_graphs_of_several_kinds(kinds: tuple[str, ...]) -> None:
    graphs = [
        line
        for at, kind in enumerate(kinds)
        for line in ((100 + 20 * at, f"Capture {kind} begin. x"), (119 + 20 * at, f"Capture {kind} end. Time: 19 s"))
    ]
    found = of(
        (1, "server_args=ServerArgs("),
        (2, "Load weight begin. avail mem=100 GB"),
        (60, "Load weight end. type=x"),
        *graphs,
        (160, "max_total_num_tokens=1"),
        (162, "The server is fired up"),
    )
    assert found
    assert (found.engine, found.phases["capture"], found.phases["warm-up"]) == ("sglang", 57.0, 5.0)
    assert "--load-format" in str(found.advice(STAGES)) and "llama.cpp" not in str(found.advice(STAGES))


def test_what_shortens_a_stage_names_options_that_the_newest_release_has() -> None:
    for engine in ("vllm", "sglang"):
        words = known_words(engine, releases(engine)[-1])
        assert words
        for text in STAGES.stage.values():
            own = re.sub(r"\([^)]* before [^)]*\)", "", text.by.get(engine, ""))
            assert [one for one in re.findall(r"--[a-z-]+", own) if one not in words.options] == []


def real(name: str) -> Iterator[bytes]:
    """A real log, a second for each line: its own times have no date of a year."""
    lines = (HEALTHY / f"{name}.log").read_text(encoding="utf-8").splitlines()
    yield timed(*((number, line) for number, line in enumerate(lines)))


@pytest.mark.parametrize("name", ["real-vllm-eager", "real-vllm-requests", "real-llama-1-2048"])
def test_a_real_start_is_ready_after_all_its_phases(name: str) -> None:
    found = StartPhases.of_log(real(name), BEGAN.isoformat(), STAGES)
    assert found
    assert "load" in found.phases
    assert found.ready == sum(found.phases.values())


def test_every_stage_before_ready_but_the_short_ones_says_what_shortens_it() -> None:
    assert {name for name, text in STAGES.stage.items() if not text.shorten} <= {"platform", "config"}
