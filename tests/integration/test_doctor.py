"""``doctor`` for real: its script on machines that are folders, real containers, real ssh, a real endpoint."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gb10.containers.connection import Engine, client
from gb10.containers.docker_containers import put_files
from gb10.containers.reach import connect_or_start
from gb10.core.store import open_store
from gb10.image.plan.catalog import ROOT
from gb10.serving.checkup.collect import collect_host
from gb10.serving.cluster.fact_reading import read_facts
from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.host_state import Machine, read_look
from gb10.serving.doctor.image_record import PLACE
from gb10.serving.doctor.log_scan import BLOCK, scan_log
from gb10.serving.doctor.rule_files import load_doctor_rules
from tests.cluster_trees import pair, write_spark
from tests.doctor_trees import facts_text, look_text, looked, whole, write_look
from tests.hang import PATIENCE, until
from tests.integration.machines import machines
from tests.integration.nodes import remove_containers
from tests.integration.openai_server import BATCH, State, serving
from tests.integration.services import CPU, IMAGE, called, failed, load, ran, recipe, stand_in_image
from tests.unit.serving.test_doctor import plan

pytestmark = pytest.mark.integration
CASES = yaml.safe_load((ROOT / "tests/unit/data/doctor/cases.yaml").read_text(encoding="utf-8"))
HOSTS = {code: case["host"] for code, case in CASES.items() if "host" in case}
SCHEMA = json.loads((ROOT / "docs/schemas/doctor-v1.schema.json").read_text(encoding="utf-8"))
RULES = load_doctor_rules()


def machine_of_folder(root: Path, case: dict[str, Any]) -> Machine:
    """A machine whose fast facts come from the real script, on a folder."""
    write_spark(root, replace(pair()[0], **case.get("spark", {})))
    write_look(root, case.get("look", ()))
    facts = read_facts(facts_text(case.get("kernel"), case.get("memory", {}), case.get("spark", {})))
    text = looked(root)
    now = read_look(text)
    assert facts
    assert now, text
    expected = read_look("".join("\t".join(row) + "\n" for row in whole(case.get("look", ()))))
    assert now == expected
    return Machine(host="spark-1", facts=facts, look=now)


@pytest.mark.slow
def test_the_script_reads_what_the_rules_judge(tmp_path: Path) -> None:
    """Each machine of the samples as a folder: the real script says of it what the sample says."""
    asked = [(code, kind, HOSTS[code][kind]) for code in HOSTS for kind in ("hit", "miss")]

    def codes(one: tuple[str, str, dict[str, Any]]) -> set[str]:
        machine = machine_of_folder(tmp_path / f"{one[0]}-{one[1]}", one[2])
        return {seen.code for seen in diagnose(RULES, Evidence(machines=(machine,))).seen}

    with ThreadPoolExecutor(4) as pool:
        for (code, kind, _), found in zip(asked, pool.map(codes, asked), strict=True):
            assert (code in found) is (kind == "hit"), (code, kind, found)


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_shells_agree(shell: str, tmp_path: Path) -> None:
    both = []
    for place, given in (("a", ()), ("b", (f"/bin/{shell}",))):
        root = write_spark(tmp_path / place, pair()[0])
        both.append(looked(write_look(root, HOSTS["readers-spin"]["hit"]["look"]), *given))
    assert both[0] == both[1]


def test_this_machine_is_looked_at() -> None:
    machine = collect_host("localhost")
    assert len(machine.look.cores) == os.cpu_count()
    assert machine.look.page == os.sysconf("SC_PAGE_SIZE")


def test_many_lines_without_trouble_make_no_finding() -> None:
    """How long fifty megabytes of them take, benches/doctor.py tells."""
    line = (
        "(APIServer pid=1) INFO 11-24 08:02:{:02} [loggers.py:289] Engine 000: Avg prompt throughput: {}.3 tokens/s, "
    )
    rest = "Avg generation throughput: 38.8 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.3%\n"
    block = "".join(line.format(at % 60, at) + rest for at in range(5000)).encode()[:BLOCK]
    scan = scan_log([block] * 5, RULES)
    assert (scan.size, scan.hits, scan.trouble) == (len(block) * 5, (), ())


def test_a_machine_that_shows_nothing_makes_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GB10_PROBE_ROOT", str(tmp_path))
    found = doctor("--host", "localhost")
    assert found["findings"] == []
    rows = {one["what"]: one for one in found["unchecked"]}
    assert {"GPU", "network", "memory", "use of the cores", "temperatures"} <= set(rows)
    assert rows["network"] == {
        "what": "network",
        "reason": "nothing in /sys/class/net can be read",
        "where": "localhost",
    }
    assert found["exit"] == 13
    assert doctor("--host", "localhost", "--allow-unchecked")["exit"] == 0


def test_an_error_that_was_found_wins_over_what_was_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose kernel refuses RDMA, of which nothing else can be read."""
    monkeypatch.setenv("GB10_PROBE_ROOT", str(tmp_path))
    for name, text in (("proc/sys/kernel/osrelease", "7.0.0-1019-nvidia"), ("dev/infiniband/rdma_cm", "")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    found = doctor("--host", "localhost")
    assert [one["level"] for one in found["findings"]] == ["error"]
    assert "GPU" in {one["what"] for one in found["unchecked"]}
    assert found["exit"] == 12


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    store = open_store(os.environ)
    found = connect_or_start(os.environ, store)
    load(found, stand_in_image(store, tmp_path_factory.mktemp("image")))
    return found


@pytest.fixture
def _nothing_left(engine: Engine) -> Iterator[None]:
    yield
    remove_containers(engine)


def doctor(*arguments: str) -> dict[str, Any]:
    """The document, whatever the exit code is."""
    code, printed, _ = called("doctor", *arguments, "--json")
    found: dict[str, Any] = json.loads(printed)
    jsonschema.validate(found, SCHEMA)
    return {**found, "exit": code}


@pytest.mark.usefixtures("_nothing_left")
def test_a_running_service_and_a_container_that_died(engine: Engine, tmp_path: Path) -> None:
    ran("run", str(recipe(tmp_path, "small")), *CPU, "--detach")
    died = "echo 'OSError: libcusolverMg.so.12: cannot open shared object file: No such file'; exit 1"
    record = json.dumps(plan(slim=[{"name": "cusolver-mg"}])).encode()
    with closing(client(engine)) as sdk:
        container = sdk.containers.create(
            IMAGE, ["sh", "-c", died], labels={"io.github.gb10.service": "dead"}, name="dead"
        )
        for identity in ("gb10-small-0", str(container.id)):
            put_files(engine, identity, {PLACE: (record, 0o644)})
        container.start()
        container.wait(timeout=PATIENCE)
    bundle = tmp_path / "report.tar.gz"
    found = doctor("--bundle", str(bundle))
    shown = {one["name"]: one for one in found["containers"]}
    assert shown["gb10-small-0"]["release"] == shown["dead"]["release"] == "0.33.0"
    assert shown["dead"]["dropped"]["readers-spin"] == "the image has the patch vllm/0006"
    (finding,) = (one for one in found["findings"] if one["place"] == "log")
    assert (finding["code"], finding["where"], finding["first"]) == ("library-left-out", "localhost dead", True)
    assert finding["value"] == "libcusolverMg.so.12, rule cusolver-mg"
    assert finding["time"]
    assert found["exit"] == 12
    assert found["bundle"]["sha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(bundle.read_bytes()), mode="r:gz") as tar:
        names = {one.name.removeprefix("gb10-doctor/") for one in tar}
    assert {"README", "findings.json", "machines/localhost.json", "logs/localhost_dead.log"} <= names
    assert {"plans/localhost_dead.json", "containers/localhost-dead.json"} <= names


@pytest.mark.usefixtures("_nothing_left")
def test_a_container_of_others_is_known_by_what_is_installed(engine: Engine) -> None:
    site, name = "/usr/local/lib/python3.12/dist-packages", "E=128,N=704,device_name=NVIDIA_GB10"
    warned = (
        f"Using default MoE config. Performance might be sub-optimal! Config file not found at {site}/c/{name}.json"
    )
    script = (
        f"mkdir -p {site}/vllm-0.19.1.dist-info {site}/c; : >'{site}/c/{name},dtype=fp8_w8a8.json'; "
        f"echo '{warned}'; sleep 60"
    )
    with closing(client(engine)) as sdk:
        sdk.containers.run(IMAGE, ["sh", "-c", script], name="theirs", detach=True)
        until(lambda: bool(sdk.containers.get("theirs").logs()), "its log")
        document = doctor()
    (found,) = (one for one in document["containers"] if one["name"] == "theirs")
    (note,) = (one["note"] for one in document["findings"] if one["code"] == "tuned-file-without-dtype")
    assert note == f"{name},dtype=fp8_w8a8.json differs in type"
    assert (found["engine"], found["release"], found["plan"]) == ("vllm", "0.19.1", None)
    assert "tile-too-large" not in found["dropped"]
    assert "speculation-without-extra-buffer" in found["dropped"]


@pytest.mark.slow
def test_another_machine_by_ssh_and_one_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with machines(open_store(os.environ), tmp_path) as two, two.listening():
        monkeypatch.setenv("PATH", two.env["PATH"])
        host = two.machines[0].host
        found = doctor("--host", host, "--host", "ssh://root@127.0.0.1:1/x")
    assert found["machines"] == [host]
    (lost,) = (one for one in found["unchecked"] if one["what"] == "machine")
    assert lost["where"] == "ssh://root@127.0.0.1:1/x"
    assert lost["reason"].startswith("ssh://root@127.0.0.1:1/x cannot be read")
    assert "\n" not in lost["reason"]


def test_no_machine_that_can_be_read_is_an_error_of_its_own() -> None:
    assert doctor("--host", "ssh://root@127.0.0.1:1/x")["exit"] == 7


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, State]]:
    with serving(rate=400) as running:
        yield running


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("good", None),
        (BATCH, "broken-text"),
        pytest.param("garbage: word salad", "broken-text", marks=pytest.mark.slow),
    ],
)
def test_an_endpoint_is_asked(server: tuple[str, State], model: str, code: str | None) -> None:
    found = doctor("--probe", "--url", server[0], "--model", model)
    assert [one["code"] for one in found["findings"]] == ([code] if code else [])
    assert found["exit"] == (12 if code else 0)


def test_an_endpoint_that_is_down_is_one_sentence() -> None:
    found = doctor("--probe", "--url", "http://127.0.0.1:9")
    assert found["findings"] == []
    (row,) = found["unchecked"]
    assert (row["what"], row["where"], found["exit"]) == ("endpoint", "http://127.0.0.1:9", 13)
    assert row["reason"].startswith("the endpoint does not answer")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "http://x"], "--url and --model are for --probe"),
        (["--plan", "x"], "--plan is for --log"),
        (["--log", "/nonexistent"], "cannot read /nonexistent"),
        (["--log", "a=build.py", "--log", "a=Makefile"], "two logs are called 'a'"),
        (["--log", "build.py", "--plan", "build.py"], "is no plan.json"),
        (["--host", "@nowhere"], "no cluster 'nowhere'"),
    ],
)
def test_wrong_use_is_one_error(arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    code, said = failed("doctor", *arguments)
    assert code == 2
    assert words in said


def test_logs_of_two_nodes_from_files_and_stdin(tmp_path: Path) -> None:
    head, worker = tmp_path / "head.log", tmp_path / "worker.log"
    head.write_text("INFO 11-24 08:00:00 [x.py:1] up\nERROR 11-24 08:05:10 [x.py:1] RuntimeError: peer is gone\n")
    worker.write_text("WARNING 11-24 08:05:01 [x.py:1] NCCL WARN ibv_reg_mr_iova2: Cannot allocate memory\n")
    found = doctor("--log", f"head={head}", "--log", f"worker={worker}")
    assert [(one["where"], one["first"]) for one in found["findings"]] == [("worker", True), ("head", False)]
    assert found["findings"][0]["code"] == "rdma-registration-fails"
    assert found["machines"] == []
    assert look_text(()).endswith("end\t\n")
