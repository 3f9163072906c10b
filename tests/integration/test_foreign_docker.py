"""Dockers and containers of others: labels lead nowhere, odd answers are errors, and nothing reaches the terminal."""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gb10.containers.connection import asking, chosen_endpoint, probe
from gb10.serving.run.notes import note_nodes, read_notes
from tests.integration.docker_server import IMAGE, INFO, VERSION, FakeDocker, container, fake_docker
from tests.integration.services import called
from tests.quiet_handler import QuietHandler

pytestmark = pytest.mark.integration
KEY = "sk-secret-of-the-user"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path / "state/gb10/services"


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    with fake_docker(tmp_path) as found:
        monkeypatch.setenv("DOCKER_HOST", found.host)
        yield found


@pytest.fixture
def other(tmp_path: Path) -> Iterator[FakeDocker]:
    """The Docker of another node."""
    (tmp_path / "other").mkdir()
    with fake_docker(tmp_path / "other") as found:
        yield found


@contextmanager
def web(*, redirect: str = "") -> Iterator[tuple[int, list[str]]]:
    """A web server of this machine: its port, and what it was asked, each with the key that came."""
    asked: list[str] = []

    class Page(QuietHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization', 'no key')}")
            self.send_response(302 if redirect else 200)
            if redirect:
                self.send_header("Location", redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, asked
    server.shutdown()
    server.server_close()


VERBS = (("status",), ("status", "x"), ("stop", "x"), ("stop", "--all"), ("logs", "x"))


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("as_json", [False, True])
def test_nodes_that_only_labels_name_are_shown_and_not_asked(
    docker: FakeDocker, other: FakeDocker, verb: tuple[str, ...], as_json: bool
) -> None:
    nodes = ["localhost", other.host, "tcp://127.0.0.1:9", "no-such-host", "-oProxyCommand=touch PWN"]
    docker.containers = [container("x", hosts=json.dumps(nodes)), container("whole")]
    code, out, said = called(*verb, *(["--json"] if as_json else []))
    assert (code, other.asked) == (12 if verb == ("status",) else 2, [])  # the other one is not healthy
    assert "not looked at" in said
    if not as_json and verb[0] != "logs":
        assert other.host in out
    line = next(line for line in said.splitlines() if "--nodes" in line).removeprefix("hint: ")
    words = shlex.split(line)
    assert words[-1].split(",") == [*nodes[:4], "NODE"]
    assert words[1:3] == [verb[0], "x"]
    left = [one["Name"] for one in docker.containers]
    assert left == (["/gb10-x-0"] if verb == ("stop", "--all") else ["/gb10-x-0", "/gb10-whole-0"])
    if as_json:
        assert json.loads(out)


def test_nodes_that_the_user_named_or_noted_are_asked(docker: FakeDocker, other: FakeDocker, state: Path) -> None:
    nodes = ("localhost", other.host)
    docker.containers = [container("x", hosts=json.dumps(nodes))]
    other.containers = [container("x", 1, hosts=json.dumps(nodes))]
    code, out, _ = called("logs", "x", "--rank", "1", "--nodes", ",".join(nodes))
    assert (code, out) == (0, "loading\n")
    note_nodes(os.environ, "x", nodes)
    code, out, _ = called("status", "x")
    assert out.count("  rank ") == 2
    code, out, said = called("stop", "x")
    assert (code, out.count("gb10-x-"), docker.containers, other.containers) == (0, 2, [], []), said
    assert list(state.iterdir()) == []


def test_a_machine_that_is_reached_in_two_ways_is_one(docker: FakeDocker) -> None:
    note_nodes(os.environ, "x", (docker.host,))
    docker.containers = [container("x", hosts=json.dumps([docker.host]))]
    code, out, _ = called("status")
    assert (code, out.count("rank 0")) == (12, 1)
    assert docker.host in out


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_node_that_does_not_answer_is_a_row(docker: FakeDocker, tmp_path: Path, verb: tuple[str, ...]) -> None:
    gone = f"unix://{tmp_path}/gone.sock"
    note_nodes(os.environ, "x", ("localhost", gone))
    docker.containers = [container("x", hosts=json.dumps(["localhost", gone])), container("whole")]
    code, out, said = called(*verb)
    assert code == {"status": 12, "stop": 7, "logs": 0}[verb[0]], said
    if verb[0] != "logs":
        assert f"{gone} does not answer" in out
    if verb[0] == "stop":
        assert "gb10-x-0" in out
        assert "rm " in said  # how to forget a node that is gone for good
    assert len(read_notes(os.environ).notes) == 1
    docker.containers = []
    code, out, said = called("status")
    assert (code, f"{gone} does not answer" in out) == (7, True)


@pytest.mark.parametrize(
    "endpoint",
    ["http://" + "a" * 70 + ".x", "http://[", "http://\x1b]0;x\x07:1", "x", "", "http://a:99999", "file:///etc/passwd"],
)
def test_the_url_of_a_label_gives_no_traceback(docker: FakeDocker, endpoint: str) -> None:
    docker.containers = [container("x", endpoint=endpoint), container("y")]
    for verb in (("status",), ("doctor", "--probe")):
        code, out, said = called(*verb)
        assert code in (0, 12, 13), said  # 13: no GPU is here
        assert "Traceback" not in out + said
    assert "gb10-y-0" in called("status")[1]


def test_a_service_is_asked_on_its_own_node_and_a_redirect_is_not_followed(docker: FakeDocker) -> None:
    with web() as (there, elsewhere), web(redirect=f"http://127.0.0.1:{there}/stolen") as (port, asked):
        docker.containers = [container("x", endpoint=f"http://evil.invalid:{port}")]
        code, out, _ = called("status")
        assert (code, f"http://127.0.0.1:{port}" in out) == (12, True)
        called("doctor", "--probe")
    assert asked == ["/health no key", f"/v1/models Bearer {KEY}"]
    assert elsewhere == []


def test_a_key_goes_to_this_machine_or_to_a_url_that_the_user_named(
    docker: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is asked without it: here one by its address, whose name is another one than the label's."""
    monkeypatch.setattr("gb10.serving.checkup.collect.is_this_machine", lambda url: False)
    with web() as (port, asked):
        docker.containers = [container("x", endpoint=f"http://127.0.0.1:{port}")]
        _, out, _ = called("doctor", "--probe")
        assert asked == ["/v1/models no key"]
        assert f"it got no key: name it with --url http://127.0.0.1:{port}" in " ".join(out.split())
        called("doctor", "--probe", "--url", f"http://127.0.0.1:{port}")
    assert asked[1] == f"/v1/models Bearer {KEY}"


ODD_TEXT = "\x1b]0;PWNED\x07\x9b31m\r\x08\u202e"


@pytest.mark.parametrize(
    "verb", [*VERBS[:1], ("doctor",), ("logs", "x"), ("logs", "x", "--follow"), ("stop", "nothing"), ("stop", "--all")]
)
def test_no_control_character_of_a_label_or_a_log_reaches_the_terminal(
    docker: FakeDocker, verb: tuple[str, ...]
) -> None:
    labels = dict.fromkeys(("model", "runtime", "endpoint", "digest", "hosts"), f"{ODD_TEXT}x")
    docker.containers = [container("x", 0, **labels), container(f"y{ODD_TEXT}")]
    docker.containers[0]["State"]["Status"] = f"running{ODD_TEXT}"
    docker.containers.append(container("z", hosts=json.dumps(["localhost", f"h{ODD_TEXT}"])))
    docker.log = f"one\t{ODD_TEXT}two\x1b[31mred\x1b[0m\n".encode()
    code, out, said = called(*verb)
    assert code != 1
    assert [one for one in out + said if not one.isprintable() and one not in "\n\t"] == []
    if verb[0] == "logs":
        assert r"one	\x1b]0;PWNED\x07\x9b31m" in out
        assert "twored\n" in out


GOOD = container("x")


def changed(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


STATE = dict(GOOD["State"])
CONFIG = dict(GOOD["Config"])
ODD_CONTAINERS = {
    "State null": changed(State=None),
    "State list": changed(State=[]),
    "State text": changed(State="running"),
    "ExitCode text": changed(State={**STATE, "ExitCode": "abc"}),
    "ExitCode list": changed(State={**STATE, "ExitCode": []}),
    "ExitCode half": changed(State={**STATE, "ExitCode": 0.5}),
    "Status null": changed(State={**STATE, "Status": None}),
    "Status number": changed(State={**STATE, "Status": 3}),
    "Labels list": changed(Config={**CONFIG, "Labels": []}),
    "Labels of numbers": changed(Config={**CONFIG, "Labels": {"a": 1}}),
    "Config list": changed(Config=[]),
    "Config text": changed(Config="x"),
    "Cmd number": changed(Config={**CONFIG, "Cmd": 7}),
    "Env of numbers": changed(Config={**CONFIG, "Env": [1]}),
    "Entrypoint object": changed(Config={**CONFIG, "Entrypoint": {}}),
    "Name null": changed(Name=None),
    "Name number": changed(Name=5),
    "Id null": changed(Id=None),
    "Image list": changed(Image=[]),
    "HostConfig list": changed(HostConfig=[]),
    "Devices of texts": changed(HostConfig={"Devices": ["x"]}),
    "Ulimits number": changed(HostConfig={"Ulimits": 3}),
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe{}",
    "deep": b"[" * 100_000,
}
ODD_LISTS = {
    "an object": b"{}",
    "of texts": b'["a"]',
    "of null": b"[null]",
    "Created text": b'[{"Id": "a", "Created": "abc"}]',
    "no Id": b"[{}]",
    "Id number": b'[{"Id": 7}]',
    "null": b"null",
    "text": b'"x"',
}
ODD_INFO = {
    "no DockerRootDir": json.dumps({**INFO, "DockerRootDir": None}).encode(),
    "DriverStatus text": json.dumps({**INFO, "DriverStatus": "x"}).encode(),
    "DriverStatus of threes": json.dumps({**INFO, "DriverStatus": [["a", "b", "c"]]}).encode(),
    "OSType missing": json.dumps({**INFO, "OSType": None}).encode(),
    "a list": b"[]",
    "null": b"null",
}
ODD_VERSION = {
    "ApiVersion x.y": json.dumps({**VERSION, "ApiVersion": "x.y"}).encode(),
    "ApiVersion number": json.dumps({**VERSION, "ApiVersion": 1.45}).encode(),
    "ApiVersion missing": json.dumps({**VERSION, "ApiVersion": None}).encode(),
    "ApiVersion long": json.dumps({**VERSION, "ApiVersion": "1." + "9" * 5000}).encode(),
    "Version missing": json.dumps({**VERSION, "Version": None}).encode(),
    "a list": b"[]",
    "null": b"null",
}
ODD = [
    *(("/json", f"container: {name}", body) for name, body in ODD_CONTAINERS.items()),
    *(("/containers/json", f"list: {name}", body) for name, body in ODD_LISTS.items()),
    *(("/info", f"info: {name}", body) for name, body in ODD_INFO.items()),
    *(("/version", f"version: {name}", body) for name, body in ODD_VERSION.items()),
]


@pytest.mark.parametrize(("end", "body"), [(end, body) for end, _, body in ODD], ids=[name for _, name, _ in ODD])
def test_an_odd_answer_is_an_error_of_the_engine(docker: FakeDocker, end: str, body: bytes) -> None:
    docker.containers = [GOOD]
    docker.odd = {f"/{GOOD['Id']}/json" if end == "/json" else end: body}
    for verb in (("status",), ("stop", "x"), ("logs", "x"), ("doctor",), ("engine", "status")):
        code, out, said = called(*verb)
        assert "Traceback" not in out + said, said
        assert code in (7, *((0, 12, 13, 3) if verb[0] in ("doctor", "engine") else ())), (verb, out, said)


ODD_MACHINES: dict[str, dict[str, object]] = {
    "MemTotal text": {"MemTotal": "abc"},
    "MemTotal negative": {"MemTotal": -1},
    "no Architecture": {"Architecture": None},
    "SystemTime number": {"SystemTime": 5},
    "SystemTime far": {"SystemTime": "9999-12-31T23:59:59-23:59"},
    "Runtimes list": {"Runtimes": []},
}
IMAGE_ANSWER = {"Id": IMAGE, "Size": 1, "RootFS": {"Layers": []}, "Os": "linux", "Architecture": "arm64", "Config": {}}
ODD_IMAGES: dict[str, dict[str, object]] = {
    "RootFS null": {"RootFS": None},
    "Size text": {"Size": "big"},
    "Layers of numbers": {"RootFS": {"Layers": [1]}},
    "Labels list": {"Config": {"Labels": []}},
    "Env text": {"Config": {"Env": "A=b"}},
    "RepoTags text": {"RepoTags": "a:1"},
    "Os list": {"Os": []},
}


@pytest.mark.parametrize(
    ("end", "body"),
    [
        *(("/info", {**INFO, **change}) for change in ODD_MACHINES.values()),
        *(("/images/gb10/none:1/json", {**IMAGE_ANSWER, **change}) for change in ODD_IMAGES.values()),
        ("/images/gb10/none:1/json", []),
        ("/images/gb10/none:1/json", None),
    ],
    ids=[*ODD_MACHINES, *ODD_IMAGES, "a list", "null"],
)
def test_an_odd_machine_or_image_ends_run(docker: FakeDocker, end: str, body: object) -> None:
    docker.odd = {end: json.dumps(body).encode()}
    code, out, said = called("run", "qwen3-0.6b", "--image", "gb10/none:1", "--no-gpus")
    assert "Traceback" not in out + said, said
    assert code in (2, 7), said


DIGEST = {"digest": "sha256:" + "2" * 64}


@pytest.mark.parametrize(
    ("verb", "end", "body"),
    [
        (("cache", "ls"), "/system/df", []),
        (("cache", "ls"), "/system/df", {"BuildCache": 3}),
        (("cache", "ls"), "/system/df", {"BuildCache": [{"Size": "big"}]}),
        (("cache", "ls"), "/system/df", {"BuildCache": ["x"]}),
        (("cache", "ls"), "/info", {**INFO, "ID": None}),
        (("pull", "localhost:1/x:1"), "/distribution/localhost:1/x:1/json", []),
        (("pull", "localhost:1/x:1"), "/distribution/localhost:1/x:1/json", {"Descriptor": None}),
        (("pull", "localhost:1/x:1"), "/distribution/localhost:1/x:1/json", {"Descriptor": {"digest": 5}}),
        (("pull", "localhost:1/x:1"), "/distribution/localhost:1/x:1/json", {"Descriptor": DIGEST, "Platforms": 7}),
        (("pull", "localhost:1/x:1"), "/distribution/localhost:1/x:1/json", {"Descriptor": DIGEST, "Platforms": [7]}),
    ],
)
def test_an_odd_answer_of_a_cache_or_a_registry_is_no_traceback(
    docker: FakeDocker, verb: tuple[str, ...], end: str, body: object
) -> None:
    docker.odd = {end: json.dumps(body).encode()}
    code, out, said = called(*verb)
    assert "Traceback" not in out + said, said
    assert code in (0, 7, 10), said
    if code == 0:
        assert verb == ("cache", "ls")


@pytest.mark.parametrize("frames", [b"abc", b"\x01\0\0\0\xff\xff\xff\xff", b"\0" * 7, b"\x01\0\0\0\0\0\0\x05ab"])
@pytest.mark.parametrize("more", [(), ("--follow",)])
def test_a_log_in_broken_frames_is_no_traceback(docker: FakeDocker, frames: bytes, more: tuple[str, ...]) -> None:
    docker.containers = [GOOD]
    docker.odd = {"/logs": frames}
    code, out, said = called("logs", "x", *more)
    assert "Traceback" not in out + said, said
    assert code in (0, 7), said


def test_a_bug_of_ours_is_no_odd_answer(docker: FakeDocker) -> None:
    engine = probe(chosen_endpoint(os.environ), "user")
    with pytest.raises(KeyError), asking(engine) as sdk:
        sdk.api.containers(all=True)
        {}["a bug"]  # type: ignore[index]
