"""``show --base``: what a person and a program read of an image of others."""

import json

from gb10.cli.look.show import portrait_lines
from gb10.image.inspect.summary import document
from tests.unit.made_up_bases import REFERENCE, File, base, package, python
from tests.unit.made_up_portrait import portrait

DIST = "usr/local/lib/python3.12/dist-packages"
CHECKOUT = "sgl-workspace/sglang/python"
URL = json.dumps({"url": f"file:///{CHECKOUT}", "dir_info": {"editable": True}})
INFO = [row for row in package(DIST, "sglang", "0.5.9", direct_url__json=URL) if "dist-info" in row[0]]
FILES: list[File] = [*python(site="dist-packages"), *INFO, (f"{CHECKOUT}/sglang/__init__.py", "", "f")]


def test_a_base_is_a_section_for_people_and_all_of_it_for_programs() -> None:
    torch: list[File] = [*package(DIST, "torch", "2.14.0"), (f"{DIST}/torch/version.py", "cuda = None\n", "f")]
    one = portrait(base=base([*FILES, *torch], User="1000", Entrypoint=["/e x.sh"], Cmd=["a"], WorkingDir="/w"))
    lines = portrait_lines(one)
    begin = lines.index("as a base")
    assert lines[begin : begin + 11] == [
        "as a base",
        f"  engine       sglang 0.5.9 in /{CHECKOUT}, an editable checkout",
        "  python       3.12, /usr/bin/python3",
        f"  packages in  /{DIST}",
        "  torch        2.14.0, without CUDA",
        "  glibc        not found",
        "  user         1000",
        "  entrypoint   '/e x.sh'",
        "  command      a",
        "  folder       /w",
        "",
    ]
    found = document(one)["base"]
    assert (found["reference"], found["engine"], found["version"]) == (REFERENCE, "sglang", "0.5.9")
    assert json.loads(json.dumps(found))["installed"]["sglang"]["editable"] is True


def test_without_an_engine_it_says_so_and_no_base_is_no_section() -> None:
    bare = portrait_lines(portrait(base=base(python())))
    assert "  engine       none" in bare
    assert "  torch        none" in bare
    assert "as a base" not in portrait_lines(portrait())
    assert "base" not in document(portrait())


def test_words_of_its_author_reach_no_terminal() -> None:
    one = portrait(base=base(FILES, Entrypoint=["\x1b[31mred"], User="\x1b]0;x\x07"))
    assert all(line.isprintable() for line in portrait_lines(one))
