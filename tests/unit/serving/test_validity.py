"""Conditions of a benchmark: what is doubted, what cannot be known, and what a server counts."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.machine_facts import Clock, boot_id, gpu_facts, machine_facts
from gb10.serving.load_generator.results import LoadRun, LoadStream
from gb10.serving.load_generator.server_pages import ServerCounts, counter_gains, running
from gb10.serving.load_generator.validity import clock_step_doubt, load_doubts, start_doubts, unknown, warm_up_doubt

IDLE: Mapping[str, object] = {"load_1min": 0.3, "cores": 20, "gpu": [{"utilization.gpu": "0 %"}]}


def look(clock: str = "2418 MHz", reasons: str = "0x0000000000000000", **more: object) -> dict[str, object]:
    gpu = {"utilization.gpu": "96 %", "clocks.sm": clock, "clocks_event_reasons.active": reasons}
    return {"celsius": 60.0, "memory_free_mib": 50_000, "gpu": [gpu], **more}


def test_a_quiet_machine_is_not_doubted() -> None:
    assert start_doubts(IDLE, 0) == ()
    assert load_doubts([look(), look("2400 MHz", "0x0000000000000001")], ServerCounts(preempted=0)) == ()


def test_other_work_before_the_first_request_is_said() -> None:
    busy = {"load_1min": 7.25, "cores": 20, "gpu": [{"utilization.gpu": "97 %"}]}
    assert start_doubts(busy, 3) == (
        "other programs run on this machine: load 7.25 on 20 cores",
        "the GPU of this machine was busy before the first request",
        "3 other requests ran on the server",
    )


def test_what_moved_under_load_is_said() -> None:
    looks = [look(), look("1800 MHz", "0x0000000000000024", celsius=88.4, memory_free_mib=700)]
    assert load_doubts(looks, ServerCounts(preempted=2)) == (
        "the GPU's clock moved between 1,800 and 2,418 MHz",
        "the GPU was slowed down by its power limit in 1 of 2 looks",
        "the GPU was slowed down by heat (software) in 1 of 2 looks",
        "this machine reached 88 °C",
        "this machine had only 700 MiB of free memory",
        "the server put back 2 requests: its cache was full",
    )


def test_gpus_that_nobody_can_read_are_no_figures() -> None:
    odd = {"gpu": [{"utilization.gpu": "[N/A]", "clocks.sm": "", "clocks_event_reasons.active": "?"}], "celsius": None}
    assert load_doubts([odd, {"gpu": "no nvidia-smi on this machine"}], ServerCounts()) == ()


def test_a_clock_that_is_set_is_one_sentence() -> None:
    start = Clock(1000.0, 50.0)
    assert clock_step_doubt(start.stepped(Clock(1010.0005, 60.0))) == ""
    assert (
        clock_step_doubt(start.stepped(Clock(1013.2, 60.0)))
        == "the clock of this machine was set by +3.20 s while the load ran"
    )
    assert clock_step_doubt(start.stepped(Clock(6410.0, 60.0))).startswith(
        "the clock of this machine was set by +5400.00 s"
    )


def test_an_unreadable_sys_is_said_and_stops_nothing(tmp_path: Path) -> None:
    facts = machine_facts({"PATH": str(tmp_path)}, tmp_path)
    assert (facts["celsius"], facts["governor"], facts["boot_id"]) == (None, "unknown", "unknown")
    assert unknown(facts) == (
        "clocks and power of the GPU: no nvidia-smi on this machine",
        "heat: no thermal zone below /sys can be read",
        "the CPU's clock: its governor below /sys cannot be read",
    )


def test_what_sys_tells_is_read_and_odd_zones_are_left_out(tmp_path: Path) -> None:
    zones = {"0": "54300\n", "1": "not a number\n", "2": "-5000\n"}
    for number, text in zones.items():
        folder = tmp_path / f"sys/class/thermal/thermal_zone{number}"
        folder.mkdir(parents=True)
        (folder / "temp").write_text(text, encoding="ascii")
    (tmp_path / "sys/class/thermal/thermal_zone3/temp").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("abc\n", encoding="ascii")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2048000 kB\n", encoding="ascii")
    facts = machine_facts({"PATH": str(tmp_path)}, tmp_path)
    assert (facts["celsius"], facts["memory_free_mib"], boot_id(tmp_path)) == (54.3, 2000, "abc")


def test_an_nvidia_smi_that_fails_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n", encoding="ascii")
    program.chmod(0o755)
    assert gpu_facts({"PATH": f"{tmp_path}:/bin"}) == "nvidia-smi: NVIDIA-SMI has failed"


def run(steps: int, *, warm_up: bool = False) -> LoadRun:
    stream = LoadStream(
        verdict=Verdict.OK,
        why="",
        tokens=steps,
        first_tokens=1,
        prompt_tokens=1,
        steps=steps + 1,
        decode_s=1.0,
        first_token_s=0.1,
        characters=9,
    )
    return LoadRun(index=0, warm_up=warm_up, streams=(stream,), decode_s=1.0)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((80, 100, 101), "the first run is 20% slower than the others: warm up longer"),
        ((99, 100, 101), ""),
        ((80, 100), ""),
        ((100, 80, 101), ""),
    ],
)
def test_a_cold_first_run_is_said(steps: tuple[int, ...], said: str) -> None:
    assert warm_up_doubt([run(10, warm_up=True), *map(run, steps)]) == said


def test_the_counters_of_a_load_are_the_difference_of_two_readings() -> None:
    name = "vllm:spec_decode_num"
    before = {(f"{name}_drafts_total", ""): 100.0, (f"{name}_accepted_tokens_total", ""): 10.0}
    after = {
        (f"{name}_drafts_total", ""): 200.0,
        (f"{name}_accepted_tokens_total", ""): 130.0,
        (f"{name}_accepted_tokens_per_pos_total", "0"): 80.0,
        (f"{name}_accepted_tokens_per_pos_total", "1"): 40.0,
        (f"{name}_accepted_tokens_per_pos_total", "2"): 0.0,
        (f"{name}_accepted_tokens_per_pos_total", "x"): 9.0,
        ("vllm:num_preemptions_total", ""): 1.0,
    }
    found = counter_gains(before, after)
    assert (found.tokens_per_draft, found.accepted, found.preempted) == (2.2, (0.8, 0.4, 0.0), 1)
    assert counter_gains({}, {}) == ServerCounts()
    assert counter_gains(after, after).tokens_per_draft is None
    assert running({("vllm:num_requests_running", ""): 3.0}) == 3
    assert running({}) is None
