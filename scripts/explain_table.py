"""Ask explain about public configs, and write the table of docs/explain.md.

    python3 -m bootstrap scripts/explain_table.py              # ask both engines, note the answers, write the table
    python3 -m bootstrap scripts/explain_table.py --table      # write the table from the noted answers alone
    python3 -m bootstrap scripts/explain_table.py --engine vllm [--only TEXT]

The configs lie in tests/unit/data/explain/public, with their sources. printed.json there has lines that real servers
printed: each is held against the stock release's answer, with the options of that server.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gb10.cli.look.explain import engine_of  # noqa: E402 - the checkout goes on the path first
from gb10.errors import Gb10Error  # noqa: E402
from gb10.image.context import Context, open_context  # noqa: E402
from gb10.image.explain.engine_choice import (  # noqa: E402
    AskedEngine,
    Held,
    Question,
    ask_models,
    refuse,
)
from gb10.image.explain.layer_rows import Answer  # noqa: E402
from gb10.image.request.kernel_choice import local_files  # noqa: E402

FOLDER: Final = ROOT / "tests/unit/data/explain/public"
NOTED: Final = FOLDER / "answers.json"
PRINTED: Final = FOLDER / "printed.json"
PAGE: Final = ROOT / "docs/explain.md"
ENGINES: Final = ("vllm", "sglang")
KINDS: Final = ("linear", "experts", "attention", "state", "encoder")
BEGIN: Final = "<!-- made by scripts/explain_table.py -->"
END: Final = "<!-- end -->"
Noted = dict[str, Any]


def models(only: str = "") -> list[str]:
    """The names of the folders with a config."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and only in path.name)


def short(answer: Answer, engine: str) -> Noted:
    """What the table says of an answer: the kernels of each kind of layer, or why there are none."""
    try:
        refuse(answer, engine)
    except Gb10Error as error:
        return {"refused": error.message, "exit": error.code, "said": (error.where or "").splitlines()[0][:300]}
    found: Noted = {kind: kernels(answer, kind) for kind in KINDS}
    ours = sorted({f"{row.chosen} for {row.upstream}" for row in answer.rows if row.upstream})
    return {kind: value for kind, value in found.items() if value} | ({"ours": ours} if ours else {}) | _notes(answer)


def _notes(answer: Answer) -> Noted:
    return {"notes": answer.notes} if answer.notes else {}


def kernels(answer: Answer, kind: str) -> list[str]:
    """The kernels of one kind of layer, the one of most layers first."""
    counted: dict[str, int] = {}
    for row in answer.rows:
        if row.kind == kind:
            name = row.chosen or "unknown"
            counted[name] = counted.get(name, 0) + row.count
    return sorted(counted, key=lambda name: (-counted[name], name))


def ask(
    ctx: Context, engine: AskedEngine, names: Sequence[str], options: Mapping[str, str], held: Held
) -> list[Answer]:
    """The answers for these configs."""
    quick = engine.facts.model_copy(update={"flags": {}})  # the table has no options: SGLang tries each in a process
    question = Question(
        facts=quick if engine.facts.script == "sglang_chosen" else engine.facts,
        files=engine.files,
        options=options,
        held=held,
    )
    return ask_models(ctx, question, [local_files(FOLDER / name) for name in names])


def note(ctx: Context, name: str, only: str, noted: dict[str, dict[str, Noted]]) -> None:
    """Ask one engine about every config."""
    engine, wanted = engine_of(ctx, name), models(only)
    for first in range(0, len(wanted), 14):
        some = wanted[first : first + 14]
        for model, answer in zip(some, ask(ctx, engine, some, {}, replace(engine.held, beside=True)), strict=True):
            noted.setdefault(model, {})[name] = short(answer, f"{name} {engine.facts.engine}")
            print(model, name, json.dumps(noted[model][name])[:220], flush=True)
        save(noted)


def compare(ctx: Context, name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write into each row of printed.json what the stock release answers with that server's options."""
    engine, groups = engine_of(ctx, name), dict[str, list[dict[str, Any]]]()
    for row in rows:
        if row["engine"] == name:
            groups.setdefault(json.dumps(row["options"], sort_keys=True), []).append(row)
    for options, group in groups.items():
        wanted = sorted({row["config"] for row in group})
        answers = dict(zip(wanted, ask(ctx, engine, wanted, json.loads(options), Held(stock=True)), strict=True))
        for row in group:
            row["explain"] = kernels(answers[row["config"]], row["kind"])
            print(row["config"], row["kind"], row["means"], row["explain"], flush=True)


def save(noted: dict[str, dict[str, Noted]]) -> None:
    """Write the noted answers."""
    NOTED.write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table(noted: Mapping[str, Mapping[str, Noted]], printed: Sequence[Mapping[str, Any]]) -> str:
    """The part of the page between its two marks."""
    lines = ["", "| config | vLLM | SGLang |", "|---|---|---|"]
    lines += [
        f"| {name.replace('--', '/')} | {cell(of.get('vllm'))} | {cell(of.get('sglang'))} |"
        for name, of in sorted(noted.items(), key=lambda one: one[0].lower())
    ]
    lines += [
        "",
        "| config | options | a server printed | release | explain, stock release | |",
        "|---|---|---|---|---|---|",
    ]
    for row in printed:
        options = " ".join(f"{name}={value}" for name, value in row["options"].items()) or "none"
        verdict = "same" if agrees(row) else row.get("differs", "DIFFERS")
        found = ", ".join(f"`{one}`" for one in row.get("explain", []))
        lines.append(
            f"| {row['config'].replace('--', '/')} | {options} | {row['printed']} ({row['source']}) "
            f"| {row['release']} | {found} | {verdict} |"
        )
    return "\n".join([*lines, ""])


def agrees(row: Mapping[str, Any]) -> bool:
    """Whether explain's answer has the kernel that the line names."""
    return row["means"] in row.get("explain", [])


def cell(of: Noted | None) -> str:
    """One engine's answer in a cell."""
    if of is None:
        return "not asked"
    if "refused" in of:
        return f"refused, exit {of['exit']}: {of['refused']}".replace("|", "/")
    return "; ".join(", ".join(f"`{one}`" for one in of[kind]) for kind in KINDS if kind in of)


def write(noted: Mapping[str, Mapping[str, Noted]], printed: Sequence[Mapping[str, Any]]) -> None:
    """Put the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{table(noted, printed)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    """Ask, note, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    noted = json.loads(NOTED.read_text(encoding="utf-8")) if NOTED.is_file() else {}
    printed = json.loads(PRINTED.read_text(encoding="utf-8")) if PRINTED.is_file() else []
    if not given.table:
        ctx = open_context(dict(os.environ), verbosity=0)
        for name in given.engine or ENGINES:
            note(ctx, name, given.only, noted)
            compare(ctx, name, printed)
        save(noted)
        PRINTED.write_text(json.dumps(printed, indent=1) + "\n", encoding="utf-8")
    if BEGIN in PAGE.read_text(encoding="utf-8"):
        write(noted, printed)


if __name__ == "__main__":
    main()
