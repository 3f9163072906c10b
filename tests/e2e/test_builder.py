"""A wheel and an image made by a remote builder: minutes of exporting and sending, so apart from `make test`."""

import pytest

from gb10.build.image_build import build_image
from gb10.build.stage import check_builder, ready_engine
from gb10.build.wheel_build import build_wheels
from gb10.engine.connection import Engine
from gb10.engine.images import find_image, require_image
from gb10.engine.reach import find
from gb10.workshop import Workshop
from tests.integration.test_builder import big as big  # noqa: PLC0414 - a fixture
from tests.integration.test_builder import other as other  # noqa: PLC0414 - a fixture
from tests.integration.test_pipeline import named_plan, small_plan
from tests.integration.test_pipeline import shop as shop  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.e2e


def test_a_wheel_comes_back_and_is_the_same(shop: Workshop, big: Workshop) -> None:
    plan = small_plan(shop)
    here = build_wheels(shop, plan, lambda: ready_engine(shop), rebuild=())[0]
    there = build_wheels(big, plan, lambda: check_builder(big, ready_engine(big)), rebuild=("flashinfer-jit-cache",))[0]
    assert (there.hit, there.sha256) == (False, here.sha256)


def test_an_image_is_built_there_and_comes_back(shop: Workshop, big: Workshop, other: Engine) -> None:
    plan = named_plan(shop, "built-elsewhere")
    built = build_image(big, plan, rebuild=(), tag=None)
    engine = find(shop.env, shop.store)
    there = require_image(engine, built.tags[-1])
    assert there.id == built.id
    assert find_image(other, built.tags[-1]) is None
    again = build_image(shop, plan, rebuild=(), tag=None)
    assert (again.hit, again.digest) == (True, built.digest)
