"""The portrait of an image with one of everything, made up."""

from dataclasses import replace

from gb10.image.inspect.summary import ImageSummary, Layer, ModStory, PatchStory
from gb10.image.proof.arch_match import judge
from gb10.image.recipe.arch import parse_arch
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.scan import Scan
from tests.unit.made_up_images import KEY, SITE, plan_of

STEPS = [
    {"name": name, "kind": kind, "key": KEY}
    for name, kind in (
        ("base-image", "rootfs"),
        ("layer-torch", "layer"),
        ("layer-rest", "layer"),
        ("graft-vllm", "graft"),
        ("mod-1", "mod"),
    )
]


RULES = [{"name": "code", "action": "code", "mb": 735.1, "publish": True}]


def library(name: str, size: int = 10, **codes: int) -> Binary:
    """A library of torch or another package."""
    units = (Unit(codes=codes, count=1),) if codes else ()
    return Binary(path=f"{SITE}/{name}", kind="elf", size=size, units=units)


def portrait(**fields: object) -> ImageSummary:
    """An image with one of everything."""
    binaries = (
        library("torch/lib/libtorch_cuda.so", 600, sm_120=4, compute_80=2),
        library("nvidia/cudnn/lib/libcudnn.so.9", 200, sm_121=1),
        library("vllm/_C.so", 100, sm_90a=3),
    )
    made = ImageSummary(
        reference="gb10/test:1",
        place="Docker",
        digest="sha256:" + KEY,
        platform="linux/arm64",
        created="2026-11-22",
        size=1_000,
        packed=False,
        layers=(
            Layer(name="base", digest="sha256:a", size=100),
            Layer(name="layer-torch", digest="sha256:b", size=800),
            Layer(name="record", digest="sha256:c", size=0),
        ),
        user="0",
        environment=("A=b",),
        plan=plan_of(steps=STEPS, slim=RULES, created="2026-11-22"),
        packages={"torch": "2.14.0", "vllm": "0.33.0"},
        debs={"libc6": "2.41"},
        verdict=judge(Scan(root="i", binaries=binaries), parse_arch("12.1f")),
        groups={"layer-torch": {"torch": 600, "nvidia/cudnn": 200, "vllm": 100}},
        patches=(
            PatchStory(
                source="vllm",
                name="0001-fix.patch",
                sha256=KEY,
                defect="<b>Slow</b> on GB10.",
                applies=">=0.22",
                until="0.40",
                upstream="https://example.invalid/1",
            ),
        ),
        mods=(ModStory(name="fixed-memory", sha256=KEY, what="It fixes the memory."),),
    )
    return replace(made, **fields)  # type: ignore[arg-type]
