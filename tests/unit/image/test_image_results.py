"""What ``image`` prints: the digest and the pushed names on stdout, the rest for people; or one document."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gb10.cli.build import results
from gb10.cli.build.results import build_and_record, print_image, received_document
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.image.build.image_build import Verified
from gb10.image.build.proving import Received
from gb10.image.context import Context
from gb10.image.plan.values import Plan
from gb10.image.proof.arch_match import Verdict
from gb10.image.publish.publishing import Published
from gb10.image.recipe.arch import parse_arch
from tests.recipes import SHIPPED

IMAGE = Verified(
    digest="sha256:c",
    id="sha256:i",
    host="unix:///s",
    proof="/p",
    tags=("a:1", "a:2"),
    size=2_345_000_000,
    layers=7,
    verdict=Verdict(arch=parse_arch("12.1f"), root="a:1", judged=()),
    hit=False,
)
PUSHED = Published(reference="r/a:1", digest="sha256:m", config="sha256:c", there=3, moved=4, bytes=5_000_000)
THEIRS = Received(reference="r/base@sha256:b", read=True, findings=(), cannot_run=("x.so",))


def document(capsys: pytest.CaptureFixture[str], image: Verified, *published: Published) -> dict[str, object]:
    print_image(Reporter({}), image, published, as_json=True)
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_document_has_what_was_pushed_and_received_or_no_such_key(capsys: pytest.CaptureFixture[str]) -> None:
    plain = document(capsys, IMAGE)
    assert not {"published", "base", "usage"} & plain.keys()
    assert (plain["tags"], plain["layers"], plain["hit"]) == (["a:1", "a:2"], 7, False)
    pushed = document(capsys, replace(IMAGE, received=THEIRS), PUSHED)
    assert [one["digest"] for one in pushed["published"]] == ["sha256:m"]  # type: ignore[attr-defined]
    assert pushed["base"] == received_document(THEIRS)
    assert received_document(THEIRS)["cannot_run"] == ["x.so"]


@pytest.mark.parametrize(("hit", "state"), [(False, "built"), (True, "unchanged")])
def test_stdout_is_the_digest_and_what_was_pushed(hit: bool, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_image(Reporter({}), replace(IMAGE, hit=hit), [PUSHED], as_json=False)
    out, err = capsys.readouterr()
    assert out == "sha256:c\nr/a:1@sha256:m\n"
    assert f"{state}: 2.35 GB in 7 layers\n  a:1\n  a:2\n" in err.replace("gb10: ", "")
    assert "r/a:1: 4 layers pushed (5.0 MB), 3 present" in err


@pytest.mark.parametrize("timings", [False, True])
@pytest.mark.parametrize("hit", [False, True])
def test_a_build_is_kept_and_its_times_are_measured_when_asked(
    hit: bool, timings: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[object] = []

    class ImageBuild:
        def __init__(self, ctx: Context, plan: Plan, rebuild: object) -> None:
            self.ctx, self.rebuild = ctx, rebuild
            done.append(("measured", str(ctx.on_build) == "note"))

        def check_engine(self) -> None:
            done.append("engine")

        def check(self) -> None:
            done.append("check")

        def image(self, tag: str | None) -> Verified:
            done.append(tag)
            return replace(IMAGE, hit=hit)

    monkeypatch.setattr(results, "ImageBuild", ImageBuild)
    monkeypatch.setattr(results, "Meter", lambda *_: SimpleNamespace(note="note", read=lambda: "usage"))
    monkeypatch.setattr(results, "take_missing", lambda *_: done.append("cache"))
    monkeypatch.setattr(results, "keep_image_build", lambda _, __, usage: done.append(("kept", usage)))
    monkeypatch.setattr(results, "saved_build", lambda *_: "saved")
    monkeypatch.setattr(results, "usage_lines", lambda kept, **_: [f"table of {kept}"])
    ctx = Context(env={}, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED)
    plan = cast("Plan", SimpleNamespace(key="k"))
    _, verified, kept = build_and_record(ctx, plan, (), "mine:1", timings=timings)
    steps: list[Any] = [("measured", timings), "engine", "cache", "check", "mine:1"]
    assert done == steps + ([] if hit else [("kept", "usage" if timings else None)])
    assert (verified.hit, kept) == (hit, "saved" if timings else None)
    assert ("table of saved" in capsys.readouterr().err) is timings
