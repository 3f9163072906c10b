"""A rank that ends: which one is named, with which line of its log, and what is said of the rest."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests

from gb10.containers.docker_containers import ContainerState
from gb10.containers.images import ImageInfo
from gb10.core.reporter import Reporter
from gb10.errors import EngineError, Gb10Error, ServeError, UsageError
from gb10.serving.run import running, watching
from gb10.serving.run.existing import Found
from gb10.serving.run.fleet import Fleet
from gb10.serving.run.service import Service
from gb10.serving.run.watching import (
    AWAY,
    GUARDED,
    LONGEST,
    SHOWN,
    SILENT,
    Death,
    Watched,
    cause_of,
    died,
    ending_of,
    error_line,
    guard_report,
)

TRACE = ["INFO starts", "  File x", "ValueError: no such head", "RuntimeError: see root cause above", "bye"]
GUARD = ["gb10: earlier", "gb10: the memory guard ends the server", "odd", "gb10: free 1 GiB", ""]


@pytest.mark.parametrize(
    ("lines", "cause", "error"),
    [
        (TRACE, "ValueError: no such head", "ValueError: no such head"),
        (["starts", "  waits  ", " "], "waits", None),
        (["", " "], None, None),
        ([], None, None),
        (["cannot open " + "x " * LONGEST], "cannot open " + "x " * 143 + "…", "cannot open " + "x " * 143 + "…"),
    ],
)
def test_the_line_that_tells_why_a_server_ended(lines: list[str], cause: str | None, error: str | None) -> None:
    assert (cause_of(lines), error_line(lines)) == (cause, error)


def test_the_memory_guards_own_lines_are_its_report() -> None:
    assert guard_report(GUARD) == ["gb10: the memory guard ends the server", "gb10: free 1 GiB"]
    assert guard_report(GUARD + GUARD[1:2]) == ["gb10: the memory guard ends the server"]  # the last end counts
    assert guard_report(TRACE) == []


@pytest.mark.parametrize(
    ("code", "memory", "words"),
    [
        (99, True, "the memory guard ended it"),
        (137, True, "it ran out of the memory that its container may use"),
        (137, False, "it was ended by SIGKILL"),
        (1, False, "it ended with code 1"),
        (0, False, "it ended with code 0"),
    ],
)
def test_an_exit_code_in_words(code: int, memory: bool, words: str) -> None:
    assert ending_of(code, out_of_memory=memory) == words


def state(status: str = "running", ended: str = "", code: int = 0, **more: Any) -> ContainerState:  # noqa: ANN401
    return ContainerState(id="i", name="n", image="m", status=status, labels={}, ended=ended, code=code, **more)


def silent(text: str) -> EngineError:
    error = EngineError("m", where=text)
    error.__cause__ = requests.Timeout()
    return error


class Nodes:
    """Two nodes; what their engines answer, the logs, and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.answers: dict[str, ContainerState | Gb10Error | None] = {"a": state(), "b": state()}
        self.lines: dict[str, list[str] | Gb10Error] = {"a": [], "b": []}
        monkeypatch.setattr(watching, "time", SimpleNamespace(time=lambda: self.now))
        monkeypatch.setattr(watching, "container_state", lambda host, _: self.given(self.answers[host]))
        monkeypatch.setattr(watching, "tail_of", lambda host, _, count: self.given(self.lines[host]))
        fleet: Any = {"a": "a", "b": "b"}
        self.kept: list[Mapping[str, Any]] = []
        containers = {"a": "i", "b": "i"}
        self.watched = Watched(name="s", fleet=fleet, containers=containers, ahead={"a": 100.0}, keep=self.kept.append)

    @staticmethod
    def given(answer: Any) -> Any:  # noqa: ANN401
        if isinstance(answer, Gb10Error):
            raise answer
        return answer


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    return Nodes(monkeypatch)


def test_the_rank_that_ended_first_is_named_by_the_clock_of_this_machine(nodes: Nodes) -> None:
    assert nodes.watched.look() is None
    nodes.answers["b"] = state("exited", "1970-01-01T00:16:00Z", 1)
    found = nodes.watched.look()
    assert found == Death(rank=1, host="b", how="it ended with code 1", at=960.0, code=1)
    nodes.answers["a"] = state("exited", "1970-01-01T00:17:30Z", 137, out_of_memory=True)
    found = nodes.watched.look()
    assert found is not None
    assert (found.rank, found.at, found.code) == (0, 950.0, 137)  # its clock is 100 s ahead
    nodes.answers = {"a": None, "b": state()}
    found = nodes.watched.look()
    assert found is not None
    assert (found.rank, found.how) == (0, "its container was removed, by stop or by another watch")


@pytest.mark.parametrize(("error", "patience"), [(EngineError("m", where="refused"), AWAY), (silent("busy"), SILENT)])
def test_a_node_is_lost_when_it_does_not_answer_for_long(nodes: Nodes, error: EngineError, patience: float) -> None:
    nodes.watched.look()
    nodes.answers["b"] = error
    nodes.now += patience
    assert nodes.watched.look() is None
    nodes.now += 1
    found = nodes.watched.look()
    assert found is not None
    assert (found.rank, found.lost, found.at) == (1, True, 1000.0)
    assert found.how == f"its node does not answer: {error.where}"
    assert nodes.watched.explained(found) == found
    nodes.answers["b"] = state()
    assert nodes.watched.look() is None
    nodes.answers["b"] = error
    assert nodes.watched.look() is None  # it was heard a moment ago


def test_a_death_is_explained_by_the_log(nodes: Nodes) -> None:
    death = Death(rank=1, host="b", how="it ended with code 1", at=1.0, code=1)
    nodes.lines["b"] = [*TRACE, *(f"line {number}" for number in range(SHOWN)), " "]
    found = nodes.watched.explained(death)
    assert found.cause == "ValueError: no such head"
    assert found.lines == tuple(f"line {number}" for number in range(SHOWN))
    assert found.report == ()
    nodes.lines["b"] = [*TRACE, *GUARD]
    found = nodes.watched.explained(Death(rank=1, host="b", how="", at=1.0, code=GUARDED))
    assert found.report == ("gb10: the memory guard ends the server", "gb10: free 1 GiB")
    assert found.lines == (*TRACE[1:], "gb10: earlier", "odd")
    nodes.lines["b"] = EngineError("gone")
    assert nodes.watched.explained(death) == death


def test_a_death_shows_no_secret_of_the_log(nodes: Nodes) -> None:
    nodes.watched.secrets = ("the-word-of-this-hub",)
    token = f"hf_{'aB3dE5fG7h' * 3}xyzw"
    last = f"ValueError: no entry with {token} nor the-word-of-this-hub at https://ann:Sw0rdfish77@models.example/x"
    nodes.lines["b"] = [f"args: --api-key Tr0ub4dor-and-3 HF_TOKEN={token}", last]
    found = nodes.watched.explained(Death(rank=1, host="b", how="it ended with code 1", at=1.0, code=1))
    assert found.lines[0] == "args: --api-key *** ***"
    shown = str(died("s", found, {}).where)
    assert found.cause == found.lines[1]
    assert "ValueError: no entry with ***" in shown
    for one in (token, "the-word-of-this-hub", "Sw0rdfish77", "Tr0ub4dor"):
        assert one not in f"{shown}{found}"


def test_a_first_request_that_fails_shows_no_secret_of_the_answer_or_the_log(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(running, "tail_of", lambda host, _, count: nodes.lines[host])
    nodes.watched.secrets = ("the-word-of-this-hub",)
    nodes.lines["a"] = ["ValueError: not with the-word-of-this-hub"]
    error = running._failed(nodes.watched, "m", "401: no the-word-of-this-hub, no hf_" + "aB3dE5fG7h" * 3)
    assert error.where == "401: no ***, no ***\nValueError: not with ***"
    nodes.lines["a"] = [f"{'x ' * 40}the-word-of-this-hub is wrong"]
    assert running._late(nodes.watched, 5).where == f"the last line of its log: {'x ' * 40}*** is wrong"


def test_logs_of_all_ranks_are_kept_with_the_reason_where_there_is_none(nodes: Nodes) -> None:
    nodes.lines = {"a": ["x"], "b": EngineError("no answer")}
    assert nodes.watched.logs() == {"rank 0 on a": ["x"], "rank 1 on b": ["no answer"]}
    nodes.watched.keep_logs()
    del nodes.watched.containers["b"]
    nodes.watched.keep_logs()
    nodes.watched.containers.clear()
    nodes.watched.keep_logs()
    assert nodes.kept == [{"rank 0 on a": ["x"], "rank 1 on b": ["no answer"]}, {"rank 0 on a": ["x"]}]


@pytest.mark.parametrize(
    ("death", "left", "where", "hint"),
    [
        ({"cause": "it broke", "lines": ("it broke",)}, (), "it broke", None),
        ({"cause": "x", "lines": ("y",)}, (), "x\nthe last lines of its log:\n  y", None),
        ({"cause": "x", "remedy": "do this"}, (), "x", "do this"),
        ({"cause": "x", "code": GUARDED, "report": ("gb10: r",)}, (), "gb10: r", "let it use less memory: --set gpu_"),
        ({}, ("a", "b"), "not ended on a: m", "end what is left: ./build.py stop s"),
        ({}, (), None, None),
    ],
)
def test_the_error_of_a_service_whose_rank_ended(
    death: Mapping[str, Any], left: tuple[str, ...], where: str | None, hint: str | None
) -> None:
    error = died("s", Death(rank=1, host="b", how="H", at=1.0, **death), {host: EngineError("m") for host in left})
    assert isinstance(error, ServeError)
    assert error.message == "s: rank 1 on b ended first: H; all ranks are stopped"
    assert error.where == where
    assert (error.hint or "").startswith(hint or "")
    assert bool(error.hint) == bool(hint)


def found(host: str, *, runs: bool = True, digest: str = "d") -> Found:
    one = state("running" if runs else "exited", started="2026-11-29T01:02:03.5Z")
    return cast("Found", SimpleNamespace(host=host, state=one, labels=SimpleNamespace(digest=digest)))


@pytest.mark.parametrize(
    ("own", "replace", "said", "ended"),
    [
        ([], False, "", {"a": [], "b": []}),
        ([found("a", runs=False)], False, "removing 1 container of an earlier run", {"a": ["i"], "b": []}),
        (
            [found("a", runs=False), found("b", runs=False)],
            False,
            "removing 2 containers of an earlier run",
            {"a": ["i"], "b": ["i"]},
        ),
        ([found("a")], False, "1 of its 2 ranks run, so it is started anew", {"a": ["i"], "b": []}),
        ([found("a"), found("b")], True, "removing 2 containers", {"a": ["i"], "b": ["i"]}),
        ([found("a", digest="other")], True, "removing 1 container", {"a": ["i"], "b": []}),
        ([found("a"), found("b")], False, None, None),
        ([found("a", digest="other")], False, None, None),
        ([found("a"), found("b", digest="other", runs=False)], False, "1 of its 2 ranks run", {"a": ["i"], "b": ["i"]}),
    ],
)
def test_what_a_former_run_left_is_removed_unless_it_serves(  # noqa: PLR0917 - a row
    own: list[Found],
    replace: bool,
    said: str | None,
    ended: dict[str, list[str]] | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone: list[object] = []

    def end_all(_: object, identities: object) -> dict[str, Gb10Error]:
        gone.append(identities)
        return {}

    monkeypatch.setattr(running, "end_all", end_all)
    service = cast("Service", SimpleNamespace(name="m", digest="d", ranks=(1, 2)))
    fleet = cast("Fleet", {"a": None, "b": None})
    if said is None:
        with pytest.raises(UsageError, match="m runs already, with other settings") as caught:
            running._clear(Reporter({}), fleet, service, own, replace=replace)
        assert (caught.value.where or "").splitlines()[0] == "a: n, since 2026-11-29T01:02:03"
        assert gone == []
    else:
        running._clear(Reporter({}), fleet, service, own, replace=replace)
        told = capsys.readouterr().err
        assert (said in told, bool(said), gone) == (True, bool(told), [ended])
        monkeypatch.setattr(running, "end_all", lambda *_: {"a": EngineError("it does not go")})
        with pytest.raises(EngineError, match="it does not go"):
            running._clear(Reporter({}), fleet, service, own, replace=replace)


def test_a_variable_of_the_image_that_does_not_count_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"PYTORCH_ALLOC_CONF": "a:1,expandable_segments:True"}
    rank = SimpleNamespace(container=SimpleNamespace(environment=environment))
    service = cast("Service", SimpleNamespace(ranks=[rank]))

    def said(*texts: str) -> list[str]:
        images = {name: cast("ImageInfo", SimpleNamespace(environment=texts)) for name in ("a", "b")}
        running._say_replaced(Reporter({}), service, images)
        return capsys.readouterr().err.splitlines()

    (line,) = said("PYTORCH_ALLOC_CONF=b:2", "OTHER=b:2")
    assert "the image's PYTORCH_ALLOC_CONF=b:2 does not count: this service sets a:1" in line
    assert said("PYTORCH_ALLOC_CONF=expandable_segments:True") == [], "the service sets that, too"
    assert said("PYTORCH_CUDA_ALLOC_CONF=b:2") == [], "the service does not set it"
