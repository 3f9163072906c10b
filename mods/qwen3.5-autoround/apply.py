"""Turn the list that vLLM's Qwen3.5 configs hand to transformers into a set; strict, and at peace with a second run."""

import ast
import importlib.util
import sys
from pathlib import Path

CONFIGS = ("qwen3_5.py", "qwen3_5_moe.py")
KEY = "ignore_keys_at_rope_validation"


def main() -> None:
    """Edit both files, or neither."""
    found = importlib.util.find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        sys.exit("vllm is not installed here")
    folder = Path(found.submodule_search_locations[0]) / "transformers_utils/configs"
    edited = {folder / name: with_set(folder / name) for name in CONFIGS}
    for path, text in edited.items():
        if text == path.read_text(encoding="utf-8"):
            print(f"{path.name}: {KEY} is a set already")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name}: {KEY} is a set now")


def with_set(path: Path) -> str:
    """The file with a set display in the place of the one list that is assigned to the key."""
    if not path.is_file():
        sys.exit(f"{path} is not there: this vLLM keeps its Qwen3.5 configs elsewhere")
    text = path.read_text(encoding="utf-8")
    values = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assign) and names_key(node)]
    if len(values) != 1 or not isinstance(values[0], ast.List | ast.Set):
        sys.exit(f"{path} has another shape: {KEY} is assigned {len(values)} times, or neither a list nor a set")
    value = values[0]
    if isinstance(value, ast.Set):
        return text
    lines = text.splitlines(keepends=True)
    start, end = offset(lines, value.lineno, value.col_offset), offset(lines, value.end_lineno, value.end_col_offset)
    return f"{text[:start]}{{{text[start + 1 : end - 1]}}}{text[end:]}"


def names_key(node: ast.Assign) -> bool:
    """Whether an assignment's target is ``kwargs["ignore_keys_at_rope_validation"]``."""
    target = node.targets[0]
    return isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == KEY


def offset(lines: list[str], line: int | None, column: int | None) -> int:
    """Where in the text a place of the syntax tree is; its columns count UTF-8 bytes."""
    before = lines[(line or 1) - 1].encode()[: column or 0].decode()
    return sum(map(len, lines[: (line or 1) - 1])) + len(before)


if __name__ == "__main__":
    main()
