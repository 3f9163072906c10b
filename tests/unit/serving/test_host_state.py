"""What the answer of ``look.sh`` says of cores, traffic, heat, the GPU and servers; odd rows are left out."""

import pytest

from gb10.serving.cluster.fact_reading import count_in, each, name_in, one, rows_of
from gb10.serving.doctor.host_state import EngineProcess, GpuNow, Look, read_look
from tests.doctor_trees import look_text


def look(*rows: tuple[str, ...]) -> Look:
    found = read_look(look_text(rows))
    assert found
    return found


def test_cores_are_busy_by_what_they_worked_between_two_looks() -> None:
    """Jiffies of /proc/stat: busy and idle; a core that slept all the time has none of both."""
    before = [("cpu", "1", "cpu0", "100", "900"), ("cpu", "1", "cpu1", "50", "50"), ("cpu", "1", "cpu2", "7", "7")]
    later = [("cpu", "2", "cpu0", "175", "925"), ("cpu", "2", "cpu1", "50", "150"), ("cpu", "2", "cpu2", "7", "7")]
    assert look(*before, *later).cores == (0.75, 0.0, 0.0)


def test_a_core_needs_both_looks_and_two_numbers() -> None:
    good = [("cpu", "1", "cpu0", "0", "0"), ("cpu", "2", "cpu0", "1", "3")]
    odd = [
        ("cpu", "1", "cpu1", "0", "0"),
        ("cpu", "2", "cpu2", "1", "1"),
        ("cpu", "3", "cpu0", "9", "9"),
        ("cpu", "2", "cpu0", "9", "-"),
        ("cpu", "2", "cpu0", "9", "9", "9"),
        ("cpu", "2", "c p u", "9", "9"),
    ]
    assert look(*good, *odd).cores == (0.25,)


def test_traffic_is_bytes_a_second_both_ways() -> None:
    rows = [("traffic", "1", "eth0", "1000", "500"), ("traffic", "2", "eth0", "4000", "1500")]
    assert look(("at", "1", "10.5"), ("at", "2", "12.5"), *rows).traffic == {"eth0": 2000.0}
    assert look(("at", "1", "12.5"), ("at", "2", "12.5"), *rows).traffic == {}
    assert look(("at", "2", "4"), *rows).traffic == {"eth0": 1000.0}
    assert look(("at", "2", "x"), ("at", "2", "1", "2"), *rows).traffic == {}


def test_the_gpu_is_the_first_whole_line_of_nvidia_smi() -> None:
    lines = ["", "P0, 1", "Q0, 1, 2, 3, 4.0, 5, 0x0", "P0, 96, 2418, 3003, 91.20, 78, 0x0000000000000004"]
    found = look(*(("gpu", "-", line) for line in (*lines, "P8, 0, 0, 0, 1.0, 0, 0x1")))
    assert found.gpu == GpuNow(state="P0", busy=96, clock=2418, most=3003, power=91.2, heat=78, reasons=4)
    assert str(found.gpu) == "P0, 96 %, 2418 MHz, 91.2 W"


def test_what_nvidia_smi_does_not_know_is_none() -> None:
    found = look(("gpu", "-", "P8, [N/A], [N/A], 3003, [N/A], [N/A], [N/A]")).gpu
    assert found == GpuNow(state="P8", most=3003)
    assert str(found) == "P8, None %, None MHz"


def test_the_page_cache_is_summed_in_bytes() -> None:
    rows = [("cache", "Cached", "1000"), ("cache", "Buffers", "24"), ("cache", "x", "y"), ("cache", "1")]
    assert look(*rows).cache == 1 << 20
    assert look(("cache", "Cached", "-")).cache is None
    assert look(("cache", "Cached", "0")).cache == 0


@pytest.mark.parametrize(("text", "hot"), [("0", False), ("1", True), ("2", True), ("-", False)])
def test_prochot(text: str, hot: bool) -> None:
    assert look(("prochot", text)).hot is hot


def test_heat_is_in_degrees() -> None:
    rows = [("heat", "acpitz", "46300"), ("heat", "a b", "1"), ("heat", "soc", "-1"), ("heat", "gpu")]
    assert look(*rows).heat == {"acpitz": 46.3}


def test_servers_have_a_parent_whose_name_may_be_unknown() -> None:
    rows = [
        ("engine", "12", "VLLM::EngineCor", "7", "vllm"),
        ("engine", "13", "VLLM::Worker_TP", "12", "x" * 21),
        ("engine", "x", "vllm", "7", "vllm"),
        ("engine", "14", "vllm", "-", "vllm"),
        ("engine", "15", "v" * 21, "7", "vllm"),
    ]
    assert look(*rows).engines == (
        EngineProcess(pid=12, name="VLLM::EngineCor", parent=7, parent_name="vllm"),
        EngineProcess(pid=13, name="VLLM::Worker_TP", parent=12, parent_name=""),
    )


def test_files_have_the_lines_that_were_read_of_them() -> None:
    rows = [("file", "/etc/a"), ("file", "/etc/b"), ("text", "/etc/a", "1"), ("text", "/etc/a", "2")]
    assert look(*rows).files == {"/etc/a": "1\n2", "/etc/b": ""}


def test_docker_is_docker_alone_and_an_iommu_group_may_be_none() -> None:
    found = look(("program", "docker"), ("iommu", "0001:01:00.0", "DMA"), ("iommu", "0002:01:00.0", "-"))
    assert (found.docker, dict(found.iommu)) == (True, {"0001:01:00.0": "DMA"})
    assert look(("program", "podman")).docker is False
    assert look().docker is False


def test_the_driver_names_its_cuda() -> None:
    assert (
        look(("smi", "-", "x"), ("smi", "-", "CUDA Version : 13.1"), ("smi", "-", "CUDA Version : 9.9")).cuda == "13.1"
    )
    assert look(("smi", "-", "CUDA Version : N/A")).cuda is None


def test_another_version_of_the_script_is_not_read() -> None:
    assert read_look(look_text([("look", "2")])) is None


def test_lines_from_elsewhere_are_bounded() -> None:
    rows = rows_of("\n".join(["a\tx", "a\t" + "y" * 300, "a\t" + "z" * 301, "a\t\x1b[0m", "a", "b\t1\t2"]))
    assert dict(rows) == {"a": [["x"], ["y" * 300]], "b": [["1", "2"]]}
    assert len(rows_of("a\tx\n" * 5000)["a"]) == 4096
    assert each(rows, "b", 1, lambda row: row[0]) == ()
    assert each(rows, "b", 2, lambda row: row[1]) == ("2",)
    assert (one(rows, "a", str), one(rows, "c", str)) == ("x", None)
    assert [name_in(text) for text in ("eth0", "-x", "a" * 128, "a" * 129, "")] == ["eth0", None, "a" * 128, None, None]
    assert [count_in(text) for text in ("0", "-1", "٣", "9" * 15, "9" * 16)] == [0, None, None, 10**15 - 1, None]
