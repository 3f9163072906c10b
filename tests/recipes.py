"""The shipped catalog; small recipes (Debian's base and what a test adds), and locks without packages."""

import datetime
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Generic, TypeVar

from gb10.image.lock.lockfile import base_digest, input_digest
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options, PatchUse
from gb10.image.plan.values import Plan, Toolkit
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedCheckout, LockedDebs, LockedWheels

T = TypeVar("T")
SHIPPED: Final = Catalog(ROOT)
"""The checkout's files, read once for all tests of a worker."""
CUTLASS: Final = PatchUse(
    source="cutlass",
    project="flashinfer-python",
    name="0001-b",
    sha256="2" * 64,
    installable=False,
    folder="3rdparty/cutlass",
)
"""A patch of what FlashInfer's source archive bundles."""


class Same(Generic[T]):
    """A value that equals itself alone."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def plan_of(recipe: Recipe, lock: Lock, toolkit: Toolkit, options: Options) -> Plan:
    """A plan, made once for the very same inputs: test after test compares another one with the shipped recipe's."""
    if options.patches:  # some of their parts have no hash
        return plan_image(recipe, lock, toolkit, options)
    return _plan_of(Same(recipe), Same(lock), Same(toolkit), options)


@lru_cache(maxsize=8)
def _plan_of(recipe: Same[Recipe], lock: Same[Lock], toolkit: Same[Toolkit], options: Options) -> Plan:
    return plan_image(recipe.value, lock.value, toolkit.value, options)


def moved(before: Plan, after: Plan) -> set[str]:
    """The steps of a plan that another one has not, or with another key."""
    keys = {step.name: step.key for step in before.steps}
    return {step.name for step in after.steps if keys.get(step.name) != step.key}


def small_recipe(own: str, *, requirements: str = "[]") -> str:
    """A recipe's text; ``own`` holds the test's lines."""
    return f"""\
engine: small
version: "1"
repository: gb10/small
python: "3.13"
cuda: "13.0"
base: {{suite: trixie, packages: {{image: []}}}}
requirements: {requirements}
{own}layers: [{{name: all, rest: true}}]
workdir: /
"""


def empty_lock(recipe: Recipe, sdists: Mapping[str, LockedCheckout] | None = None) -> Lock:
    """A lock that holds these sources alone."""
    none = {"amd64": (), "arm64": ()}
    return Lock(
        input_digest=input_digest(recipe),
        base_digest=base_digest(recipe),
        created=datetime.date(2026, 1, 2),
        debs=LockedDebs.model_validate({"image": none, "build": none}),
        wheels=LockedWheels.model_validate({"image": none, "tools": none}),
        sdists={**(sdists or {})},
    )
