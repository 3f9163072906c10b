"""The charts of a benchmark's page, as a person has looked at them: open ``render/charts.html`` in a browser."""

from gb10.serving.chart import WIDTH, Bar, LevelFigures, Mark, Point, axis_of, bars, effects, launches, levels, svg
from tests.golden.conftest import Golden

STYLE = """\
<!doctype html>
<meta charset="utf-8">
<title>Charts</title>
<style>
svg { display: block; width: 600px; margin: 1em; font: 11px sans-serif; background: #f6f6f6 }
line { stroke: #888 } .grid { stroke: #ddd }
.mark, .bad { stroke: #b00 } .good { stroke: #080 } .unsure { stroke: #a70 }
polyline { fill: none; stroke: #36c } .margin { fill: #e4e4ee } .sideA { fill: #36c } .sideB { fill: #c63 }
.stable { fill: #7a7 } .unseen { fill: transparent }
</style>
"""
VALUES = (100.4, 104.9, 99.7, 105.6, 100.1, 104.8)


def test_charts(golden: Golden) -> None:
    charts = (
        launches("steps/s at 2", [Point(number=n, side="AB"[n % 2], value=one) for n, one in enumerate(VALUES)]),
        launches("one launch", [Point(number=0, side="A", value=3.0)]),
        effects(
            "B against A",
            [
                {"label": "steps/s at 2", "word": "faster", "tooltip": "", "effect": 0.05, "low": 0.04, "high": 0.06},
                {"label": "tok/s at 2", "word": "slower", "tooltip": "", "effect": -0.03, "low": -0.05, "high": -0.01},
                {"label": "tokens a step", "word": "not resolved", "tooltip": "", "effect": -0.1, "low": None},
                {"label": "first token", "word": "no figure", "tooltip": "", "effect": None},
            ],
            0.02,
        ),
        levels(
            "tok/s",
            [LevelFigures(concurrency=count, values=(10.0 * count, 11.5 * count)) for count in (1, 4, 16)],
            [Mark(concurrency=32, value=300.0, tooltip="published")],
        ),
        bars(
            "rows",
            [
                Bar(name="max_num_seqs=16", result="STABLE", value=120.5, tooltip="the middle"),
                Bar(
                    name=" ".join(["a name that is longer than the paper is wide"] * 4),
                    result="STABLE",
                    value=301,
                    tooltip="",
                ),
                Bar(name="kv_cache_dtype=nvfp4", result="GARBAGE", value=None, tooltip=""),
                Bar(name="zero", result="STABLE", value=0.0, tooltip=""),
            ],
        ),
    )
    golden("render/charts.html", STYLE + "\n".join(charts).replace("><", ">\n<") + "\n")


def test_a_chart_without_values_has_an_axis() -> None:
    assert axis_of([], 0, WIDTH).ticks()
    assert (
        svg(10, "a & b", "")
        == f'<svg viewBox="0 0 {WIDTH} 10" role="img" aria-label="a &amp; b"><title>a &amp; b</title></svg>'
    )
