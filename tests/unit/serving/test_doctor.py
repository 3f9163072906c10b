"""``doctor``: logs of several nodes as one story, images that drop rules, hostile input, secrets, bundles."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gb10.core.log_words import is_trouble
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.moe.tuned_name import nearest_files
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.plan_record import record
from gb10.image.recipe.arch import parse_arch
from gb10.serving.checkup.bundle import EACH, MOST, bundle, file_name, write_bundle
from gb10.serving.checkup.endpoint_probe import Probe, outcomes_of, two_modes
from gb10.serving.checkup.saved_logs import read_log
from gb10.serving.doctor.container_checks import ContainerState
from gb10.serving.doctor.diagnosing import Evidence, diagnose, fitting
from gb10.serving.doctor.diagnosis import Diagnosis
from gb10.serving.doctor.host_state import read_look
from gb10.serving.doctor.image_record import ImageRecord, read_installed, read_plan
from gb10.serving.doctor.log_judging import remedy_of
from gb10.serving.doctor.log_scan import LONGEST, MANY, Scan, last_lines_of, scan_log, whole_lines
from gb10.serving.doctor.log_time import Moment, moment_of, near
from gb10.serving.doctor.masking import masked, masked_environment
from gb10.serving.doctor.rule_files import is_tool_error, left_out, load_doctor_rules, load_slim_rules, load_stages
from gb10.serving.guard.canary import AnswerKind, Canary, CanaryAnswer, Fact
from gb10.serving.guard.finding import Judgement, Verdict
from gb10.serving.load_generator.canary_batch import CanaryBatch
from gb10.serving.load_generator.exchange import Exchange
from tests.doctor_trees import look_text
from tests.hang import no_hang
from tests.recipes import SHIPPED

RULES = load_doctor_rules()
DATA = Path(__file__).parents[1] / "data/doctor"
HEAD, WORKER = ((DATA / f"{name}.log").read_text(encoding="utf-8") for name in ("head", "worker"))


def of_blocks(blocks: Iterable[bytes], image: ImageRecord | None = None) -> Scan:
    return scan_log(blocks, fitting(RULES, image)[0], marks=load_stages().mark, tools=is_tool_error)


def scanned(text: str | bytes, image: ImageRecord | None = None) -> Scan:
    return of_blocks([text.encode() if isinstance(text, str) else text], image)


def diagnosed(**logs: str) -> Diagnosis:
    return diagnose(RULES, Evidence(logs={name: scanned(text) for name, text in logs.items()}))


def test_the_first_error_of_all_nodes_comes_first_not_the_loudest() -> None:
    found = diagnosed(head=HEAD * 3, worker=WORKER)
    assert found.first
    assert (found.first.code, found.first.where, found.first.count) == ("rdma-registration-fails", "worker", 2)
    assert [one.where for one in found.seen] == ["worker", "worker", "head"]
    assert found.seen[2].moment == Moment(11, 24, 8 * 3600 + 5 * 60 + 10)


def test_a_real_failure_of_two_ranks_is_told_in_its_order() -> None:
    """The worker of a timed-out head loses its peer 41 s later, and says so louder: an echo."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (DATA / "failed").glob("*.log")}
    (found,) = diagnosed(**texts).seen
    assert (found.code, found.where, found.echoes) == ("rank-does-not-answer", "real-vllm-rank0", 2)
    (alone,) = diagnosed(worker=texts["real-vllm-rank1"]).seen
    assert (alone.code, "Connection closed by peer" in alone.value) == ("peer-went-away", True)


def test_what_no_rule_knows_is_said_to_be_unknown() -> None:
    (found,) = diagnosed(head=HEAD).seen
    assert (found.code, found.level, found.line) == ("unknown", "error", 6)
    assert "DistBackendError" in found.value


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        ("(EngineCore pid=87) ERROR 11-24 08:05:10 [core.py:901] ValueError: x", True),
        ("(EngineCore pid=87) ERROR 11-24 08:05:10 [core.py:901]     raise ValueError(x)", False),
        ("(EngineCore pid=87) WARNING 11-24 08:05:10 [core.py:901] OSError: x was ignored", False),
        ("INFO:     127.0.0.1:1 - GET /error HTTP/1.1 404 Not Found", False),
        ("2026-11-24T08:05:10.123Z (APIServer pid=1) ERROR 11-24 08:05:10 [x.py:1] Killed", True),
        ("[2026-11-24 08:05:10 TP0] Scheduler hit an exception: RuntimeError: x", True),
        ("RuntimeError: Engine core initialization failed. See root cause above.", False),
        ("bash: vllm: command not found", True),
        ("0 errors, 1 warning", False),
    ],
)
def test_what_counts_as_an_error(line: str, trouble: bool) -> None:
    assert is_trouble(line) is trouble


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_where_a_log_is_cut_into_blocks_decides_nothing(size: int) -> None:
    data = (HEAD + WORKER).encode()
    assert of_blocks(data[at : at + size] for at in range(0, len(data), size)) == scanned(data)


def test_blocks_end_with_lines_and_a_line_without_end_is_bounded() -> None:
    assert [*whole_lines([b"ab", b"c\nde", b"f\n", b"g"])] == [b"abc\n", b"def\n", b"g"]
    endless = [*whole_lines([b"x" * (1 << 20)] * 5)]
    assert max(map(len, endless)) <= 2 << 20


def test_hostile_lines_are_read_as_text() -> None:
    raw = b"\x1b[31mERROR\x1b[0m \xff\xfe\x00 RuntimeError: \x07boom\r\n" + b"E" * 100_000 + b"\n"
    (line,) = scanned(raw).trouble
    assert line.text.isprintable()
    assert "RuntimeError" in line.text


@no_hang()
def test_no_pattern_takes_long_on_a_hostile_line() -> None:
    ends = (
        "a" * 3000,
        "1 " * 1500,
        "1." * 1500,
        "(" * 3000,
        ".A" * 1500,
        " \t" * 1500,
        "1234567890 float     sum " * 120,
    )
    for sign in (sign for rule in RULES for sign in rule.log):
        for end in ends:
            sign.regex.search(f"{end[: LONGEST // 3]}{sign.has}{end}"[:LONGEST])
    for end in ends:
        is_trouble(f"{end} Error{end}"[:LONGEST])


def test_a_flood_of_one_error_is_bounded_and_said() -> None:
    scan = scanned("RuntimeError: number 1\n" * (MANY + 10))
    assert len(scan.trouble) == MANY
    assert "rror" in scan.cut


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-24T08:00:01.500Z x", (11, 24, 28801.5)),
        ("INFO 11-24 08:00:01 [x]", (11, 24, 28801)),
        ("[2026-11-24 08:00:01,250 TP0] x", (11, 24, 28801.25)),
        ("Nov  4 08:00:01 spark-1 kernel: x", (11, 4, 28801)),
        ("2026-01-01 00:00:60 x", (1, 1, 60)),
        ("2026-12-31 23:59:59 x", (12, 31, 86399)),
        ("99-99 08:00:01 x", None),
        ("2026-00-10 08:00:01 x", None),
        ("2026-01-32 08:00:01 x", None),
        ("2026-01-01 24:00:01 x", None),
        ("2026-01-01 08:60:01 x", None),
        ("2026-01-01 08:00:61 x", None),
        ("version 1.2.3", None),
    ],
)
def test_times_of_lines(text: str, expected: tuple[int, int, float] | None) -> None:
    assert moment_of(text) == (Moment(*expected) if expected else None)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Moment(11, 4, 100), Moment(11, 4, 160), True),
        (Moment(11, 4, 161), Moment(11, 4, 100), False),
        (Moment(11, 4, 100), Moment(11, 5, 100), False),
        (Moment(11, 4, 100), Moment(10, 4, 100), False),
        (None, Moment(11, 4, 100), True),
        (Moment(11, 4, 100), None, True),
    ],
)
def test_lines_of_the_same_minute_are_near(one: Moment | None, other: Moment | None, expected: bool) -> None:
    assert near(one, other) is expected


def plan(**fields: object) -> dict[str, Any]:
    files = ["vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl", "flashinfer_python-0.7.2.post1-py3-none-any.whl"]
    steps = [{"kind": "layer", "files": [{"filename": name} for name in files]}]
    patches = [{"source": "vllm", "name": "0006-shm-readers-park.patch"}]
    return {
        "schema": "gb10/plan/v1",
        "engine": "vllm",
        "version": "0.33.0",
        "key": "7" * 64,
        "patches": patches,
        "steps": steps,
        **fields,
    }


def test_an_image_drops_the_rules_that_cannot_be_about_it() -> None:
    image = read_plan(json.dumps(plan()))
    assert image
    kept, dropped = fitting(RULES, image)
    assert dropped["readers-spin"] == "the image has the patch vllm/0006"
    assert dropped["page-cache-counts-as-used"] == "the image has vllm 0.33.0"
    assert dropped["speculation-without-extra-buffer"] == "it is about sglang"
    assert "tile-too-large" in {rule.code for rule in kept}
    assert fitting(RULES, None) == (RULES, {})


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_record_of_our_own_plans_is_read(engine: str) -> None:
    path = SHIPPED.recipe(engine)
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
    planned = plan_image(load_recipe(path), load_lock(lock_path(path)), SHIPPED.toolkit, options)
    image = read_plan(json.dumps(record(planned)))
    assert image
    assert (image.engine, image.release, image.cuda) == (engine, planned.recipe.version, "13.0")
    assert {"torch", "triton", "nvidia-nccl-cu13", "flashinfer-python"} <= image.versions.keys()
    dropped = fitting(RULES, image)[1]
    assert dropped["nccl-hangs-on-aarch64"] == f"the image has nvidia-nccl-cu13 {image.versions['nvidia-nccl-cu13']}"
    assert {"ptxas-without-sm121", "shared-memory-too-small", "page-cache-counts-as-used"} <= dropped.keys()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": "gb10/plan/v2"}', "[" * 100_000, json.dumps(plan(steps="x"))[:-5]],
)
def test_what_is_no_plan_is_none(text: str) -> None:
    assert read_plan(text) is None


def test_a_plan_with_odd_parts_is_read_as_far_as_it_goes() -> None:
    found = read_plan(json.dumps(plan(steps=[1, {"kind": "layer", "files": "x"}], patches={"a": 1}, slim=[None])))
    assert found
    assert (found.versions, found.patches, found.slim) == ({"vllm": "0.33.0"}, frozenset(), ())


def test_an_image_of_others_is_known_by_what_is_installed() -> None:
    found = read_installed("/a/vllm-0.20.2+cu130.dist-info\n/a/Triton-3.5.1.dist-info\nls: no such file\n")
    assert found
    assert (found.engine, found.release, found.versions["triton"]) == ("vllm", "0.20.2+cu130", "3.5.1")
    assert read_installed("nothing") is None


def test_a_library_that_slimming_left_out_is_explained() -> None:
    rules = load_slim_rules()
    applied = [rule.name for rule in rules]
    assert left_out("libcusolverMg.so.12", applied, rules) == "libcusolverMg.so.12, rule cusolver-mg"
    assert left_out("libcusolverMg.so.12", [], rules) is None
    assert left_out("libcudart.so.13", applied, rules) is None
    assert left_out("libanything.so", applied, rules) is None


def test_a_look_that_is_not_whole_is_none_and_odd_rows_are_left_out() -> None:
    assert read_look("") is None
    assert read_look(look_text(()).rsplit("end", 1)[0]) is None
    odd = [("gpu", "-", "P0, x"), ("heat", "a\x00b", "1"), ("heat", "zone", "x"), ("cpu", "1", "cpu0", "-", "1")]
    found = read_look(look_text(odd))
    assert found
    assert (found.gpu, dict(found.heat), found.cores) == (None, {}, ())


SECRETS = {
    "hf_abcdefghijklmnopqrstuv": "token {}",
    "sk-proj-abcdefghijklmnopqrstuvwx": "--api-key {}",
    "swordfish-1": "HF_TOKEN={}",
    "hunter22": "https://me:{}@host/x",
    "hunter23": "ssh://me:{}@host:22",
    "abc.def-ghi": "Authorization: Bearer {}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl": "jwt {}",
    "AKIAABCDEFGHIJKLMNOP": "aws {}",
    "MIIEowIBAAKCAQEA": "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "correct-horse": '{{"password": "{}"}}',
    "12345678-9abc-4def": "api_key={}",
    "2024!hunter2": "password: {}",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_masked(secret: str) -> None:
    assert secret not in masked(SECRETS[secret].format(secret))


def test_variables_are_masked_by_their_names() -> None:
    given = {"HF_TOKEN": "x", "MY_API_KEY": "y", "NCCL_DEBUG": "INFO", "EMPTY_TOKEN": ""}
    assert masked_environment(given) == {
        "HF_TOKEN": "***",
        "MY_API_KEY": "***",
        "NCCL_DEBUG": "INFO",
        "EMPTY_TOKEN": "",
    }


def members(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        return {one.name: (tar.extractfile(one) or io.BytesIO()).read() for one in tar}


def test_a_bundle_is_bounded_masked_and_repeatable() -> None:
    line = b"HF_TOKEN=hf_abcdefghijklmnopqrstuv and text\n"
    files = {f"logs/{number}.log": line * 1000 for number in range(20)}
    content = bundle(files, most=60_000, each=9_000)
    found = members(content)
    assert content == bundle(files, most=60_000, each=9_000)
    assert sum(map(len, found.values())) <= 60_000
    assert max(map(len, found.values())) <= 9_000
    assert not any(b"hf_abc" in data for data in found.values())
    assert found["gb10-doctor/logs/0.log"].startswith(b"[the beginning is left out]\nHF_TOKEN=*** and")
    assert MOST >= EACH


def test_half_a_secret_at_the_cut_does_not_stay() -> None:
    secret = b"hf_" + b"s" * 200
    assert b"sss" not in last_lines_of(b"x\n" + secret + b"\nrest\n", 100)
    assert last_lines_of(b"x\n" + secret + b"\nrest\n", 100) == b"rest\n"


def test_a_bundle_is_written_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    digest = write_bundle(path, {"findings.json": "{}"})
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="cannot write"):
        write_bundle(tmp_path / "none/report.tar.gz", {})
    assert [one.name for one in tmp_path.iterdir()] == ["report.tar.gz"]


def test_names_in_a_bundle_stay_in_it() -> None:
    assert file_name("../../etc/passwd") == "_.._etc_passwd"
    assert file_name("me@spark-1 gb10-x-0") == "me@spark-1_gb10-x-0"


def test_two_speeds_are_two_groups_with_a_wide_gap() -> None:
    assert two_modes([15.8, 10.6, 15.9, 10.5, 15.7, 10.6]) == pytest.approx((10.566, 15.8), abs=0.01)
    assert two_modes([15.8, 15.2, 14.9, 15.5, 15.1, 14.7]) is None
    assert two_modes([10.0, 15.8, 15.9, 15.7, 15.6, 15.8]) is None  # one slow answer is no mode
    assert two_modes([10.0, 11.0, 12.0, 13.0, 14.0, 15.0]) is None
    assert two_modes([10.0, 16.0]) is None


def batch(*answered: AnswerKind, exchange: Exchange | None = None) -> CanaryBatch:
    canary = Canary(nonce="amber-1-opal", fact=Fact(ask="?", accept=("x",)))
    right = {AnswerKind.RIGHT}
    answers = tuple(
        CanaryAnswer(canary=canary, answered=one, nonce=one in right, fact=one in right) for one in answered
    )
    exchanges = (exchange or Exchange(status=200, steps=9, done=True),) * len(answered)
    return CanaryBatch(
        answers=answers, judgements=(Judgement(verdict=Verdict.OK),) * len(answered), exchanges=exchanges
    )


def test_what_canaries_show_of_an_endpoint() -> None:
    good, crossed = batch(*[AnswerKind.RIGHT] * 4), batch(*[AnswerKind.RIGHT] * 6, *[AnswerKind.CROSSED] * 2)
    assert outcomes_of(Probe(alone=good, together=batch(*[AnswerKind.RIGHT] * 8))) == {}
    assert [*outcomes_of(Probe(alone=good, together=crossed))] == ["garbage-together"]
    silent = batch(AnswerKind.FAILED, exchange=Exchange(status=200, error="the server was silent"))
    assert outcomes_of(Probe(alone=silent, together=silent, running=2.0))["stalled"].startswith("2 requests run")
    assert "stalled" not in outcomes_of(Probe(alone=silent, together=silent, running=0.0))
    for exchange in (Exchange(status=200, steps=1, error="cut off"), Exchange(status=200), Exchange(error="refused")):
        other = batch(AnswerKind.FAILED, exchange=exchange)
        assert "stalled" not in outcomes_of(Probe(alone=other, together=other, running=2.0))


def test_nearly_right_tuned_files_are_named() -> None:
    asked = "/x/configs/E=256,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json"
    there = (
        "E=256,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128, 128].json",
        "E=512,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json",
        "E=256,N=512,device_name=NVIDIA_H100.json",
        "README.md",
    )
    assert nearest_files(asked, there) == (
        f"{there[0]} means the same and is written otherwise",
        f"{there[1]} differs in E",
    )
    assert nearest_files("nonsense.json", there) == ()


def test_a_known_error_has_a_remedy_for_other_verbs() -> None:
    text = remedy_of(['Error response from daemon: could not select device driver "" with capabilities: [[gpu]]'])
    assert text
    assert "nvidia-ctk runtime configure" in text
    assert remedy_of(["all is well"]) is None


def test_logs_are_files_with_or_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "head.log"
    path.write_text(WORKER, encoding="utf-8")
    assert [read_log(text, None).name for text in (str(path), f"spark-2={path}")] == ["head.log", "spark-2"]
    for wrong, why in ((tmp_path / "none.log", "No such file or directory"), (tmp_path, None)):
        with pytest.raises(UsageError) as caught:
            read_log(str(wrong), None)
        assert caught.value.where == why


CASES: dict[str, Any] = yaml.safe_load((DATA / "cases.yaml").read_text(encoding="utf-8"))


@cache
def healthy() -> dict[str, str]:
    """Logs of runs without a fault: real ones, and made ones with each line that is nearly a sign."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DATA / "healthy").glob("*.log"))}
    near = {f"near {code}": case["log"]["miss"] for code, case in CASES.items() if "of" not in case.get("log", "of")}
    return {**files, **{name: f"{files['made-vllm']}{miss}\n" for name, miss in near.items()}}


@pytest.mark.parametrize("name", healthy())
def test_no_rule_is_seen_in_a_healthy_log(name: str) -> None:
    found = diagnosed(log=healthy()[name])
    assert [one.code for one in found.seen if one.rule or not name.startswith("near")] == []


def test_there_are_fifty_healthy_logs() -> None:
    assert len(healthy()) >= 50


def test_a_container_that_nobody_knows_makes_no_claim() -> None:
    container = ContainerState(name="c", host="h", command="vllm serve m -tp 2", environment={"NCCL_IB_HCA": "x"})
    assert diagnose(RULES, Evidence(containers=(container,))).seen == ()


def test_the_rules_are_in_the_checkout() -> None:
    assert {path.name for path in (ROOT / "recipes/doctor").glob("*.yaml")} >= {"memory.yaml", "fabric.yaml"}


@pytest.mark.parametrize(
    ("rates", "modes"),
    [
        ([10, 10, 13, 13], (10, 13)),
        ([10, 10, 12.9, 12.9], None),  # less than 1.3 times as fast
        ([10, 11, 14, 15], None),  # the gap is 3 times what is within the groups, not more
        ([10, 11, 14.5, 15], (10.5, 14.75)),
        ([10, 10, 13], None),
        ([], None),
    ],
)
def test_two_speeds_are_apart_by_a_gap_and_a_factor(rates: list[float], modes: tuple[float, float] | None) -> None:
    assert two_modes(rates) == modes
