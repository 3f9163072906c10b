"""Pages of results, and of an image, in Debian's Chromium without a network: light, dark, wide, and as a phone."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gb10.containers.connection import Engine, client
from gb10.core.store import Store
from gb10.image.inspect.report_page import page
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.rootfs.unpack import write_rootfs
from gb10.serving.benchmark.compared import compare_launches
from gb10.serving.benchmark.matrix import Done, read_matrix, rows_of
from gb10.serving.benchmark.pages import compare_page, html, matrix_page, serve_page
from gb10.serving.benchmark.published import published
from tests.integration.nodes import debs
from tests.served import document, line, lines
from tests.unit.made_up_portrait import portrait

pytestmark = pytest.mark.e2e
IMAGE = "gb10/chromium:test"
AXES = "launch: serve\naxes:\n  moe: {triton: {}, flashinfer_cutlass: {}, a-rather-long-name-of-a-backend: {}}\n"
READABLE = 4.5
"""The least contrast of text, by WCAG."""
NOISE = (1.0, 1.01, 0.99, 1.004, 0.996)


def pages() -> Mapping[str, str]:
    """One page of each kind."""
    a = [document(30 * noise, 2 + noise) for noise in NOISE]
    b = [document(32 * noise, 3 - noise) for noise in NOISE]
    rows = rows_of(read_matrix(AXES, "axes"))
    results = [line(rows[0].name, 0, document(30)), line(rows[1].name, 1, document(9, verdict="GARBAGE")), None]
    done = [Done(row=row, line=one) for row, one in zip(rows, results, strict=True)]
    served = lines(a, [])[0].serve
    assert served is not None
    known = published("openai/gpt-oss-120b")
    return {
        "compare": html(compare_page(compare_launches(lines(a, b), ("image=a " * 20, "b"), margin=0.02), "by a test")),
        "matrix": html(matrix_page(done, {"recipe": "x"}, known, "by a test")),
        "serve": html(serve_page(served, known, "by a test")),
        "image": page(portrait(reference="gb10/test:1" + "-long" * 20), Catalog(ROOT).templates),
    }


@pytest.fixture(scope="module")
def seen(engine: Engine, store: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the browser saw; the pictures are left in the folder that is printed."""
    folder = tmp_path_factory.mktemp("pages")
    root = tmp_path_factory.mktemp("root") / "root.tar"
    write_rootfs(debs(store, "chromium", "chromium-driver", "fonts-noto-core", "python3", "bash"), root, epoch=0)
    for name, text in pages().items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    script = Path(__file__).parent / "inside/browse.py"
    with closing(client(engine)) as sdk:
        with root.open("rb") as stream:
            sdk.api.import_image_from_data(stream, repository=IMAGE.partition(":")[0], tag=IMAGE.partition(":")[2])
        try:
            said: bytes = sdk.containers.run(
                IMAGE,
                ["/usr/bin/python3", "/browse.py", "/pages"],
                remove=True,
                network_mode="none",
                environment={"HOME": "/tmp", "PATH": "/usr/bin:/bin"},  # noqa: S108 - in a container
                volumes={
                    str(folder): {"bind": "/pages", "mode": "rw"},
                    str(script): {"bind": "/browse.py", "mode": "ro"},
                },
            )
        finally:
            sdk.images.remove(IMAGE, force=True)
    print(f"pictures: {folder}/shots")
    found: dict[str, Any] = json.loads(said)
    return found


@pytest.mark.parametrize("name", ["compare", "matrix", "serve"])
@pytest.mark.parametrize("view", ["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_and_can_be_read(seen: dict[str, Any], name: str, view: str, scheme: str) -> None:
    found = seen[f"{name}-{view}-{scheme}"]
    assert (found["wide"], found["beyond"]) == (0, 0), "something is wider than the screen"
    assert found["charts"] >= 1
    assert found["rows"] >= 2
    assert found["text"] >= READABLE
    assert found["smallest"] >= 10
    assert found["requests"] == 0


@pytest.mark.parametrize("view", ["wide", "phone"])
def test_the_page_of_an_image_fits_light_and_dark(seen: dict[str, Any], view: str) -> None:
    light, dark = (seen[f"image-{view}-{scheme}"] for scheme in ("light", "dark"))
    for found in (light, dark):
        assert found["wide"] == 0, "something is wider than the screen"
        assert found["title"].startswith("gb10/test:1")
        assert found["rows"] >= 6
        assert found["requests"] == 0
    assert (light["paper"], dark["paper"]) == ("rgb(251, 250, 248)", "rgb(20, 23, 26)")


def test_dark_is_dark_and_nothing_is_wrong(seen: dict[str, Any]) -> None:
    papers = {scheme: seen[f"serve-wide-{scheme}"]["paper"] for scheme in ("light", "dark")}
    assert papers == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}
    assert seen["log"] == []
