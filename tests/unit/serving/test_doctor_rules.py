"""The rules of ``doctor``: each is seen by its sample, and not by the one that is nearly so."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from gb10.errors import UsageError
from gb10.serving.doctor.container_checks import CONTAINER_CHECKS, ContainerState
from gb10.serving.doctor.diagnosing import EndpointOutcomes, Evidence, diagnose, fitting
from gb10.serving.doctor.diagnosis import Finding
from gb10.serving.doctor.host_checks import HostSign
from gb10.serving.doctor.image_record import ImageRecord
from gb10.serving.doctor.log_scan import Scan, scan_log
from gb10.serving.doctor.rule_files import left_out, load_doctor_rules, load_slim_rules
from tests.doctor_trees import machine_of

DATA = Path(__file__).parents[1] / "data/doctor"
CASES: dict[str, Any] = yaml.safe_load((DATA / "cases.yaml").read_text(encoding="utf-8"))
RULES = load_doctor_rules()
KINDS = [(rule.code, need) for rule in RULES for need in rule.needs]
SLIM = [rule.name for rule in load_slim_rules()]


def test_a_rule_whose_expression_has_no_bound_is_refused_when_rules_are_read(tmp_path: Path) -> None:
    text = (DATA.parents[3] / "recipes/doctor/power.yaml").read_text(encoding="utf-8").partition("rules:")[2]
    rule = yaml.safe_load("rules:" + text)["rules"][0] | {"log": [{"has": "some text", "match": "some (?!text)"}]}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"rules": [rule | {"seen": "2026-11-26"}]}))
    with pytest.raises(UsageError) as raised:
        load_doctor_rules(tmp_path)
    assert "no regular expression of bounded time" in f"{raised.value.message} {raised.value.where}"


def record_of(case: dict[str, Any] | None) -> ImageRecord | None:
    if case is None:
        return None
    patches = frozenset(case.get("patches", ()))
    return ImageRecord(
        engine=case["engine"], release=case.get("release"), versions=case["versions"], patches=patches, slim=tuple(SLIM)
    )


def scanned(text: str, image: ImageRecord | None = None) -> Scan:
    return scan_log(
        [text.encode()], fitting(RULES, image)[0], lambda library: left_out(library, SLIM, load_slim_rules())
    )


def shown(need: str, case: Any, image: ImageRecord | None) -> Evidence:  # noqa: ANN401 - a case of the file
    if need == "log":
        return Evidence(logs={"log": scanned(case, image)})
    if need == "host":
        return Evidence(machines=(machine_of(**case),))
    if need == "endpoint":
        return Evidence(endpoints=(EndpointOutcomes(url="http://x/v1", outcomes=case),))
    fields = {key: value for key, value in case.items() if key not in ("machine", "record")}
    machine = machine_of(**case["machine"]) if "machine" in case else None
    container = ContainerState(name="c", host="h", record=record_of(case.get("record")), machine=machine, **fields)
    return Evidence(containers=(replace(container, devices=tuple(container.devices)),))


def seen(code: str, need: str, kind: str) -> list[Finding]:
    case = CASES[code][need]
    image = record_of(case.get("image"))
    return [one for one in diagnose(RULES, shown(need, case[kind], image)).seen if one.rule]


def test_every_rule_has_a_case_for_each_way_to_see_it() -> None:
    assert {(code, need) for code, cases in CASES.items() for need in cases} == set(KINDS)
    assert len({rule.code for rule in RULES}) == len(RULES) >= 48


def test_every_check_belongs_to_a_rule() -> None:
    assert {check for rule in RULES for check in rule.host} == set(get_args(HostSign))
    checks = {sign.check for rule in RULES for sign in rule.container or () if sign.check}
    assert checks == set(CONTAINER_CHECKS)


@pytest.mark.parametrize(("code", "need"), KINDS)
def test_a_rule_sees_its_sample_and_not_the_near_miss(code: str, need: str) -> None:
    hit, miss = (seen(code, need, kind) for kind in ("hit", "miss"))
    assert code in {one.code for one in hit}
    other = CASES[code][need].get("of")
    assert [one.code for one in miss] == ([other] if other else [])
    found = next(one for one in hit if one.code == code)
    assert "{value}" not in found.words(found.rule.meaning + found.rule.action) if found.rule else False


def test_few_texts_are_sought() -> None:
    """Each is sought in every block of a log."""
    assert len({sign.has for rule in RULES for sign in rule.log}) <= 56


def test_a_sample_of_a_log_is_its_own_rule_alone() -> None:
    for code, cases in CASES.items():
        if "log" in cases:
            found = {one.code for one in seen(code, "log", "hit")}
            assert found <= {code, "shared-memory-too-small", "tile-too-large", "image-newer-than-driver"}, code


BANNERS = {
    "vllm": "INFO [api_server.py:1262] vLLM API server version 0.29.0",
    "sglang": "[2026-04-13 10:00:00] server_args=ServerArgs(model_path='m')",
    "trtllm": "[11/26/2026-08:10:20] [TRT-LLM] [I] starts",
}
TILES = "[TensorRT-LLM][ERROR] Failed to initialize cutlass TMA WS grouped gemm"
RADIX = "ValueError: Speculative decoding for Qwen3NextForCausalLM is not compatible with radix cache when using"
GARBAGE = f'INFO answer: "Here{"!" * 40}"'
FP4 = "WARNING [marlin.py:1] Your GPU does not have native support for FP4 computation"


@pytest.mark.parametrize(
    ("engine", "line", "wanted"),
    [
        ("trtllm", TILES, "tensorrt-skips-tiles"),
        ("vllm", TILES, "autotuner-skips-tiles"),
        (None, TILES, "autotuner-skips-tiles"),
        ("sglang", RADIX, "speculation-without-extra-buffer"),
        (None, RADIX, "speculation-without-extra-buffer"),
        ("vllm", RADIX, None),
        ("vllm", FP4, "fp4-without-fp4"),
        ("sglang", FP4, None),
        ("sglang", GARBAGE, "broken-text-sglang"),
        ("vllm", GARBAGE, "broken-text"),
    ],
)
def test_a_log_that_shows_its_engine_drops_the_rules_of_others(
    engine: str | None, line: str, wanted: str | None
) -> None:
    scan = scanned("\n".join(filter(None, (BANNERS.get(engine or ""), line))))
    assert {hit.rule.code for hit in scan.hits} == ({wanted} if wanted else set())
    assert [one.text for one in scan.trouble] == ([line] if wanted is None and "Error" in line else [])


def test_a_pod_waits_for_a_file_of_its_node_too() -> None:
    """What Multus writes when a definition has no config, and the node no file of its name."""
    line = "error adding pod: GetCNIConfig: err in GetCNIConfigFromFile: No networks found in /etc/cni/multus/net.d"
    assert [hit.rule.code for hit in scanned(line).hits] == ["pod-waits-for-a-network"]


def test_a_log_that_shows_its_release_drops_the_rules_of_others() -> None:
    banner = BANNERS["vllm"].replace("0.29.0", "0.33.0")
    assert scanned(f"{banner}\n{FP4}").hits == ()
    assert scanned(f"{BANNERS['vllm']}\n{BANNERS['sglang']}\n{FP4}").hits  # two engines: rules of both
    folder = f"{BANNERS['trtllm']}\n[TRT-LLM] [I] loading /models/vllm/m\n{TILES}"  # a folder's name is no engine
    assert {hit.rule.code for hit in scanned(folder).hits} == {"tensorrt-skips-tiles"}


def test_evidence_has_a_place_and_a_date() -> None:
    for rule in RULES:
        assert rule.seen.year == 2026
        assert rule.evidence
