"""What `show` prints of an image, with and without each of its parts, and of two images; its page."""

from dataclasses import replace

import pytest

from gb10.cli.look.show import difference_lines, portrait_lines
from gb10.cli.values import override
from gb10.core.reporter import Timing
from gb10.errors import UsageError
from gb10.image.inspect.build_log import Build, Step
from gb10.image.inspect.differences import differences
from gb10.image.inspect.report_page import page
from gb10.image.inspect.summary import Layer, ModStory, PatchStory
from gb10.image.plan.catalog import ROOT, Catalog
from tests.golden.conftest import Golden, section
from tests.unit.made_up_images import KEY, plan_of
from tests.unit.made_up_portrait import RULES, portrait

LONG = "It is slow on GB10 since each step waits for the host, which copies what no kernel reads afterwards. " * 2


def test_portraits(golden: Golden) -> None:
    own = {"name": "a-long-name", "action": "drop", "mb": 1200.0, "publish": False}
    plan = plan_of(slim=[*RULES, own], **{"without-patches": ["vllm", "cutlass"]})
    patch = PatchStory(source="vllm", name="0002", sha256="f" * 64, defect="", applies="", until="", upstream="")
    whole = portrait()
    shown = {
        "one of everything": whole,
        "of another user, in a registry": portrait(user="1000:1000", packed=True, place="registry.example"),
        "of root by name": portrait(user=""),
        "without a record": portrait(plan=None, patches=(), mods=(), packages={}, debs={}, verdict=None),
        "without Debian": portrait(debs={}, packages={"other": "1"}),
        "without patches, and with rules of one's own": portrait(plan=plan, patches=()),
        "patches that this checkout has not": portrait(
            patches=(patch, replace(patch, origin="https://a.example/1.patch"), replace(whole.patches[0], defect=LONG))
        ),
        "a defect that is not mended": portrait(patches=(replace(whole.patches[0], until="", upstream=""),)),
        "mods that this checkout has not": portrait(mods=(ModStory(name="m", sha256="e" * 64, what=""),)),
        "no layers": portrait(layers=()),
        "with remarks": portrait(remarks=("it is old", "\x1b[31mred")),
    }
    found = [section(title, "\n".join(portrait_lines(one))) for title, one in shown.items()]
    other = portrait(
        reference="gb10/test:2",
        size=2_000_000_000,
        packages={"torch": "2.15.0", "new": "1"},
        layers=(*whole.layers[:1], Layer(name="layer-torch", digest="sha256:z", size=1_500_000)),
        user="7",
    )
    found += [
        section("the same", "\n".join(difference_lines(differences(whole, whole)))),
        section("another", "\n".join(difference_lines(differences(whole, other)))),
        section("back", "\n".join(difference_lines(differences(other, whole)))),
    ]
    golden("render/portraits.txt", "\n\n".join(found) + "\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [("a=b", ("a", "b")), ("a=", ("a", "")), ("a.b=c=d", ("a.b", "c=d")), (" a = b ", (" a ", " b "))],
)
def test_a_parameter_and_its_value(text: str, found: tuple[str, str]) -> None:
    assert override(text) == found


@pytest.mark.parametrize("text", ["a", "=b", " =b", "", "a=\udce9", "\ud800=b"])
def test_what_is_no_parameter(text: str) -> None:
    with pytest.raises(UsageError, match=r"has no value|is not UTF-8 text"):
        override(text)


def test_the_page(golden: Golden) -> None:
    """Its layers, packages, kernels, tasks and patches: the numbers are the places of boxes and bars."""
    whole = portrait(
        layers=(
            Layer(name="base", digest="sha256:a", size=2_100_000_000),
            Layer(name="layer-torch", digest="sha256:b", size=800_000_000),
            Layer(name="layer-rest", digest="sha256:d", size=90_000_000),
            Layer(name="record", digest="sha256:c", size=0),
        ),
        size=3_000_000_000,
        groups={
            "layer-torch": {"torch": 600_000_000, "nvidia/cudnn": 190_000_000, "vllm": 9_000_000},
            "layer-rest": {"alone": 90_000_000},
            "base": {"debian": 2_200_000_000, "more": 20_000_000},
        },
    )
    tasks = (
        Timing("later", 3000.0, False, 90.0),
        Timing("download", 99.0, False, 0.0),
        Timing("blink", 0.01, False, 4.0),
        Timing("kept", 0.0, True, 5.0),
        *(Timing(f"small {number}", 1.0 + number, False, 200.0 - number) for number in range(23)),
    )
    steps = (
        Step(name="later", kind="wheel", hit=False, cpu=5000.0),
        Step(name="download", kind="wheel", hit=True, cpu=7.0),
    )
    made = Build(
        key=KEY,
        tag="gb10/test:1",
        digest="d",
        size=3_000_000_000,
        ended=2,
        cores=2,
        tasks=tasks,
        steps=steps,
        layers={},
    )
    before = replace(made, key="1" * 64, size=2_900_000_000, layers={"sha256:a": 5, "sha256:old": 700_000_000})
    templates = Catalog(ROOT).templates
    shown = {
        "one of everything": page(whole, templates, built=made, before=before),
        "without a plan": page(replace(whole, plan=None, verdict=None, patches=(), mods=()), templates),
    }
    found = [section(title, text.partition("</style>")[2]) for title, text in shown.items()]
    golden("render/report.html", "\n\n".join(found) + "\n")
