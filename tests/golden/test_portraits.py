"""What `show` prints of an image, with and without each of its parts, and of two images."""

from dataclasses import replace

import pytest

from gb10.cli.look.show import difference_lines, portrait_lines
from gb10.cli.values import override
from gb10.errors import UsageError
from gb10.image.inspect.differences import differences
from gb10.image.inspect.summary import Layer, ModStory, PatchStory
from tests.golden.conftest import Golden, section
from tests.unit.made_up_images import plan_of
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
