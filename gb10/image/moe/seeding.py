"""``moe seed``: the engine's own default for each batch size where it fits a GB10, another row where it does not."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gb10.errors import UsageError
from gb10.image.moe.child.question import Question
from gb10.image.moe.expected import nearest
from gb10.image.moe.release_lookups import EngineAnswer, Judge, ask
from gb10.image.moe.row_rules import PACKED, RowJudgement, judge_row
from gb10.image.moe.tuned_name import SPELLED, TunedName, format_tuned_name

MOST: Final = 131_072
"""Batch sizes for which the default is asked: vLLM's changes last beyond 128 tokens for each expert."""
ABOUT: Final = ".about"
OTHER: Final = "docs/moe.md lists the releases that gb10 can ask: name another with --release"


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """What a seed is for, beside the parameters in the name: widths, experts for each token, the group of scales."""

    meant: TunedName
    hidden: int
    topk: int
    group: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Batch sizes that get one row. ``default``: the engine's own; ``row``: the same, or what replaces it."""

    first: int
    last: int
    default: Mapping[str, Any]
    row: Mapping[str, Any]
    triton: bool
    shared: int | None
    """Bytes that the default needs."""

    @property
    def is_default(self) -> bool:
        """Whether the row is the engine's own."""
        return self.row == self.default


@dataclass(frozen=True, kw_only=True, slots=True)
class Seed:
    """A file to write. ``differing``: how many batch sizes whose default fits get another row: none."""

    name: str
    spans: tuple[Span, ...]
    rows: Mapping[int, Mapping[str, Any]]
    differing: int

    @property
    def needed(self) -> bool:
        """Whether some default does not fit."""
        return not all(span.is_default for span in self.spans)

    @property
    def text(self) -> str:
        """The file: the keys are the first and the last batch size of each row, so the nearest one is always right."""
        return json.dumps({str(size): row for size, row in self.rows.items()}, indent=1) + "\n"


def make_seed(judge: Judge, later: Judge, model: Model, work: Path) -> Seed:
    """The seed for one shape. ``later``: a release whose default replaces one that does not fit, where it fits itself.

    Raises UsageError when no row fits, or when the engine's look-up gives no answer.
    """
    own = _defaults(judge, model, work / "own")
    others = own if later.version == judge.version else _defaults(later, model, work / "later")
    spans = tuple(_spans(judge, model, own, others))
    rows: dict[int, Mapping[str, Any]] = {}
    for span in _joined(spans):
        rows |= {span.first: span.row, span.last: span.row}
    return Seed(
        name=format_tuned_name(judge.engine, model.meant), spans=spans, rows=rows, differing=_differing(spans, rows)
    )


@dataclass(frozen=True, slots=True)
class _Defaults:
    said: EngineAnswer
    parameters: Sequence[str]


def _defaults(judge: Judge, model: Model, work: Path) -> _Defaults:
    """What the engine's own function returns for each batch size, where no file is. Raises UsageError."""
    if judge.module("moe") is None:
        looked = ", ".join(judge.table.families["moe"].modules)
        raise UsageError(
            f"{judge.engine} {judge.version} has no look-up of tuned files that gb10 knows", where=looked, hint=OTHER
        )
    (work / "empty/configs").mkdir(parents=True)
    shape = model.meant.shape
    answers = ask(judge, [_question(judge, model, work, user=work / "empty", most=MOST)], work)
    (answer,) = answers.answers
    if answer.raised or answer.keys is not None or shape["dtype"] not in (None, *answers.dtypes):
        raise UsageError(
            f"{judge.engine} {judge.version} has no default for dtype={shape['dtype']}",
            where=answer.raised or answer.name,
        )
    kernel = "packed" if shape["dtype"] in PACKED else "moe"
    found = _Defaults(answer, answers.parameters.get(kernel, []))
    _check_answered(judge, found)
    return found


def _question(judge: Judge, model: Model, work: Path, *, user: Path, most: int) -> Question:
    """The engine's look-up for the experts, with no files but those of ``user``."""
    shape = dict(model.meant.shape)
    return Question(
        engine=judge.engine,
        family="moe",
        module=str(work / "none" / (judge.module("moe") or "")),
        user=str(user),
        shape={**shape, "down": False, "block": None if shape["dtype"] in PACKED else shape["block"]},
        most=most,
        topk=model.topk,
        hidden=model.hidden,
        group=model.group,
        triton=judge.triton,
    )


def folder_of(judge: Judge, out: Path) -> Path:
    """Where a file for the experts lies below the folder that the engine's variable names."""
    home = judge.table.families["moe"]
    return out / home.folder / f"triton_{judge.triton.replace('.', '_')}" if home.versioned else out


def check_read(judge: Judge, model: Model, made: Seed, work: Path) -> None:
    """Raise UsageError when the engine would not read the file at its place: another name, folder or variable."""
    folder_of(judge, work).mkdir(parents=True)
    (folder_of(judge, work) / made.name).write_text(made.text, encoding="ascii")
    (answer,) = ask(judge, [_question(judge, model, work, user=work, most=1)], work).answers
    if answer.keys != [*made.rows]:
        raise UsageError(
            f"{judge.engine} {judge.version} would not read {made.name}",
            where=answer.raised or f"it looks for {answer.name}, and opened {answer.opened or 'no file'}",
            hint=OTHER,
        )


def _check_answered(judge: Judge, found: _Defaults) -> None:
    """Raise UsageError for a batch size without an answer, or a kernel that was not found: then nothing is known."""
    failed = next(
        ((first, last, error) for first, last, _, taker, error in found.said.spans if taker == "raises"), None
    )
    if failed:
        first, last, error = failed
        raise UsageError(
            f"the default of {judge.engine} {judge.version} for batch {first} to {last} is not known: it failed",
            where=str(error),
            hint=OTHER,
        )
    if not found.parameters or not found.said.spans:
        raise UsageError(
            f"no kernel of {judge.engine} {judge.version} was found for these rows, so none was judged", hint=OTHER
        )


def _spans(judge: Judge, model: Model, own: _Defaults, others: _Defaults) -> Iterator[Span]:
    for first, last, default, taker, whole in own.said.spans:
        triton = taker == "triton"
        weighed = _weighed(judge, model, whole, own.parameters)
        row = default
        if triton and weighed.problems:
            row = _replacement(judge, model, own, others, size=first, row=whole)
        yield Span(first=first, last=last, default=default, row=row, triton=triton, shared=weighed.shared)


def _weighed(judge: Judge, model: Model, row: object, parameters: Sequence[str]) -> RowJudgement:
    return judge_row(judge.engine, "moe", model.meant.shape, row, parameters, grouped=model.group)


def _replacement(
    judge: Judge, model: Model, own: _Defaults, others: _Defaults, *, size: int, row: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The later release's default for this batch size if it fits, else the same tile with fewer stages."""
    later = next((span[4] for span in others.said.spans if span[0] <= size <= span[1]), None)
    fewer = ({**row, "num_stages": stages} for stages in range(row.get("num_stages", 3) - 1, 0, -1))
    for candidate in (later, *fewer):
        if candidate is not None and not _weighed(judge, model, candidate, own.parameters).problems:
            found: Mapping[str, Any] = candidate
            return found
    raise UsageError(f"no row fits a GB10 for batch size {size}: {row}")


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Neighbours with one row as one span."""
    found: list[Span] = []
    for span in spans:
        if found and found[-1].row == span.row:
            found[-1] = Span(
                first=found[-1].first,
                last=span.last,
                default=span.default,
                row=span.row,
                triton=span.triton,
                shared=span.shared,
            )
        else:
            found.append(span)
    return found


def _differing(spans: Sequence[Span], rows: Mapping[int, Mapping[str, Any]]) -> int:
    """Batch sizes whose default fits and that get another row from the file: each one is looked up."""
    keys = sorted(rows)
    count = at = 0
    for span in spans:
        for size in range(span.first, span.last + 1) if span.is_default else ():
            while at + 1 < len(keys) and keys[at + 1] <= size:
                at += 1
            near = {key: rows[key] for key in keys[at : at + 2]}
            count += rows[nearest(near, size)] != span.default
    return count


def about(judge: Judge, later: Judge, model: Model, seed: Seed) -> str:
    """The text beside a seed: what it is, and that nobody measured it."""
    replaced = [span for span in seed.spans if not span.is_default]
    lines = [
        f"file: {seed.name}",
        f"made by: moe seed, from the defaults of {judge.engine} {judge.version}",
        f"device: {SPELLED}, nothing was measured",
        f"triton: {judge.triton or 'any'}{'' if judge.compiles else ', which does not compile for a GB10'}",
        f"hidden: {model.hidden}, experts for each token: {model.topk}",
        f"rows that are the engine's own: all but {len(replaced)}",
        *(f"replaced for batches {span.first} to {span.last}: {span.shared:,} bytes do not fit" for span in replaced),
    ]
    lines += [f"replacements: the default of {later.engine} {later.version} where it fits"] if replaced else []
    return "\n".join(lines) + "\n"
