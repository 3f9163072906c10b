"""Portraits of images: layers and their names, what differs between two, the lines."""

import json

import pytest

from gb10.cli.look.show import difference_lines, portrait_lines
from gb10.containers.images import ImageInfo
from gb10.image.inspect.differences import changes, differences
from gb10.image.inspect.differences import document as difference_document
from gb10.image.inspect.local import layers_of, shortened
from gb10.image.inspect.summary import Layer, document, layer_names
from gb10.inside.scan.installed import package_of
from tests.unit.made_up_images import KEY, SITE, plan_of
from tests.unit.made_up_portrait import STEPS, portrait


def test_layers_have_the_names_of_their_steps() -> None:
    plan = plan_of(steps=STEPS)
    names = ["base", "layer-torch", "layer-rest", "graft-vllm", "settings", "mod-1", "record", "workdir"]
    assert layer_names(plan, {}, 8) == names
    assert layer_names(plan, {}, 7) == names[:-1]
    assert layer_names(plan, {"io.github.gb10.overlay": "x"}, 8)[5:7] == ["overlay", "mod-1"]
    assert layer_names(plan, {}, 5) == []


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        ([("ADD base", 5), ("COPY x", 7), ("ENV A=b", 0)], [5, 7]),
        ([("ADD base", 5), ("WORKDIR /w", 0), ("CMD x", 0)], [5, 0]),
        ([("/bin/sh -c #(nop)  ADD file", 5), ("/bin/sh -c #(nop)  ENV A=b", 0), ("/bin/sh -c make", 9)], [5, 9]),
        ([("one", 5)], [0, 0]),
    ],
)
def test_sizes_of_layers_by_the_engines_history(made: list[tuple[str, int]], sizes: list[int]) -> None:
    image = ImageInfo(id="sha256:1", size=1, diff_ids=("a", "b"), platform="linux/arm64", tags=())
    assert [layer.size for layer in layers_of(None, image, made)] == sizes


def test_odd_words_of_foreign_images() -> None:
    assert shortened("/bin/sh -c #(nop)  ENV   A=b\n c") == "ENV A=b c"
    assert len(shortened("x" * 999)) == 60


@pytest.mark.parametrize(
    ("path", "package"),
    [
        (f"{SITE}/torch/lib/libtorch.so", "torch"),
        (f"{SITE}/nvidia/cudnn/lib/x.so", "nvidia/cudnn"),
        (f"{SITE}/torchvision.libs/x.so", "torchvision"),
        (f"{SITE}/_cffi.so", "_cffi.so"),
        ("usr/lib/aarch64-linux-gnu/libc.so.6", "usr/lib"),
        ("opt/venv/lib/python3.12/site-packages/vllm/_C.so", "vllm"),
        ("x.so", "/"),
    ],
)
def test_the_package_of_a_file(path: str, package: str) -> None:
    assert package_of(path) == package


def test_what_changed_between_two_images() -> None:
    layers = (Layer(name="base", digest="sha256:a", size=100), Layer(name="layer-torch", digest="sha256:z", size=900))
    two = portrait(
        reference="gb10/test:2", layers=layers, packages={"torch": "2.15.0", "numpy": "2"}, patches=(), user="1000"
    )
    found = differences(portrait(), two)
    assert (found.shared, found.moved, found.new) == (1, 1, 900)
    assert found.sections["packages"] == (("numpy", "", "2"), ("torch", "2.14.0", "2.15.0"), ("vllm", "0.33.0", ""))
    assert found.sections["patches"] == (("vllm/0001-fix.patch", KEY[:12], ""),)
    assert found.sections["settings"] == (("user", "0", "1000"),)
    lines = difference_lines(found)
    assert "  torch  2.14.0  ->  2.15.0" in lines
    assert "1 are new: 0.0 MB to pull" in lines[1]
    assert json.loads(json.dumps(difference_document(found)))["changes"]["packages"][0]["two"] == "2"


def test_an_image_and_itself_do_not_differ() -> None:
    found = differences(portrait(), portrait())
    assert found.same
    assert difference_lines(found)[-1] == "no difference"
    assert changes({"a": "1"}, {"a": "1"}) == ()


def test_the_lines_of_a_portrait() -> None:
    lines = portrait_lines(portrait())
    assert lines[0] == "gb10/test:1  linux/arm64  0.00 GB in 3 layers"
    for part in (
        "  torch  2.14.0",
        "2 Python packages, and 1 Debian packages",
        "1 patches",
        "  code     735.1 MB  code",
    ):
        assert part in lines
    assert "starts as root, from Docker" in lines
    escaped = portrait_lines(portrait(reference="\x1b[31mred"))
    assert escaped[0].startswith("\\x1b[31mred")


def test_the_document_of_a_portrait() -> None:
    found = document(portrait())
    assert (found["schema"], found["ours"], found["key"]) == ("gb10/show/v1", True, KEY)
    assert found["patches"][0]["defect"] == "<b>Slow</b> on GB10."
    assert found["gpu_code"]["native"] == 1
    assert "key" not in document(portrait(plan=None))
