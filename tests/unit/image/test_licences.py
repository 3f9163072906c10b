"""Which packages that were compiled here may be given on, by what their metadata says."""

import json
import zipfile
from pathlib import Path

import pytest

from gb10.core.store import seal
from gb10.errors import PublishError
from gb10.image.build.wheels import WheelCache
from gb10.image.context import open_context
from gb10.image.plan.plan_record import PACKAGES
from gb10.image.publish.licences import allowed, licence_problem, require_licences
from gb10.image.publish.sharing import compiled_wheels

KEY = "a" * 64


def metadata(*lines: str) -> bytes:
    return "\n".join(("Metadata-Version: 2.4", "Name: conv", "Version: 1.0", *lines, "")).encode()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("License-Expression: MIT",), ""),
        (("License-Expression: AGPL-3.0-only",), "its licence is AGPL-3.0-only"),
        (("License-Expression: MIT AND GPL-3.0-only",), "its licence is MIT AND GPL-3.0-only"),
        (("License-Expression: Apache-2.0 OR GPL-2.0-only",), ""),
        (("Classifier: License :: OSI Approved :: BSD License",), ""),
        (("License: a text\n        of many lines", "Classifier: License :: OSI Approved :: MIT License"), ""),
        (("Classifier: License :: OSI Approved :: GNU Affero General Public License v3",), "its licence is GNU Affero"),
        (("Classifier: License :: Other/Proprietary License",), "its licence is Other/Proprietary License"),
        (("License: MIT",), ""),
        (("License: Apache 2.0",), ""),
        (("License: my own",), "its licence is my own"),
        (("License: UNKNOWN",), "it names no licence"),
        ((), "it names no licence"),
    ],
)
def test_a_licence_is_read_where_metadata_has_it(lines: tuple[str, ...], why: str) -> None:
    found = licence_problem(metadata(*lines))
    assert found.startswith(why) if why else not found


@pytest.mark.parametrize(
    ("expression", "given"),
    [
        ("MIT", True),
        ("mit", True),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("(MIT OR GPL-2.0-only) AND AGPL-3.0-only", False),
        ("LicenseRef-mine", False),
        ("no licence at all", False),
    ],
)
def test_an_expression_is_taken_only_as_it_is_known(expression: str, given: bool) -> None:
    assert allowed(expression) == given


def packed(folder: Path, licence: str, kind: str = "package") -> Path:
    folder.mkdir(parents=True)
    wheel = folder / "conv-1.0+gb10.aaaaaaaa-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("conv-1.0.dist-info/manifest.json", json.dumps({"set": kind, "modules": {}}))
        archive.writestr("conv-1.0.dist-info/METADATA", metadata(f"License-Expression: {licence}"))
    seal(wheel)
    return wheel


def test_an_image_is_refused_by_the_names_of_its_packages(tmp_path: Path) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    labels = {f"{PACKAGES}.conv": KEY, "org.opencontainers.image.title": "x"}
    with pytest.raises(PublishError, match="holds conv, whose wheel is not in the store"):
        require_licences(WheelCache(ctx), labels, "a/b:c")
    packed(ctx.store.entry("wheels", KEY), "AGPL-3.0-only")
    assert compiled_wheels(ctx.store).keys() == {KEY}
    with pytest.raises(PublishError, match="a/b:c is for this machine only") as caught:
        require_licences(WheelCache(ctx), labels, "a/b:c")
    assert caught.value.where == "conv: its licence is AGPL-3.0-only"


@pytest.mark.parametrize(("licence", "kind"), [("MIT", "package"), ("AGPL-3.0-only", "targets")])
def test_what_may_be_given_on_is_no_hindrance(tmp_path: Path, licence: str, kind: str) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    packed(ctx.store.entry("wheels", KEY), licence, kind)
    require_licences(WheelCache(ctx), {f"{PACKAGES}.conv": KEY}, "a/b:c")
