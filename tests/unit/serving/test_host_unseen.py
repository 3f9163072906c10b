"""What of a machine could not be read is a row with its reason; a machine that shows all has none."""

from dataclasses import replace
from typing import Any

import pytest

from gb10.serving.doctor.host_checks import unseen
from tests.doctor_trees import machine_of


def parts(**machine: Any) -> dict[str, str]:  # noqa: ANN401 # machine_of says what each is
    return {one.what: one.reason for one in unseen(machine_of(look=[*CORE, *machine.pop("look", ())], **machine))}


CORE = (("cpu", "1", "cpu0", "0", "0"), ("cpu", "2", "cpu0", "10", "990"))


def test_a_spark_that_shows_all_of_itself_has_no_row() -> None:
    assert parts() == {}


@pytest.mark.parametrize(
    ("machine", "what", "reason"),
    [
        ({"spark": {"driver": None}}, ["GPU"], "no NVIDIA driver"),
        ({"look": [("gpu", "-", "")]}, ["clock, power and use of the GPU"], "nvidia-smi is missing"),
        ({"look": [("gpu", "-", "P8, [N/A], 208, 3003, 4.1, 41, 0x1")]}, ["clock, power and use of the GPU"], "name"),
        ({"look": [("smi", "-", "NVIDIA-SMI version")]}, ["CUDA of the driver"], "nvidia-smi --version"),
        ({"look": [("heat", "acpitz", "-")]}, ["temperatures"], "no zone"),
        ({"look": [("journal", "-")]}, ["kernel's log"], "journalctl"),
        ({"look": [("boot", "-", "")]}, ["end of the boot before"], "journalctl"),
        (
            {"look": [("unreadable", "/etc/docker/daemon.json")]},
            ["/etc/docker/daemon.json"],
            "this user may not read it",
        ),
    ],
)
def test_what_is_missing_is_the_only_row(machine: dict[str, Any], what: list[str], reason: str) -> None:
    found = parts(**machine)
    assert list(found) == what
    assert all(reason in text for text in found.values())


def test_a_machine_without_an_adapter_and_one_whose_adapter_has_no_rdma() -> None:
    whole = machine_of(look=CORE)
    lan = {name: one for name, one in whole.facts.netdevs.items() if one.driver != "mlx5_core"}
    assert 0 < len(lan) < len(whole.facts.netdevs)
    for facts, what in (
        (replace(whole.facts, netdevs=lan), "fast link"),
        (replace(whole.facts, netdevs={}), "network"),
        (replace(whole.facts, hcas=()), "RDMA"),
    ):
        assert [one.what for one in unseen(replace(whole, facts=facts))] == [what]


def test_the_newer_words_of_nvidia_smi_name_the_cuda_of_the_driver() -> None:
    machine = machine_of(look=[("smi", "-", "CUDA UMD Version    : 13.1")])
    assert machine.look.cuda == "13.1"
