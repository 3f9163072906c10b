"""Plans that are shown may be kept ones: the same plan, of the same files and settings, or it is made anew."""

import io
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.core.inputs_digest import inputs_digest
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.context import Context, open_context
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import ARCHES
from gb10.image.request import kept_plan
from gb10.image.request.kept_plan import LARGEST, SECTION, Values, planned
from gb10.image.request.planning import Request, make_plan

PLAIN = Request(engine="vllm", arch="12.1f")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({"GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}, verbosity=-1)


def kept(ctx: Context) -> list[Path]:
    return sorted((ctx.store.root / SECTION).glob("*"))


class Maker:
    """Counts the plans that are made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, ctx: Context, request: Request) -> Plan:
        self.made += 1
        return make_plan(ctx, request)


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Maker:
    maker = Maker()
    monkeypatch.setattr(kept_plan, "_made", maker)
    return maker


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("arch", ARCHES, ids=str)
def test_a_kept_plan_is_the_one_that_is_made(ctx: Context, engine: str, arch: object) -> None:
    request = Request(engine=engine, arch=str(arch))
    first, made = planned(ctx, request, shown=True), make_plan(ctx, request)
    assert len(kept(ctx)) == 1
    again = planned(ctx, request, shown=True)
    assert first == again == made
    assert again.document() == made.document()
    assert again.key == made.key


def test_it_is_made_once_and_what_builds_makes_it_anew(ctx: Context, maker: Maker) -> None:
    for _ in range(3):
        planned(ctx, PLAIN, shown=True)
    assert maker.made == 1
    planned(ctx, PLAIN, shown=False)
    assert maker.made == 2


class Acts:
    """What a pickle of others would do when it is read."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, ("made-by-a-kept-plan",)


@pytest.mark.parametrize(
    "damage",
    [
        *("empty", "cut", "changed", "of other inputs", "no pickle", "no plan", "a pickle that acts", "huge"),
        *("ends at once", "a module that is gone", "a class that is gone", "a class with other fields"),
    ],
)
def test_a_damaged_one_is_made_anew(ctx: Context, maker: Maker, damage: str) -> None:
    plan = planned(ctx, PLAIN, shown=True)
    (place,) = kept(ctx)
    whole = place.read_bytes()
    head, _, content = whole.partition(b"\n")
    others = {
        "no pickle": b"{}",
        "no plan": pickle.dumps(plan.steps),
        "a pickle that acts": pickle.dumps(Acts()),
        "ends at once": b"",
        "a module that is gone": b"cgb10.image.gone\nPlan\n.",
        "a class that is gone": b"cgb10.image.plan.values\nGone\n.",
        "a class with other fields": b"cgb10.image.plan.values\nPlan\n(I1\ntR.",
    }
    place.write_bytes(
        {
            "empty": b"",
            "cut": whole[:-100],
            "changed": head + b"\n" + content.replace(plan.key.encode(), b"f" * 64),
            "of other inputs": b"0" * 64 + head[64:] + b"\n" + content,
            "huge": whole + b" " * LARGEST,
            **{name: kept_plan._head(head[:64].decode(), other) + other for name, other in others.items()},
        }[damage]
    )
    assert planned(ctx, PLAIN, shown=True) == plan
    assert maker.made == 2
    assert place.read_bytes() == whole
    assert not Path("made-by-a-kept-plan").exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("gb10.image.context", "open_context"),
        ("gb10.core.files", "os.system"),
        ("gb10.core.files", "Path"),
        ("gb10.errors", "UsageError"),
        ("gb10.cli.app", "App"),
    ],
)
def test_a_kept_plan_names_only_values_of_ours(module: str, name: str) -> None:
    with pytest.raises(pickle.UnpicklingError):
        Values(io.BytesIO()).find_class(module, name)


def test_another_setting_and_another_file_make_it_anew(
    ctx: Context, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(ctx, PLAIN, shown=True)
    planned(replace(ctx, env={**ctx.env, "GB10_JOBS": "3"}), PLAIN, shown=True)
    assert maker.made == 2
    monkeypatch.setattr(kept_plan, "inputs_digest", lambda *given: f"{inputs_digest(*given)}0")  # as of other files
    planned(ctx, PLAIN, shown=True)
    assert (maker.made, len(kept(ctx))) == (3, 1)


@pytest.mark.parametrize("doubt", ["others may write it", "a link"])
def test_one_that_another_user_may_have_written_is_made_anew(ctx: Context, maker: Maker, doubt: str) -> None:
    plan = planned(ctx, PLAIN, shown=True)
    (place,) = kept(ctx)
    if doubt == "a link":
        place.symlink_to(place.rename(ctx.store.root / "elsewhere"))
    else:
        place.chmod(0o666)
    assert planned(ctx, PLAIN, shown=True) == plan
    assert maker.made == 2
    assert (place.is_symlink(), place.stat().st_mode & 0o777) == (False, 0o644)
    planned(ctx, PLAIN, shown=True)
    assert maker.made == 2


def test_one_kept_under_a_loose_umask_is_found(ctx: Context, maker: Maker) -> None:
    before = os.umask(0)
    try:
        planned(ctx, PLAIN, shown=True)
    finally:
        os.umask(before)
    planned(ctx, PLAIN, shown=True)
    assert maker.made == 1


def test_a_file_that_changes_while_a_plan_is_made(
    ctx: Context, maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipes").mkdir()
    file = tmp_path / "recipes/a.yaml"
    file.write_text("as before", encoding="utf-8")
    monkeypatch.setattr("gb10.core.inputs_digest.ROOT", tmp_path)

    def edited(ctx: Context, request: Request) -> Plan:
        file.write_text("something else", encoding="utf-8")
        return maker(ctx, request)

    monkeypatch.setattr(kept_plan, "_made", edited)
    planned(ctx, PLAIN, shown=True)
    file.write_text("as before", encoding="utf-8")
    monkeypatch.setattr(kept_plan, "_made", maker)
    planned(ctx, PLAIN, shown=True)
    assert maker.made == 2


@pytest.mark.parametrize("words", [("--save", "mine.yaml"), ("--dockerfile",), ("--bake",)])
def test_what_builds_may_come_of_takes_no_kept_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    seen: list[bool] = []

    def look(ctx: Context, request: Request, *, shown: bool) -> Plan:
        seen.append(shown)
        raise UsageError("enough")

    monkeypatch.setattr("gb10.cli.build.plan.planned", look)
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path))
    assert (main(["plan", *words]), main(["plan"]), seen) == (2, 2, [False, True])


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "recipes/images/vllm.yaml"},
        {"overlay": Path("tests")},
        {"mods": ("fixed-memory",)},
    ],
    ids=str,
)
def test_what_more_than_the_checkout_decides_is_not_kept(ctx: Context, other: dict[str, object]) -> None:
    planned(ctx, replace(PLAIN, **other), shown=True)  # type: ignore[arg-type]
    assert kept(ctx) == []


def test_one_that_said_something_says_it_again(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def talkative(ctx: Context, request: Request) -> Plan:
        ctx.reporter.say("the archive has each of its modules")
        return make_plan(ctx, request)

    monkeypatch.setattr(kept_plan, "_made", talkative)
    reporter = Reporter(ctx.env, verbosity=-1)
    ctx = replace(ctx, reporter=reporter)
    for _ in range(2):
        planned(ctx, PLAIN, shown=True)
    assert reporter.lines == 2
    assert kept(ctx) == []


def test_of_a_checkout_that_cannot_be_read_whole_nothing_is_kept(
    ctx: Context, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_plan, "inputs_digest", lambda *_: None)
    assert planned(ctx, PLAIN, shown=True).key == planned(ctx, PLAIN, shown=True).key
    assert (maker.made, kept(ctx)) == (2, [])


def test_a_full_disk_only_costs_time(ctx: Context, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(ctx.store), "write_bytes", full)
    assert planned(ctx, PLAIN, shown=True).key == planned(ctx, PLAIN, shown=True).key
    assert maker.made == 2


def test_a_kept_one_is_small(ctx: Context) -> None:
    planned(ctx, PLAIN, shown=True)
    (place,) = kept(ctx)
    assert place.stat().st_size < LARGEST / 16
