"""Inputs with very many parts: the time that they take does not grow with the square."""

from gb10.image.patches.apply import apply_diff
from gb10.image.patches.diff import parse_diff
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.loading import load_model_recipe
from tests.hang import no_hang
from tests.unit.image.test_patches_diff import NAMES, one
from tests.unit.models.test_lint import CASES, recipe_text


@no_hang()
def test_very_many_files_and_hunks_end() -> None:
    files = b"".join(b"--- /dev/null\n+++ b/%d.py\n@@ -0,0 +1 @@\n+a\n" % number for number in range(15_000))
    assert len(parse_diff(files, "many.patch")) == 15_000
    before = [b"line %d\n" % number for number in range(20_000)]
    hunks = [
        b"@@ -%d,3 +%d,3 @@\n line %d\n-line %d\n+new\n line %d\n" % (at + 1, at + 1, at, at + 1, at + 2)
        for at in range(0, 20_000, 10)
    ]
    applied = apply_diff(one(NAMES + b"".join(hunks)), b"".join(before)).content
    assert applied == b"".join(b"new\n" if number % 10 == 1 else line for number, line in enumerate(before))


@no_hang()
def test_700_recipes_are_checked() -> None:
    texts = [recipe_text(case["hit"], case.get("engine", "vllm")) for case in CASES.values()]
    recipes = (texts * (700 // len(texts) + 1))[:700]
    found = [lint(load_model_recipe(text, "x.yaml"), load_rules()) for text in recipes]
    assert len(found) == 700
