"""Mistakes in model recipes: each is found with its line, and nothing is rendered; hostile files end in one issue."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.cli.models.recipe_show import own_lines
from gb10.errors import UsageError
from gb10.image.request.recipe_mods import load_file
from gb10.models.issue import errors_of
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.known_keys import closest, edits
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.mending import mended_text
from gb10.models.load.model_recipe import own_section
from gb10.models.load.safe_yaml import LARGEST, MOST
from gb10.models.registries.recipe_file import RecipeFile, find_recipe
from gb10.models.render.rendered import Peer, RenderRequest
from gb10.models.render.rendering import render_recipe
from tests.hang import no_hang

V1 = """\
recipe_version: "1"
name: Example
container: vllm-node
defaults:
  port: 8000
command: |
  vllm serve example/model \\
    --port {port}
"""
V2 = """\
model: example/model
container: example/image:1
defaults:
  port: 8000
  tensor_parallel: 2
command: |
  vllm serve {model} \\
    --port {port} -tp {tensor_parallel}
"""
OWN = """\
gb10:
  engine: vllm
  releases: ">=0.20"
  status: published
  measured:
    - {engine: vllm, release: 0.20.2, nodes: 2, concurrency: 1, tokens_per_s: 21.5, date: 2026-04-13, measured_by: them,
       source: somewhere}
  variants:
    fast: {what: With more, set: {port: 9000, env.A: "1"}}
"""
MISTAKES: dict[str, tuple[str, tuple[str, ...], str, int]] = {
    "a placeholder without a value": (V1.replace("{port}", "{prot}"), (), "missing-placeholder", 8),
    "one in version 2": (V2.replace("{port}", "{prot}"), ("a", "b"), "missing-placeholder", 8),
    "the model in version 1": (V1.replace("example/model", "{model}"), (), "missing-placeholder", 7),
    "a placeholder without a name": (V1.replace("{port}", "{}"), (), "positional-placeholder", 8),
    "a numbered placeholder": (V1.replace("{port}", "{0}"), (), "positional-placeholder", 8),
    "a model that is a mapping": (
        V2.replace("model: example/model", "model: {id: example/model}"),
        (),
        "wrong-type",
        1,
    ),
    "a brace that opens": (V1.replace("{port}", "{port"), (), "stray-brace", 8),
    "a brace that closes": (V1.replace("{port}", "port}"), (), "stray-brace", 8),
    "an attribute that is not there": (V1.replace("{port}", "{port.x}"), (), "bad-placeholder", 0),
    "a gigabyte of blanks": (V1.replace("{port}", "{port:>1000000000}"), (), "bad-placeholder", 0),
    "both flags": (V1 + "solo_only: true\ncluster_only: true\n", (), "both-only-flags", 9),
    "several nodes wanted": (V1 + "cluster_only: true\n", (), "needs-several-nodes", 9),
    "one node wanted": (V1 + "solo_only: true\n", ("a", "b"), "needs-one-node", 9),
    "too few nodes": (V2, ("a",), "too-few-nodes", 3),
    "more than the recipe allows": (V2 + "max_nodes: 1\n", ("a", "b"), "too-many-nodes", 3),
    "no number of nodes": (V2 + "min_nodes: 3\nmax_nodes: 2\n", ("a", "b"), "wrong-node-count", 10),
    "a number that is none": (V2 + "max_nodes: many\n", ("a", "b"), "wrong-node-count", 9),
    "a duplicate key": (V2 + "model: other\n", ("a", "b"), "duplicate-key", 9),
    "a duplicate parameter": (V2.replace("  port: 8000\n", "  port: 1\n  port: 2\n"), ("a", "b"), "duplicate-key", 5),
    "a misspelt key": (V2.replace("defaults:", "default:"), ("a", "b"), "misspelt-key", 3),
    "a misspelt container option": (V2 + "executor_config:\n  shmsize: 1\n", ("a", "b"), "misspelt-key", 10),
    "a key of newer releases": (V2 + "overrides: []\n", ("a", "b"), "not-supported", 9),
    "a key that is missing": (V1.replace("name: Example\n", ""), (), "missing-key", 0),
    "no model": (V2.replace("model: example/model\n", ""), ("a", "b"), "missing-key", 0),
    "a list in place of a mapping": (V2.replace("  port: 8000\n  tensor_parallel: 2", "- 1"), (), "wrong-type", 3),
    "a runtime that is none": (V2 + "runtime: fast\n", ("a", "b"), "unknown-runtime", 9),
    "a size that is no number": (V2.replace("tensor_parallel: 2", "tensor_parallel: two"), (), "wrong-type", 5),
    "a variable that runs a command": (V2 + "env:\n  A;true;B: 1\n", ("a", "b"), "wrong-env-name", 10),
    "a token in the file": (V2 + "env:\n  HF_TOKEN: hf_x\n", ("a", "b"), "secret-in-recipe", 10),
    "an unknown key of ours": (V2 + OWN + "  notse: []\n", ("a", "b"), "own-section", 18),
    "a status without a row": (V2 + OWN.replace("0.20.2", "0.19.1"), ("a", "b"), "own-section", 12),
    "a status of a forked release": (V2 + OWN.replace("0.20.2", "nightly"), ("a", "b"), "own-section", 12),
    "a status of other model files": (
        V2 + OWN.replace("{engine", "{checkpoint: other/files, engine"),
        ("a", "b"),
        "own-section",
        12,
    ),
    "a status that others measured": (V2 + OWN.replace("published", "measured"), ("a", "b"), "own-section", 12),
    "a row without a source": (V2 + OWN.replace("source", "from"), ("a", "b"), "own-section", 14),
    "a throughput of nothing": (V2 + OWN.replace("21.5", "0"), ("a", "b"), "own-section", 14),
    "a throughput without end": (V2 + OWN.replace("21.5", ".inf"), ("a", "b"), "own-section", 14),
    "a throughput and a failure": (
        V2 + OWN.replace("tokens_per_s", "failure: x, tokens_per_s"),
        ("a", "b"),
        "own-section",
        14,
    ),
    "a date that is none": (V2 + OWN.replace("2026-04-13", "April"), ("a", "b"), "own-section", 14),
    "a row of an unknown variant": (
        V2 + OWN.replace("nodes: 2", "nodes: 2, variant: x").replace("published", "not measured"),
        ("a", "b"),
        "own-section",
        14,
    ),
    "a variant of an unknown parameter": (V2 + OWN.replace("{port", "{prot"), ("a", "b"), "own-section", 17),
    "releases that are no range": (V2 + OWN.replace(">=0.20", "new"), ("a", "b"), "own-section", 11),
    "no YAML": ("a: [", (), "not-yaml", 1),
    "no mapping": ("- 1", (), "not-a-recipe", 0),
    "nothing": ("", (), "not-a-recipe", 0),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_line_and_a_fix_and_nothing_is_rendered(name: str) -> None:
    text, nodes, code, line = MISTAKES[name]
    found = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(nodes=nodes))
    issue = next(one for one in errors_of(found.issues) if one.code == code)
    assert line in (0, issue.line), issue
    assert (issue.text, issue.fix) != ("", "")
    assert (found.script, found.ranks, found.launch) == (None, (), ())


@pytest.mark.parametrize(("text", "nodes"), [(V1, ()), (V1, ("a", "b")), (V2, ("a", "b")), (V2, ("a", "b", "c"))])
def test_a_good_recipe_has_no_error(text: str, nodes: tuple[str, ...]) -> None:
    found = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(nodes=nodes))
    assert errors_of(found.issues) == ()
    assert found.script


def test_our_script_quotes_what_a_shell_would_read() -> None:
    recipe = load_model_recipe(V2 + "env:\n  A: $(true) 'b'\n", "x.yaml")
    request = RenderRequest(nodes=("a", "b"), arguments=("--x", "{a: 1}"), overrides=(("env.B", "c d"),))
    found = render_recipe(recipe, request)
    assert found.script is not None
    assert "export A='$(true) '\"'\"'b'\"'\"''\nexport B='c d'\nvllm serve" in found.script
    assert found.script.endswith("--x '{a: 1}'\n")
    assert [one.command for one in found.containers] == [rank.command for rank in found.ranks]
    assert found.ranks[1].command.endswith("--headless --x '{a: 1}'")


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("by: them", "by: gb10", "measured"),
        ("by: them", "by: them", "published"),
        ("nodes: 2", "nodes: 2, variant: fast", "published"),
        (">=0.20", "<0.20", "not measured"),
        ("date: 2026-04-13, ", "", "not measured"),
        ("date: 2026-04-13", "date: 2026-04", "published"),
    ],
)
def test_the_rows_decide_the_status(old: str, new: str, status: str) -> None:
    text = V2 + OWN.replace(old, new).replace("status: published", f"status: {status}")
    recipe = load_model_recipe(text, "x.yaml")
    assert errors_of(recipe.issues) == ()
    own = own_section(recipe)
    assert {own.status_of(None), own.status_of("fast")} == {status, "not measured"}


def test_a_variant_comes_before_what_the_user_sets() -> None:
    recipe = load_model_recipe(V2 + OWN, "x.yaml")
    plain, fast, both = (
        render_recipe(recipe, RenderRequest(nodes=("a", "b"), variant=variant, overrides=overrides)).script or ""
        for variant, overrides in ((None, ()), ("fast", ()), ("fast", (("port", "7000"),)))
    )
    assert [re.findall(r"--port (\d+)", text) for text in (plain, fast, both)] == [["8000"], ["9000"], ["7000"]]
    assert ["export A=1" in text for text in (plain, fast, both)] == [False, True, True]


@pytest.mark.parametrize("text", [V2, V2 + OWN])
def test_an_unknown_variant_is_refused_with_the_known_ones(text: str) -> None:
    found = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(nodes=("a", "b"), variant="slow"))
    (issue,) = errors_of(found.issues)
    assert issue.code == "unknown-variant"
    assert ("fast" in issue.fix) == (text != V2)
    assert found.script is None


@pytest.mark.parametrize("section", ["mods", "env", "defaults"])
def test_a_section_with_nothing_in_it_is_empty(section: str) -> None:
    text = (
        V1.replace("{port}", "8000").replace("defaults:\n  port: 8000\n", "")
        + f"{section}:\n  # - all is commented out\n"
    )
    assert render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest()).script


@pytest.mark.parametrize("peer", ["eugr", "sparkrun"])
def test_lenient_goes_on_where_the_peer_does(peer: Peer) -> None:
    text = V1 + "model: example/model\nmodel: example/model\ncomand: x\n"
    strict = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(peer=peer))
    lenient = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(peer=peer, lenient=True))
    assert {issue.code for issue in errors_of(strict.issues)} == {"duplicate-key", "misspelt-key"}
    assert errors_of(lenient.issues) == ()
    assert {issue.code for issue in lenient.issues} >= {"duplicate-key", "misspelt-key"}
    assert lenient.script


def test_lenient_stops_where_the_peer_stops() -> None:
    recipe = load_model_recipe(V1.replace("{port}", "{nothing}"), "x.yaml")
    found = render_recipe(recipe, RenderRequest(peer="eugr", lenient=True))
    assert found.script is None
    assert [issue.code for issue in errors_of(found.issues)] == ["missing-placeholder"]


def test_every_part_has_its_line() -> None:
    recipe = load_model_recipe(V1 + "mods:\n  - mods/a\n  - mods/b\n", "x.yaml")
    assert (recipe.line("command"), recipe.line("defaults", "port"), recipe.line("mods", 1)) == (6, 5, 11)
    assert recipe.text_line(("command",), str(recipe.values["command"]).index("--port")) == 8
    assert recipe.line("nothing") == 0


HOSTILE: dict[str, str] = {
    "a list that holds itself": "a: &a [*a]",
    "a bomb of aliases": "a: &a [1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"b{n}: &b{n} [{','.join(['*' + ('a' if n == 0 else f'b{n - 1}')] * 9)}]\n" for n in range(9)),
    "800 nested lists": "a: " + "[" * 800,
    "nested keys": "? " * 800,
    "a tag on an empty number": "user: !!int ''",
    "a tag that runs code": "a: !!python/object/apply:os.system [true]",
    "an escape beyond Unicode": r'a: "\UFFFFFFFF"',
    "a base 60 float": "user: 1" + ":59" * 5000 + ".5",
    "a month that is none": "a: 2026-13-45",
    "many values": "a: [" + "a," * MOST,
    "a long text": "a: " + "x" * LARGEST,
    "a character that is none": "a: \x00",
    "two documents": "a: 1\n---\nb: 2",
    "half of a character": r'container: "\udcff"',
    "half of a character in a key": r'env: {"A\ud800": 1}',
    "half of a character in a list": r'mods: [x, "\uDBFF"]',
    "half of a character in its own text": "a: \udcff",
}


@pytest.mark.parametrize("name", HOSTILE)
@no_hang()
def test_a_hostile_file_is_one_error_in_little_time(name: str) -> None:
    issues = errors_of(load_model_recipe(HOSTILE[name], "x.yaml").issues)
    assert [issue.code for issue in issues] == ["not-yaml"]


def test_fix_mends_what_has_one_way() -> None:
    text = V1.replace("example/model", "{model}").replace("--port {port}", "--port {port} \\ \n    --json '{\"a\": 1}'")
    text = text.replace("container:", "contaner:") + "model: example/model\n"
    mended, done = mended_text(text, "x.yaml")
    assert len(done) == 4
    found = render_recipe(load_model_recipe(mended, "x.yaml"), RenderRequest())
    assert found.script is not None
    assert "vllm serve example/model" in found.script
    assert "'{\"a\": 1}'" in found.script
    assert mended_text(mended, "x.yaml") == (mended, [])


@pytest.mark.parametrize(
    ("one", "other", "distance"), [("", "abc", 3), ("mode", "model", 1), ("kitten", "sitting", 3), ("ab", "ba", 2)]
)
def test_edits_are_levenshteins(one: str, other: str, distance: int) -> None:
    assert edits(one, other) == edits(other, one) == distance


def test_the_closest_key_is_within_two_edits() -> None:
    assert closest("min_node", ("min_nodes", "max_nodes")) == "min_nodes"
    assert closest("image_tag", ("container", "model")) is None


def checkout(folder: Path) -> Path:
    (folder / "mods/there").mkdir(parents=True)
    (folder / "recipes").mkdir()
    path = folder / "recipes/x.yaml"
    path.write_text(V1 + "mods: [mods/there, mods/gone, mods/fixed-memory]\n", encoding="utf-8")
    return path


def test_a_mod_that_is_nowhere_is_an_error_where_mods_can_be_seen(tmp_path: Path) -> None:
    issues = [issue for issue in load_file(RecipeFile(checkout(tmp_path))).issues if issue.code == "missing-mod"]
    assert [("gone" in issue.text, issue.level, issue.line) for issue in issues] == [(True, "error", 9)]


UNREADABLE: dict[str, Callable[[Path], str]] = {
    "nothing there": lambda folder: str(folder / "none.yaml"),
    "a folder": str,
    "a name like one of ours": lambda folder: "qwen3-0.6",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_recipe_that_cannot_be_found_is_a_usage_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_recipe(UNREADABLE[name](tmp_path))
    assert name != "a name like one of ours" or "qwen3-0.6b" in str(caught.value)


@pytest.mark.parametrize("content", [b"a: 1\nb: \xff\n", b"\n\xff"])
def test_bytes_that_are_no_text_are_a_usage_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="not UTF-8") as caught:
        load_file(RecipeFile(path))
    assert "x.yaml:2" in str(caught.value)


@pytest.mark.parametrize("peer", [None, "sparkrun"])
def test_sglang_without_a_command_takes_the_commit_of_the_recipe(peer: Peer | None) -> None:
    head = "model: org/m\nruntime: sglang\ncontainer: a/b:1\ndefaults: {revision: '{model_revision}'}\n"
    found = render_recipe(load_model_recipe(f"{head}model_revision: {'ab' * 20}\n", "x.yaml"), RenderRequest(peer=peer))
    assert f"--revision {'ab' * 20}" in (found.serve or "")
    found = render_recipe(load_model_recipe(head, "x.yaml"), RenderRequest(peer=peer))
    assert [issue.code for issue in found.issues] == ["missing-placeholder"]


def test_a_figure_of_others_is_not_called_measured_and_not_measured() -> None:
    """TensorRT-LLM's rows say neither their release nor their date, so the recipe's throughput is not measured."""
    lines = list(own_lines(own_section(load_file(find_recipe("qwen3-30b-a3b-nvfp4-trtllm")))))
    assert any(line.startswith("throughput") and "not measured by gb10; what others report" in line for line in lines)
    figures = [line for line in lines if "tokens/s" in line]
    assert len(figures) == 3
    assert not any(line.startswith("measured") for line in figures)


@pytest.mark.parametrize(
    ("more", "form"),
    [("", "v1"), ("runtime: vllm\n", "v2"), ("metadata: {model_dtype: fp8}\n", "v2"), ("min_nodes: 1\n", "v2")],
)
def test_version_1_with_keys_of_sparkrun_is_a_recipe_for_sparkrun(more: str, form: str) -> None:
    text = f'recipe_version: "1"\nmodel: org/m\n{more}defaults: {{d: \'{{"a":1}}\'}}\n'
    recipe = load_model_recipe(f"{text}command: vllm serve {{model}} --hf-overrides '{{d}}'\n", "x.yaml")
    assert recipe.format == form
    errors = {one.code for one in lint(recipe, load_rules()).issues if one.level == "error"}
    assert bool(errors & {"missing-key", "missing-placeholder"}) == (form == "v1")
