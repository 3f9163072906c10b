"""``moe check``: the engine's verdict on each file, our reasons beside it, and every row weighed for a GB10."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from gb10.errors import EmptySelectionError, UsageError
from gb10.image.moe.expected import Expected, Look, Verdict, expected_verdict, unused_reason
from gb10.image.moe.input_files import Batch, InputFile, Lies, Sizes, layer_place, question, root_of, stage
from gb10.image.moe.release_lookups import Answers, EngineAnswer, Judge, ask
from gb10.image.moe.row_rules import PACKED, judge_row
from gb10.image.moe.tuned_name import Family, TunedName

Use = Literal["triton", "cuda", "default", "raises"]
LADDER_END: Final = 1024
"""A file without a batch size from here on gives prefill a row that was chosen for decoding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedRow:
    """Batch sizes ``first`` to ``last`` get this row. ``use``: who takes it. ``shared``: bytes, None if unknown."""

    first: int
    last: int
    config: Any
    use: Use
    shared: int | None = None
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FileVerdict:
    """One file. ``told``: the engine's own words, or the name that it asked for. ``expected``: by our rules."""

    path: str
    family: Family | None
    verdict: Verdict
    told: str
    reasons: tuple[str, ...]
    rows: tuple[TunedRow, ...]
    expected: Verdict
    remarks: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """The engine reads it, and every row that Triton gets is fit."""
        return self.verdict == "found" and not any(row.problems for row in self.rows)


def judge_files(judge: Judge, batch: Batch, sizes: Sizes) -> tuple[FileVerdict, ...]:
    """A verdict for each file, in their order. Raises UsageError when the engine's look-up gives no answer."""
    return judge_batches(judge, (batch,), sizes)[0]


def judge_batches(judge: Judge, batches: Sequence[Batch], sizes: Sizes) -> list[tuple[FileVerdict, ...]]:
    """The same for batches that do not see each other's files, by one child process."""
    with judge.host.store.folder("moe") as work:
        staged = [stage(judge, batch, work / str(number)) for number, batch in enumerate(batches)]
        asked = [
            (number, batch.lies, given.path, given.meant)
            for number, batch in enumerate(batches)
            for given in batch.files
            if given.path in staged[number] and given.meant
        ]
        questions = [question(judge, meant, work / str(number), sizes, lies) for number, lies, _, meant in asked]
        answers = ask(judge, questions, work)
        answer = {(number, path): one for (number, _, path, _), one in zip(asked, answers.answers, strict=True)}
        return [
            tuple(
                _judged(looks, given, staged[number].get(given.path), answer.get((number, given.path)), sizes)
                for given in batch.files
            )
            for number, batch in enumerate(batches)
            for looks in (_Looks(judge, work / str(number), answers, sizes.most, batch.lies),)
        ]


@dataclass(frozen=True, slots=True)
class _Looks:
    judge: Judge
    work: Path
    answers: Answers
    most: int
    lies: Lies

    def of(self, family: Family) -> tuple[Look, Path]:
        """Where the engine looks for a family, and the root of the paths in it."""
        home, root = self.judge.table.families[family], root_of(self.judge, family, self.work, self.lies)
        files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        listed = root / home.folder
        folders = tuple(path.name for path in listed.iterdir()) if home.versioned and listed.is_dir() else None
        look = Look(
            engine=self.judge.engine,
            version=self.judge.version,
            triton=self.judge.triton,
            family=family,
            files=files,
            folders=folders,
            dtypes=self.answers.dtypes,
            folder=home.folder,
            most=self.most,
        )
        return look, root


def _judged(
    looks: _Looks, given: InputFile, place: Path | None, answer: EngineAnswer | None, sizes: Sizes
) -> FileVerdict:
    if given.meant is None or place is None or answer is None:
        return _unasked(looks.judge, given, given.meant.family if given.meant else None)
    family = given.meant.family
    look, root = looks.of(family)
    expected = expected_verdict(look, given.meant, place.relative_to(root).as_posix())
    rows = (
        tuple(_rows(looks, given.meant, answer, sizes))
        if answer.opened == str(place) and answer.keys is not None
        else ()
    )
    failed = next((str(row.config) for row in rows if row.use == "raises"), None)
    verdict = _verdict(look, given.meant, place, answer, failed)
    told = (answer.raised or failed or answer.name).replace(f"{looks.work}/", "")
    if verdict == "raises" and (failed or "").startswith("AssertionError") and given.meant.shape.get("down"):
        expected = Expected("raises", ("its BLOCK_SIZE_M is not that of the row for the first GEMM",))
    return FileVerdict(
        path=given.path,
        family=family,
        verdict=verdict,
        told=told,
        reasons=expected.reasons,
        rows=rows,
        expected=expected.verdict,
        remarks=tuple(_remarks(family, answer)) if verdict == "found" else (),
    )


def _verdict(look: Look, meant: TunedName, place: Path, answer: EngineAnswer, failed: str | None) -> Verdict:
    """The engine's own, but for a file that it never asks for: of another GPU, or a type that it does not name."""
    if unused_reason(look, meant):
        return "not found"
    if answer.raised or failed:
        return "raises"
    return "found" if answer.opened == str(place) and answer.keys is not None else "not found"


def _unasked(judge: Judge, given: InputFile, family: Family | None) -> FileVerdict:
    reason = "its name is of none of the families of tuned files"
    if family:
        reason = f"{judge.engine} {judge.version} has no tuned files of this family"
    return FileVerdict(
        path=given.path,
        family=family,
        verdict="not found",
        told="",
        reasons=(reason,),
        rows=(),
        expected=Expected("not found").verdict,
    )


def _rows(looks: _Looks, meant: TunedName, answer: EngineAnswer, sizes: Sizes) -> Iterator[TunedRow]:
    packed = meant.shape.get("dtype") in PACKED
    parameters = looks.answers.parameters.get("packed" if packed else meant.family, [])
    for first, last, row, taken, whole in answer.spans:
        use: Use = "default" if taken != "raises" and not answer.keys else taken
        made = TunedRow(first=first, last=last, config=whole if use == "raises" else row, use=use)
        if use == "triton":
            weighed = judge_row(looks.judge.engine, meant.family, meant.shape, whole, parameters, grouped=sizes.group)
            made = replace(made, shared=weighed.shared, problems=weighed.problems, remarks=weighed.remarks)
        yield made


def _remarks(family: Family, answer: EngineAnswer) -> Iterator[str]:
    if family in ("moe", "dense") and answer.keys and max(answer.keys) < LADDER_END:
        yield f"its largest batch size is {max(answer.keys)}: every larger batch, and prefill, gets that row"


def differing_verdicts(verdicts: Sequence[FileVerdict]) -> Mapping[str, tuple[Verdict, Verdict]]:
    """Files on which our rules and the engine differ: the engine's verdict, then ours."""
    differing = (verdict for verdict in verdicts if verdict.verdict != verdict.expected)
    return {verdict.path: (verdict.verdict, verdict.expected) for verdict in differing}


SITE_OF_IMAGE: Final = "usr/local/lib/python{python}/dist-packages"


def write_layer(judge: Judge, batch: Batch, verdicts: Sequence[FileVerdict], out: Path, python: str) -> tuple[str, ...]:
    """Write the good files below a new directory ``out``; returns their paths in the image.

    Raises UsageError when ``out`` exists or two files have one place, EmptySelectionError when no file is good.
    """
    good = {verdict.path for verdict in verdicts if verdict.good}
    places: dict[str, bytes] = {}
    for given in batch.files:
        if given.path in good and given.meant:
            place = f"{SITE_OF_IMAGE.format(python=python)}/{layer_place(judge, given, given.meant)}"
            if places.setdefault(place, given.content) != given.content:
                raise UsageError(f"two files of one name have different rows: {given.path}")
    if not places:
        raise EmptySelectionError("no file is good, so there is nothing for a layer")
    try:
        out.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"{out} exists", hint="name a new directory") from error
    for place, content in places.items():
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_bytes(content)
    return tuple(places)
