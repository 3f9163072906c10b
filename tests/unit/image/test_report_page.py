"""The page about an image: its map, its heat map, its bars, and that it asks nobody."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gb10.cli.look.report import build_of, last_tag
from gb10.core.reporter import Timing
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.inspect.build_log import Build, Step, keep_build, saved_builds
from gb10.image.inspect.report_page import (
    Box,
    against,
    bars,
    columns,
    duration,
    heat,
    life,
    megabytes,
    page,
    tiles,
    treemap,
)
from gb10.image.inspect.summary import ImageSummary, Layer, PatchStory, codes_of
from gb10.image.plan.catalog import ROOT, Catalog
from tests.unit.made_up_images import KEY
from tests.unit.made_up_portrait import portrait


@settings(max_examples=30)
@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30), st.floats(1, 300), st.floats(1, 300))
def test_the_map_fills_its_box_and_no_boxes_overlap(values: list[float], width: float, height: float) -> None:
    sizes = sorted(values, reverse=True)
    assert len(treemap([1e40, 1.0], Box(0, 0, width, height))) == 2  # one is so large that the other has no width
    boxes = treemap(sizes, Box(0, 0, width, height))
    area = width * height
    for value, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(area * value / sum(sizes), rel=1e-4)
        assert box.x >= -1e-4
        assert box.x + box.width <= width + 1e-4
        assert box.y + box.height <= height + 1e-4
    for one, two in combinations(boxes, 2):
        across = min(one.x + one.width, two.x + two.width) - max(one.x, two.x)
        down = min(one.y + one.height, two.y + two.height) - max(one.y, two.y)
        assert min(across, down) <= 1e-4


def test_the_map_has_layers_by_size_and_their_packages_within() -> None:
    one = portrait()
    torch, base = tiles(one, one.groups)
    assert (torch.name, torch.size, base.name) == ("torch", 800, "base")
    assert [part.name for part in torch.inner] == []  # larger than the layer: not its own
    whole = replace(one, layers=(Layer(name="layer-torch", digest="sha256:b", size=1_000),))
    (torch,) = tiles(whole, one.groups)
    assert [(part.name, part.size) for part in torch.inner] == [
        ("torch", 600),
        ("nvidia/cudnn", 200),
        ("vllm", 100),
        ("other files", 100),
    ]
    assert sum(part.box.width * part.box.height for part in torch.inner) == pytest.approx(10_000)


def test_the_heat_map_begins_with_what_the_gpu_runs() -> None:
    one = portrait()
    assert one.verdict is not None
    names = columns(one.verdict.judged, "12.1")
    assert names == ["sm_121", "sm_120", "PTX", "9.x"]
    rows = {row.name: row for row in heat(one.verdict.judged, names)}
    assert [count for count, _ in rows["libtorch_cuda.so"].cells] == [0, 4, 2, 0]
    assert [count for count, _ in rows["_C.so"].cells] == [0, 0, 0, 3]
    assert (rows["libcudnn.so.9"].fit, rows["_C.so"].fit) == ("native", "nothing")
    assert max(value for row in rows.values() for _, value in row.cells) == 1
    assert codes_of(one) == {"compute_80": 2, "sm_90a": 3, "sm_120": 4, "sm_121": 1}


def build(key: str = KEY, ended: float = 2, tag: str = "gb10/test:1", **layers: int) -> Build:
    """A build that is kept."""
    tasks = (
        Timing("download", 10.0, False, 0.0),
        Timing("kernels", 30.0, False, 10.0),
        Timing("small", 0.0, True, 11.0),
    )
    steps = (
        Step(name="kernels", kind="wheel", hit=False, cpu=55.0),
        Step(name="base-image", kind="rootfs", hit=True),
    )
    return Build(key=key, tag=tag, digest="d", size=900, ended=ended, cores=2, tasks=tasks, steps=steps, layers=layers)


def test_bars_are_tasks_in_percent_of_the_whole_with_cpu_seconds_of_compilers() -> None:
    assert [(bar.name, bar.start, bar.width, bar.cpu) for bar in bars(build())] == [
        ("download", 0, 25, 0),
        ("kernels", 25, 75, 55),
    ]


def test_the_build_of_an_image_and_the_one_before_it() -> None:
    old, older, other = build("1" * 64, 1), build("2" * 64, 0), build("3" * 64, 1.5, "gb10/other:1")
    builds = [build(), other, old, older]
    assert build_of(portrait(), builds) == (builds[0], old)
    assert build_of(portrait(plan=None), builds) == (None, None)
    assert last_tag(builds) == "gb10/test:1"
    with pytest.raises(UsageError, match="no build is kept"):
        last_tag([])


def test_layers_that_a_build_before_did_not_have() -> None:
    """The one in a layer's place is found, also behind a layer that is new."""
    one = portrait(layers=tuple(Layer(name=name, digest=name, size=5) for name in ("base", "new", "torch", "top")))
    before = replace(build(), layers={"base": 5, "torch": 5, "old top": 7})
    assert against(one, before) == (("new", 5, 0), ("top", 5, 7))


def test_builds_are_kept_and_one_of_the_same_image_replaces_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for one in (build("1" * 64, 1), build("2" * 64, 3), build("1" * 64, 2)):
        keep_build(store, one)
    (tmp_path / "builds" / "odd.json").write_text('{"schema": "gb10/build/v1"}')
    assert saved_builds(store) == [build("2" * 64, 3), build("1" * 64, 2)]


class Seen(HTMLParser):
    """What a page refers to, its tags, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.links, self.text, self.open = set[str](), list[str](), "", list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "data", "action")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


TEMPLATES = Catalog(ROOT).templates


@pytest.mark.parametrize(
    "one",
    [portrait(), portrait(plan=None, verdict=None, patches=(), mods=(), layers=()), portrait(packed=True)],
    ids=["ours", "foreign", "remote"],
)
def test_the_page_is_one_file_that_asks_nobody(one: ImageSummary) -> None:
    text = page(one, TEMPLATES, built=build(), before=build("1" * 64, 1, base=100))
    seen = Seen(text)
    assert seen.open == []
    assert not seen.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "video", "audio"}
    assert all(link.startswith("https://example.invalid/") for link in seen.links)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert not re.search(r"url\(|@import|@font-face", style)
    assert "prefers-color-scheme: dark" in style
    assert 'name="viewport"' in text


def test_text_of_others_is_shown_and_never_is_markup() -> None:
    hostile = '"><script>alert(1)</script>'
    one = portrait(reference=hostile, remarks=(hostile,), layers=(Layer(name=hostile, digest=hostile, size=9),))
    seen = Seen(page(one, TEMPLATES))
    assert "script" not in seen.tags
    assert "<b>Slow</b> on GB10." in seen.text
    assert seen.text.count(hostile) >= 3


def test_the_page_has_what_the_image_has() -> None:
    text = Seen(page(portrait(), TEMPLATES, built=build(), before=build("1" * 64, 1, base=100))).text
    for part in ("gb10/test:1", "Layers by size", "libtorch_cuda.so", "The build", "Against the build before"):
        assert part in text
    for part in ("0001-fix.patch", "gone in 0.40", "fixed-memory", "735.1 MB", "55 CPU s"):
        assert part in text


@pytest.mark.parametrize(
    ("value", "told"), [(1_068_700_000, "1,068.7 MB"), (7_230_000_000, "7.23 GB"), (0, "0.0 MB"), (-5e9, "-5.00 GB")]
)
def test_sizes(value: float, told: str) -> None:
    assert megabytes(value) == told


@pytest.mark.parametrize(("seconds", "told"), [(1.25, "1.2 s"), (546, "9 min 6 s"), (3725, "1 h 2 min")])
def test_times(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_the_life_of_a_patch() -> None:
    assert life(PatchStory(source="a", name="b", sha256="c")) == "not of this checkout"
    known = PatchStory(source="a", name="b", sha256="c", applies=">=1", since="0.9")
    assert life(known) == "defect since 0.9; applied to >=1; not mended upstream yet"
