"""What ``recipe fix`` mends of a recipe's text, to the byte; and what it leaves as it is."""

import pytest

from gb10.models.load.mending import mended_text

V1 = 'recipe_version: "1"\nname: n\nmodel: a/b\n'
V2 = 'recipe_version: "2"\nmodel: a/b\nruntime: vllm\n'


@pytest.mark.parametrize(
    ("text", "mended", "done"),
    [
        (
            f"{V2}comand: vllm serve x\n",
            f"{V2}command: vllm serve x\n",
            ["x.yaml:4: comand is now command"],
        ),
        (
            f"{V2}command: |\n  vllm serve x \\  \n    --port 1\n",
            f"{V2}command: |\n  vllm serve x \\\n    --port 1\n",
            ["x.yaml:5: blanks after the backslash are gone"],
        ),
        (
            f"{V1}command: |\n  vllm serve x --json '{{\"a\": 1}}'\n",
            f"{V1}command: |\n  vllm serve x --json '{{{{\"a\": 1}}}}'\n",
            ["x.yaml:5: literal braces are doubled"],
        ),
        (
            f"{V1}defaults:\n    port: 1\ncommand: |\n  vllm serve {{model}} --port {{port}}\n",
            f"{V1}defaults:\n    model: a/b\n    port: 1\ncommand: |\n  vllm serve {{model}} --port {{port}}\n",
            ["x.yaml:5: defaults has the model"],
        ),
        (
            f"{V1}env:\n  A: 'say \"x\"'  # why\ncommand: vllm serve x\n",
            f"{V1}env:\n  A: 'say \"x\"'  # why\ncommand: vllm serve x\n",
            [],
        ),
        (
            f"{V1}env:\n  A: 'say \"x\"'\ncommand: vllm serve x\n",
            f"{V1}env:\n  A: 'say \\\"x\\\"'\ncommand: vllm serve x\n",
            ["x.yaml:5: the quotation marks of A have a backslash"],
        ),
    ],
    ids=["key", "blanks", "braces", "model", "remark", "quotes"],
)
def test_a_mistake_with_one_way_out(text: str, mended: str, done: list[str]) -> None:
    assert mended_text(text, "x.yaml") == (mended, done)
    assert mended_text(mended, "x.yaml") == (mended, [])


@pytest.mark.parametrize(
    "text",
    [
        f"{V2}command: |\n  vllm serve x --json '{{\"a\": 1}}'\n",  # version 2 leaves single braces
        f"{V1}command: |\n  vllm serve {{model}}\n",  # there are no defaults to put it into
        f"{V1}defaults: {{port: 1}}\ncommand: |\n  vllm serve {{model}} {{port}}\n",  # they stand on one line
        f"{V1}defaults:\n  model: c/d\ncommand: |\n  vllm serve {{model}}\n",
        f"{V2}env:\n  A: 'say \"x\"'\ncommand: vllm serve x\n",
        f"{V2}command: vllm serve x\ncomand: vllm serve y\n",  # the right key is there, too
        f"{V2}nothing_like_it: 1\ncommand: vllm serve x\n",
        f"{V1}command: |\n  vllm serve x --a {{{{b}}}}\n",
        f"{V2}command: vllm serve x\r\n",
    ],
)
def test_what_has_more_than_one_way_stays(text: str) -> None:
    assert mended_text(text, "x.yaml") == (text, [])


def test_the_ends_of_lines_stay() -> None:
    text = f"{V2}command: |\r\n  vllm serve x \\ \r\n    --port 1\r\n"
    assert mended_text(text, "x.yaml")[0] == text.replace("\\ \r", "\\\r")
