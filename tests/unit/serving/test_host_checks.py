"""Each sign of a machine at its limits: what is just enough, and what is just not."""

from typing import Any

import pytest

from gb10.serving.doctor.host_checks import host_signs
from tests.doctor_trees import machine_of

GIB = 1 << 20  # kB, as /proc/meminfo has them
TOTAL = 128 * GIB


def seen(check: str, **machine: Any) -> list[str]:  # noqa: ANN401 # machine_of says what each is
    return [text for sign, text in host_signs(machine_of(**machine)) if sign == check]


def gpu(
    state: str = "P0", busy: int = 99, clock: int = 800, power: str = "20.0", reasons: str = "0x0"
) -> dict[str, Any]:
    return {"look": [("gpu", "-", f"{state}, {busy}, {clock}, 3003, {power}, 60, {reasons}")]}


def cores(*shares: float, **more: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows of cores that are busy for these shares of a thousand ticks."""
    rows = [("cpu", "1", f"cpu{number}", "0", "0") for number in range(len(shares))]
    later = [
        ("cpu", "2", f"cpu{number}", str(round(share * 1000)), str(1000 - round(share * 1000)))
        for number, share in enumerate(shares)
    ]
    return [*rows, *later, *(row for part in more.values() for row in part)]


WORKER: list[tuple[str, ...]] = [("engine", "7", "VLLM::Worker_TP", "6", "vllm")]


def heat(degrees: float) -> list[tuple[str, ...]]:
    return [("heat", "acpitz", str(round(degrees * 1000)))]


@pytest.mark.parametrize(
    ("check", "machine", "count"),
    [
        ("busy-at-low-clock", gpu(), 1),
        ("busy-at-low-clock", gpu(clock=999), 1),
        ("busy-at-low-clock", gpu(clock=1000), 0),
        ("busy-at-low-clock", gpu(busy=91), 1),
        ("busy-at-low-clock", gpu(busy=90), 0),
        ("busy-at-low-clock", gpu(power="29.9"), 1),
        ("busy-at-low-clock", gpu(power="30.0"), 0),
        ("busy-at-low-clock", gpu(power="[N/A]"), 1),
        ("busy-at-low-clock", gpu(state="P8"), 0),
        ("busy-at-low-clock", gpu(reasons="0x4"), 0),
        ("busy-at-low-clock", {}, 0),
        ("busy-at-application-clock", gpu(clock=2281, power="80.0"), 1),
        ("busy-at-application-clock", gpu(clock=2418), 1),
        ("busy-at-application-clock", gpu(clock=2280), 0),
        ("busy-at-application-clock", gpu(clock=2419), 0),
        ("busy-at-application-clock", gpu(clock=2300, busy=90), 0),
        ("busy-at-application-clock", {"look": [("gpu", "-", "P0, 99, 2300, 3000, 80.0, 60, 0x0")]}, 0),
        ("busy-at-application-clock", {"look": [("gpu", "-", "P0, 99, 2300, 3001, 80.0, 60, 0x0")]}, 1),
        ("busy-at-application-clock", {"look": [("gpu", "-", "P0, 99, 2300, [N/A], 80.0, 60, 0x0")]}, 0),
        ("pages-of-64-kib", {"look": [("page", "65536")]}, 1),
        ("pages-of-64-kib", {"look": [("page", "65537")]}, 0),
        ("pages-of-64-kib", {}, 0),
        ("hot-and-spinning", {"look": cores(1, 1, 1, worker=WORKER, heat=heat(84))}, 1),
        ("hot-and-spinning", {"look": cores(1, 1, 0.95, worker=WORKER, heat=heat(84))}, 0),
        ("hot-and-spinning", {"look": cores(1, 1, 0.96, worker=WORKER, heat=heat(84))}, 1),
        ("hot-and-spinning", {"look": cores(1, 1, 1, worker=WORKER, heat=heat(83.9))}, 0),
        ("hot-and-spinning", {"look": cores(1, 1, 1, heat=heat(90))}, 0),
        ("boot-without-shutdown", {"look": [("boot", "-", "systemd-shutdown: done")]}, 0),
        ("boot-without-shutdown", {"look": [("boot", "-", "Reached target System POWER-OFF.")]}, 0),
        ("boot-without-shutdown", {"look": [("boot", "-", "kernel: x")]}, 1),
        ("boot-without-shutdown", {"look": [("boot", "-", "Powering down"), ("boot", "-", "kernel: x")]}, 0),
        ("cma-below-nothing", {"memory": {"CmaTotal": 4 * GIB, "CmaFree": 4 * GIB}}, 0),
        ("cma-below-nothing", {"memory": {"CmaTotal": 4 * GIB, "CmaFree": 4 * GIB + 1}}, 1),
        ("kernel-refuses-registration", {"kernel": "7.0.0-1019-nvidia"}, 1),
        ("kernel-refuses-registration", {"kernel": "7.0.0-10190-nvidia"}, 0),
        ("kernel-refuses-registration", {"kernel": "7.0.0-1019-nvidia", "spark": {"rdma": False}}, 0),
        ("mtu-below-9000", {"spark": {"mtu": 9000}}, 0),
        ("pcie-below-four-lanes", {"spark": {"lanes": {"0000:01:00.0": 2}}}, 1),
        ("pcie-below-four-lanes", {"spark": {"lanes": {"0000:01:00.0": 4}}}, 0),
        ("adapter-behind-iommu", {"look": [("iommu", "rocep1s0f0", "DMA")]}, 1),
        ("adapter-behind-iommu", {"look": [("iommu", "rocep1s0f0", "DMA-FQ")]}, 1),
        ("adapter-behind-iommu", {"look": [("iommu", "rocep1s0f0", "identity")]}, 0),
        ("adapter-behind-iommu", {"look": [("iommu", "other", "DMA")]}, 0),
    ],
)
def test_a_sign_at_its_limit(check: str, machine: dict[str, Any], count: int) -> None:
    assert len(seen(check, **machine)) == count


@pytest.mark.parametrize("mtu", [1500, 8999])
def test_small_frames_are_named_for_each_half_with_an_address(mtu: int) -> None:
    found = seen("mtu-below-9000", spark={"mtu": mtu})
    assert found
    assert all(line.startswith(f"{mtu} (") for line in found)


@pytest.mark.parametrize(
    ("swap", "available", "count"),
    [(16, 0.3, 1), (8, 0.3, 0), (9, 0.3, 1), (16, 0.41, 0), (16, 0.39, 1), (0, 0.1, 0)],
)
def test_swap_behind_memory_in_use(swap: int, available: float, count: int) -> None:
    memory = {"MemTotal": TOTAL, "MemAvailable": int(TOTAL * available), "SwapTotal": swap * GIB}
    assert len(seen("swap-behind-large-use", memory=memory)) == count


def test_what_is_in_use_is_named_in_per_cent() -> None:
    memory = {"MemTotal": TOTAL, "MemAvailable": TOTAL // 4, "SwapTotal": 16 * GIB}
    assert seen("swap-behind-large-use", memory=memory) == ["16 GiB of swap, and 75% of the memory is in use"]


@pytest.mark.parametrize(
    ("name", "parent", "parent_name", "count"),
    [
        ("VLLM::EngineCor", "1", "python3", 1),
        ("VLLM::EngineCor", "2", "python3", 0),
        ("VLLM::EngineCor", "2", "tini", 1),
        ("VLLM::Worker_TP", "1", "systemd", 0),
    ],
)
def test_an_engine_whose_server_is_gone(name: str, parent: str, parent_name: str, count: int) -> None:
    assert len(seen("engine-without-server", look=[("engine", "9", name, parent, parent_name)])) == count


@pytest.mark.parametrize(
    ("name", "rate", "busy", "count"),
    [
        ("enp1s0f0np0", 500_000_001, (1, 1), 1),
        ("enp1s0f0np0", 500_000_000, (1, 1), 0),
        ("enp1s0f0np0", 900_000_000, (1, 0.5), 0),
        ("enP7s7", 900_000_000, (1, 1), 0),
    ],
)
def test_packets_that_cores_carry(name: str, rate: int, busy: tuple[float, ...], count: int) -> None:
    rows = [
        ("at", "1", "10"),
        ("at", "2", "11"),
        ("traffic", "1", name, "0", "0"),
        ("traffic", "2", name, str(rate), "0"),
    ]
    found = seen("cores-carry-packets", look=cores(*busy, traffic=rows))
    assert len(found) == count
    assert all(line == f"0.5 GB/s through {name}, 2 cores busy" for line in found)


def test_a_healthy_machine_shows_nothing() -> None:
    assert list(host_signs(machine_of())) == []
