"""What a result looks like for people and programs: a benchmark, comparisons, a matrix, as markdown and as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gb10.models.load.model_recipe import Measurement
from gb10.serving.benchmark.compared import compare_launches
from gb10.serving.benchmark.launch_line import LaunchLine, Result, SavedQuality
from gb10.serving.benchmark.matrix import Done, MatrixRow, read_matrix, rows_of
from gb10.serving.benchmark.matrix import document as matrix_document
from gb10.serving.benchmark.pages import compare_page, html, markdown, marks, matrix_page, serve_page
from gb10.serving.benchmark.published import Published
from gb10.serving.benchmark.saved_serve import read_serve
from gb10.serving.stats.comparison import (
    Launch,
    compare,
    freedom_of,
    needed,
    ratio,
    schedule,
    sentence,
    smallest,
)
from tests.golden.conftest import Golden, section
from tests.served import document, line, lines

NOISE = (1.0, 1.004, 0.997, 1.001, 0.999)
MATRIX = """\
launch: serve {args}
axes:
  moe:
    triton: {args: --moe triton, graphs: true}
    cutlass: {args: --moe cutlass}
  ctx:
    short: {args: --len 1, max_model_len: 1}
    long: {max_model_len: 2.5}
left_out:
- {when: {moe: cutlass, ctx: long}, why: it never fits}
"""


def row_of(concurrency: int, figure: float | None, **more: Any) -> Published:  # noqa: ANN401
    row = {"concurrency": concurrency, "tokens_per_s": figure, "engine": "vllm", "source": "https://a.example", **more}
    known = {name: value for name, value in row.items() if name in Measurement.model_fields}
    fields = {"nodes": 1, "measured_by": "a person", **known}
    return Published(model="org/m", row=Measurement.model_validate(fields))


def launched(steps: Sequence[float], **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [document(one, boot=f"b{number}", **more) for number, one in enumerate(steps)]


def blocks(a: Sequence[float], b: Sequence[float]) -> list[LaunchLine]:
    """Launches A B B A in blocks of four."""
    found = lines(launched(a), launched(b))
    return [one.model_copy(update={"block": number // 4}) for number, one in enumerate(found)]


def with_points(found: Sequence[LaunchLine], points: Mapping[str, int]) -> list[LaunchLine]:
    return [
        one.model_copy(update={"quality": SavedQuality(judge="canaries", what="w", points=points[one.name], of=40)})
        for one in found
    ]


def comparisons() -> dict[str, list[LaunchLine]]:
    steady = [100 * one for one in NOISE]
    failed = line("B", 9, document(100)).model_copy(
        update={"serve": None, "result": Result.FAIL, "why": "it ended", "cause": "no memory"}
    )
    return {
        "faster": lines(launched(steady), launched([1.05 * one for one in steady])),
        "slower by blocks, launches that agree": blocks(
            [100, 101, 100.5, 100.2, 99.8, 100.4] * 2, [90, 91, 90.5, 90.2, 89.8, 90.4] * 2
        ),
        "same": lines(launched(steady), launched(steady[::-1])),
        "not resolved": lines(launched([100, 110, 95]), launched([101, 96, 112])),
        "below the floor": blocks([100, 101.8] * 4, [101.5, 103.3] * 4),
        "two modes": lines(launched([100, 150, 100, 150, 100, 150]), launched([100, 100.1, 100, 100.1, 100, 100.2])),
        "one of each": lines(launched([100]), launched([120])),
        "a side without a figure, and a launch that failed": [*lines(launched([100, 101]), []), failed],
        "garbage": lines(launched(steady[:2]), [document(500), document(500, verdict="GARBAGE")]),
        "worse answers": with_points(lines(launched(steady), launched(steady)), {"A": 40, "B": 30}),
        "other answers": with_points(lines(launched(steady), launched(steady)), {"A": 40, "B": 39}),
    }


def rounded(value: Any) -> Any:  # noqa: ANN401
    """A document whose numbers are the same on every processor."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if value == value else "nan"  # noqa: PLR0124
    if isinstance(value, Mapping):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


def test_comparisons(golden: Golden) -> None:
    found = {
        name: compare_launches(
            made, ("", f"{name} it is"), margin=0.02, unit="passes" if name == "same" else "launches"
        )
        for name, made in comparisons().items()
    }
    pages = [section(name, markdown(compare_page(one, "made by a test"))) for name, one in found.items()]
    golden("render/comparisons.md", "\n\n".join(pages))
    rows = [
        f"{name}: {json.dumps({key: value for key, value in rounded(row).items() if key not in ('points', 'words')})}"
        for name, one in found.items()
        for row in one.document()["rows"][:3]
    ]
    golden("render/comparisons.txt", "\n".join(rows) + "\n")
    shown = compare_page(found["faster"], "made by a test")
    assert html(shown).count("<svg") == len(shown.sections[0].charts) == 3


def test_a_benchmark_with_what_others_published(golden: Golden) -> None:
    made = document(100.0)
    levels = [
        {**made["levels"][0], "answer": 128},
        {**made["levels"][0], "answer": 1024, "concurrency": 4, "runs": [], "verdict": "SUSPECT", "why": "1 of 2"},
        {**document(33.3, 2.5)["levels"][0], "answer": 1024},
    ]
    made |= {"levels": levels, "doubts": ["the GPU was busy"], "verdict": "SUSPECT"}
    made["settings"] = {**made["settings"], "answer": [128, 1024]}
    rows = [row_of(2, 123.456), row_of(8, None)]
    pages = {
        "several lengths": serve_page(read_serve(json.dumps(made), "it"), rows[:1], "made"),
        "garbage": serve_page(read_serve(json.dumps(document(9, verdict="GARBAGE")), "it"), (), "made"),
        "one level": serve_page(read_serve(json.dumps(document(9)), "it"), (), "made"),
    }
    kinds = "\n".join(
        f"{name}: {page.kind}, {sum(len(one.charts) for one in page.sections)} charts, "
        f"{[sorted(one.numbers) for one in page.sections]}"
        for name, page in pages.items()
    )
    golden(
        "render/benchmarks.md",
        "\n\n".join((kinds, *(section(*one) for one in ((name, markdown(page)) for name, page in pages.items())))),
    )
    assert [(one.concurrency, one.value) for one in marks(rows)] == [(2, 123.456)]


def matrix() -> list[Done]:
    rows = rows_of(read_matrix(MATRIX, "axes.yaml"))
    results: list[LaunchLine | None] = [
        line(row.name, number, document(50.0 + number)) for number, row in enumerate(rows)
    ]
    for number, result in ((1, Result.FAIL), (2, Result.GARBAGE)):
        one = results[number]
        assert one is not None
        results[number] = one.model_copy(update={"result": result, "why": "w", "cause": "c" * (number == 1)})
    best = results[0]
    assert best is not None
    results[0] = best.model_copy(update={"quality": SavedQuality(judge="canaries", what="w", points=3, of=4)})
    return [Done(row=row, line=None if row.left_out else one) for row, one in zip(rows, results, strict=True)]


def test_a_matrix(golden: Golden) -> None:
    done = matrix()
    pages = {
        "all rows": matrix_page(done, {"recipe": "r.yaml"}, (), "made"),
        "two stable rows": matrix_page([done[0], done[0]], {}, (), "made"),
        "no stable row": matrix_page(done[1:3], {}, (), "made"),
        "left out alone": matrix_page([Done(row=MatrixRow(values={"a": "b"}, settings={}), line=None)], {}, (), "made"),
    }
    kinds = "\n".join(f"{title}: {page.kind}" for title, page in pages.items())
    shown = [section(title, markdown(page)) for title, page in pages.items()]
    text = json.dumps(rounded(matrix_document(done, {"recipe": "r.yaml"})), indent=1)
    golden("render/matrix.md", "\n\n".join((kinds, *shown, section("as JSON", text))))


def test_sums_of_statistics(golden: Golden) -> None:
    """Numbers that scipy gives, too: tests/unit/serving/test_stats.py."""
    found = [
        f"{count} a side: {''.join(f'{side}{block}' for side, block in schedule(count))}, freedom {freedom_of(count)}, "
        f"smallest {smallest(count, 0.01):.5f}, needed for 1 % at 1 %: {needed(0.01 * count, 0.03)}"
        for count in range(1, 9)
    ]
    launches = [
        Launch(side=side, block=block, value=100.0 + 7 * (side == "B") + number % 3)
        for number, (side, block) in enumerate(schedule(4))
    ]
    for count in (2, 3, 8):
        one = compare(launches[:count], 0.02)
        text = sentence(one, str(one.outcome)) if one.ratio else "nothing"
        found.append(f"{count} launches: {text}; {ratio(launches[:count]).freedom if count > 1 else ''}")
    golden("render/statistics.txt", "\n".join(found) + "\n")
