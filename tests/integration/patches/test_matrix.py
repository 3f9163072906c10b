"""Every patch on every pinned release: the cells that the facts say, in seconds, from the very files upstream ships."""

from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from gb10.cli.patch.patches import library
from gb10.image.patches.releases import load_releases
from gb10.image.patches.verdict import Row, status, troubles
from tests.integration.patches.releases import ctx, rows_of

HERE = Path(__file__).parent
SOURCES = sorted(path.stem.removeprefix("expected_") for path in HERE.glob("expected_*.yaml"))
FEWEST = {"vllm": 12, "sglang": 12, "flashinfer": 10, "cutlass-dsl": 9, "cutlass": 3}

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=SOURCES)
def rows(request: pytest.FixtureRequest) -> tuple[Row, ...]:
    return rows_of(request.param)


def test_every_cell_is_what_the_facts_say(rows: tuple[Row, ...]) -> None:
    expected = yaml.safe_load((HERE / f"expected_{rows[0].source}.yaml").read_text(encoding="utf-8"))
    found = {
        (verdict.patch.id, str(row.version)): (verdict.outcome, verdict.probe.answer)
        for row in rows
        for verdict in row.verdicts
    }
    wanted = {
        (name, str(version)): (cell["outcome"], cell["probe"])
        for name, cells in expected.items()
        for version, cell in cells.items()
    }
    assert found == wanted


def test_nothing_in_the_window_stops_a_build(rows: tuple[Row, ...]) -> None:
    assert troubles(rows) == ()


def test_enough_releases_are_held() -> None:
    pinned = {name: len(source.releases) for name, source in load_releases(ctx().catalog.patches).sources.items()}
    assert set(pinned) == set(SOURCES) == set(FEWEST)
    assert {name: count for name, count in pinned.items() if count < FEWEST[name]} == {}
    assert sum(pinned.values()) >= 40


# Releases that no pin names, fetched by what the index says of them now.
@pytest.mark.parametrize(
    ("source", "version", "expected"),
    [
        ("sglang", "0.5.12.post1", {"0001": "applies", "0006": "not-applicable"}),
        ("sglang", "0.5.18", {"0001": "not-applicable", "0004": "applies"}),
        ("flashinfer", "0.6.7.post1", {"0001": "applies"}),
        ("flashinfer", "0.6.9", {"0001": "not-applicable"}),
    ],
)
def test_a_release_that_nobody_listed(source: str, version: str, expected: dict[str, str]) -> None:
    (row,) = status(library(ctx()), source, [Version(version)])
    assert not row.pinned
    found = {verdict.patch.id[:4]: verdict.outcome for verdict in row.verdicts}
    assert {number: found[number] for number in expected} == expected
    assert troubles([row]) == ()
