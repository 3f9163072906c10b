"""What becomes of the changes that commands made in a trial: patches, overlay, plain commands, or a reason."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import BuildError, Gb10Error
from gb10.image.adopt import trusting
from gb10.image.adopt.adopted import Adopted, ModDraft
from gb10.image.adopt.trusting import Change, Entry, Row, Trial, recorded, with_trust
from gb10.image.context import Context
from gb10.image.patches.on_base import OnBase
from gb10.image.patches.releases import load_releases
from gb10.image.plan.catalog import ROOT
from tests.recipes import SHIPPED
from tests.unit.image.test_adopt import adopted

SITE = "/usr/local/lib/python3.12/dist-packages"
ON = OnBase(reference="a/b@sha256:1", engine="vllm", version="0.33.0", folders={"vllm": SITE}, site_packages=(SITE,))
NONE = Entry(kind="none")
OLD = b"import os\nA = 1\n"


def entry(content: bytes, mode: int = 0o644, owner: int = 0) -> Entry:
    return Entry(kind="file", mode=mode, owner=(owner, owner), sha256=hashlib.sha256(content).hexdigest())


def row(*changes: tuple[str, Entry, Entry], code: int = 0, why: str = "", in_base: bool = False) -> Row:
    found = tuple(Change(path=path, before=one, after=two, in_base=in_base) for path, one, two in changes)
    return Row(code=code, why=why, tail=("first", "last words", ""), changes=found)


def trial(rows: Sequence[Row], *contents: bytes, on: OnBase = ON) -> Trial:
    """A base that holds vllm/a.py alone."""
    base = {f"{SITE}/vllm/a.py": OLD}
    return Trial(
        on=on,
        rows=tuple(rows),
        contents={hashlib.sha256(content).hexdigest(): content for content in (OLD, *contents)},
        given=(),
        read=lambda paths: {path: base[path] for path in paths if path in base},
    )


def judged(found: Adopted, tried: Trial) -> Adopted:
    return recorded(found, tried, load_releases(ROOT / "patches"))


def verdicts(found: Adopted) -> list[tuple[str, str]]:
    return [(line.verdict, line.why) for line in found.lines if line.instruction == "RUN"]


def test_a_patch_for_each_instruction_and_the_overlay_for_the_rest(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("N = 1\n")
    found = adopted(tmp_path, f"COPY new.py {SITE}/vllm/new.py\nRUN a\nRUN b --- a/x\nRUN c")
    two, three, new, binary = OLD + b"B = 2\n", OLD + b"B = 3\n", b"N = 2\n", b"\0\1"
    path, copied, table = (f"{SITE}/vllm/{name}" for name in ("a.py", "new.py", "table"))
    rows = [
        row((path, entry(OLD), entry(two)), (copied, entry(b"N = 1\n"), entry(new))),
        row((path, entry(two), entry(three)), (table, NONE, entry(binary, 0o755))),
        row(),
    ]
    made = judged(found, trial(rows, two, three, new, binary, b"N = 1\n"))
    assert list(made.patches) == ["0001-line-3.patch", "0002-line-4.patch"]
    assert b"+++ b/vllm/a.py\n@@ -1,2 +1,3 @@\n import os\n A = 1\n+B = 2\n" in made.patches["0001-line-3.patch"]
    assert b"\n  b --- a/x\n" in made.patches["0002-line-4.patch"]
    assert {name: (file.content, file.executable) for name, file in made.overlay.items()} == {
        copied: (new, False), table: (binary, True),
    }  # fmt: skip
    assert made.mods == ()
    assert verdicts(made) == [
        ("taken", "patch 0001-line-3.patch: 1 path; overlay: 1 path"),
        ("taken", "patch 0002-line-4.patch: 1 path; overlay: 1 path"),
        ("no-effect", "it changed nothing on this base"),
    ]
    assert made.counts == {"taken": 4, "no-effect": 1}


def test_a_text_that_a_patch_would_not_find_again_goes_to_the_overlay(tmp_path: Path) -> None:
    """Two folders hold a file of this name: the diff would change the first one."""
    other = "/opt/venv/lib/python3.12/site-packages"
    on = OnBase(reference="a/b", engine="", version="", folders={"vllm": SITE}, site_packages=(SITE, other))
    text = b"import os\nA = 2\n"
    path = f"{other}/vllm/a.py"
    made = judged(adopted(tmp_path, "RUN a"), trial([row((path, entry(OLD), entry(text)))], text, on=on))
    assert not made.patches
    assert made.overlay[path].content == text


@pytest.mark.parametrize(
    ("before", "after", "in_base", "commands"),
    [
        (entry(OLD), NONE, True, ["rm -rf '/opt/a b'"]),
        (NONE, Entry(kind="link", target="/x"), False, ["mkdir -p /opt", "ln -s -- /x '/opt/a b'"]),
        (
            entry(OLD),
            Entry(kind="link", target="y"),
            True,
            ["rm -rf '/opt/a b'", "mkdir -p /opt", "ln -s -- y '/opt/a b'"],
        ),
        (NONE, Entry(kind="folder", mode=0o700), False, ["mkdir -p '/opt/a b'", "chmod 0700 '/opt/a b'"]),
        (NONE, Entry(kind="folder", mode=0o755), False, ["mkdir -p '/opt/a b'"]),
        (entry(OLD), entry(OLD, 0o600, 7), True, ["chown -h 7:7 '/opt/a b'", "chmod 0600 '/opt/a b'"]),
        (NONE, entry(OLD, 0o640), False, ["chmod 0640 '/opt/a b'"]),
    ],
)
def test_what_no_file_expresses_is_plain_commands(
    tmp_path: Path, before: Entry, after: Entry, in_base: bool, commands: list[str]
) -> None:
    tried = trial([row(("/opt/a b", before, after), in_base=in_base)])
    (mod,) = judged(adopted(tmp_path, "RUN a"), tried).mods
    assert mod.script.splitlines()[5:] == commands


def test_what_a_recipe_cannot_have_is_named(tmp_path: Path) -> None:
    odd = {
        "/dev/x": Entry(kind="other"),
        "/opt/su": entry(OLD, 0o4755),
        "/opt/large": Entry(kind="large", size=1 << 30),
        "/opt/a\nb": entry(OLD),
        "/opt/\ufffd": entry(OLD),
    }
    made = judged(adopted(tmp_path, "RUN a"), trial([row(*((path, NONE, one) for path, one in odd.items()))]))
    ((verdict, why),) = verdicts(made)
    assert verdict == "not-taken"
    assert why.count("not taken: ") == len(odd) - 1
    assert why.endswith("; and 1 more")
    assert "'/opt/large' has 1,024 MiB, and at most 16 MiB are recorded" in why
    assert not made.overlay
    assert not made.mods


def test_a_command_that_fails_leaves_out_what_stands_after_it(tmp_path: Path) -> None:
    found = adopted(tmp_path, "RUN a\nRUN b\nRUN c\nRUN apt-get install -y d")
    rows = [row(("/opt/x", NONE, entry(OLD))), row(code=3)]
    made = judged(found, trial(rows))
    assert verdicts(made) == [
        ("taken", "overlay: 1 path"),
        ("unchecked", "it ended with 3: last words"),
        ("unchecked", "line 3: it ended with 3: last words"),
        ("unchecked", "line 3: it ended with 3: last words"),
    ]
    assert made.mods == ()


def test_files_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "fix.py").write_text("x\n")
    found = adopted(tmp_path, "COPY fix.py /opt/fix.py\nRUN a\nRUN b")
    rows = [
        row(("/opt/new", NONE, entry(OLD))),
        row(("/opt/new", entry(OLD), NONE), ("/opt/fix.py", entry(b"x\n"), NONE)),
    ]
    made = judged(found, trial(rows, b"x\n"))
    assert (dict(made.overlay), made.mods) == ({}, ())
    assert verdicts(made)[0] == ("no-effect", "what it changed is undone by a later line")


def test_what_lies_below_a_path_that_is_not_taken_is_not_taken(tmp_path: Path) -> None:
    link, folder, text = Entry(kind="link", target="b"), Entry(kind="folder", mode=0o755), b"import os\nA = 2\n"
    rows = [row(("/opt/a", link, folder), ("/opt/a/f.py", NONE, entry(text)))]
    made = judged(adopted(tmp_path, "RUN a"), trial(rows, text))
    assert (made.overlay, made.mods, made.patches) == ({}, (), {})
    assert verdicts(made) == [
        (
            "not-taken",
            "not taken: '/opt/a' was a link and is a folder; "
            "not taken: '/opt/a/f.py' lies below '/opt/a', which is not taken",
        )
    ]


def test_a_capability_is_named(tmp_path: Path) -> None:
    able = entry(OLD).model_copy(update={"attributes": "0" * 64})
    made = judged(adopted(tmp_path, "RUN a"), trial([row(("/usr/bin/x", entry(OLD), able))]))
    assert verdicts(made) == [
        ("not-taken", "not taken: '/usr/bin/x' has other capabilities, access lists or attributes")
    ]


def trusted(found: Adopted, tmp_path: Path) -> Adopted:
    ctx = Context(env={}, store=Store(tmp_path / "store"), reporter=Reporter({}, verbosity=-1), catalog=SHIPPED)
    return with_trust(ctx, found)


@pytest.mark.parametrize(
    ("error", "why", "remarks"),
    [
        (
            BuildError("it broke", where="line a\nline b", hint="mend it\nor not"),
            "it broke: line a",
            ["did not run: mend it"],
        ),
        (BuildError("it broke"), "it broke", []),
    ],
)
def test_commands_that_could_not_be_tried_are_not_checked(
    error: Gb10Error, why: str, remarks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Trial:
        raise error

    monkeypatch.setattr(trusting, "run_trial", fail)
    found = trusted(draft := adopted(tmp_path, "RUN echo 1 >/a\nRUN echo 2 >/b\n"), tmp_path)
    assert draft.mods and not found.mods
    (first, second) = [line for line in found.lines if line.verdict == "unchecked"]
    assert (first.why, first.need, second.need) == (why, "trial", "trial")
    assert second.why == f"line {first.first}: {why}"
    assert [one.rpartition(" commands ")[2] for one in found.remarks[len(draft.remarks) :]] == remarks


def test_only_commands_that_need_no_network_on_a_known_image_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def run_trial(_: object, __: object, mod: ModDraft) -> Trial:
        tried.append(mod.name)
        return trial([row()])

    monkeypatch.setattr(trusting, "run_trial", run_trial)
    draft = adopted(tmp_path, "RUN echo 1 >/a\n")
    for other in (replace(draft, base=""), replace(draft, mods=())):
        assert trusted(other, tmp_path) is other
    online = replace(draft, mods=(replace(draft.mods[0], network=True), *draft.mods[1:]))
    found = trusted(online, tmp_path)
    assert (found.mods, tried) == (online.mods, [])
    assert found.remarks[-1].endswith("needs a network: it and the commands after it stay a mod, and did not run")
    assert trusted(draft, tmp_path).mods == ()
    assert tried == [draft.mods[0].name]
