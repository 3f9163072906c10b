"""How ``explain`` prints: a table for people, a document for scripts."""

from collections.abc import Iterable
from typing import Any

from gb10.image.explain.code_places import code_of
from gb10.image.explain.engine_facts import EngineFacts
from gb10.image.explain.layer_rows import Answer, LayerRow
from gb10.image.proof.arch_match import Judged

UNKNOWN = "unknown"


def as_document(answer: Answer, facts: EngineFacts, judged: Iterable[Judged] | None) -> dict[str, Any]:
    """The answer as data, schema gb10/explain/v1."""
    rows = [
        {**row.model_dump(by_alias=True, exclude={"held"}), "code": code_of(row.chosen, facts, judged)}
        for row in answer.rows
    ]
    return {
        "schema": "gb10/explain/v1",
        "engine": facts.engine,
        "stopped": answer.stopped,
        "notes": answer.notes,
        "layers": rows,
    }


def print_rows(answer: Answer, facts: EngineFacts, judged: Iterable[Judged] | None) -> None:
    """Each kind of layer: name, format, shapes, kernel, code; then what was refused, and what options take."""
    for note in answer.notes:
        print(f"note: {note}")
    if answer.upstream_stopped and answer.rows:
        print(f"note: the stock release stops: {answer.upstream_stopped.splitlines()[0]}")
    for row in answer.rows:
        print(f"{row.name}  ({row.count}x {row.kind}, {row.format or row.layer})")
        print(f"    shape    {row.shape or UNKNOWN}")
        print(f"    chosen   {row.chosen or UNKNOWN}")
        if row.chosen in facts.about:
            print(f"    about    {facts.about[row.chosen]}")
        if row.upstream:
            print(f"    upstream {row.upstream}: {_by_ours(row, facts)}")
        for kernel in row.before:
            print(f"    before   {kernel}")
        print(f"    code     {code_of(row.chosen, facts, judged)}")
        for kernel, reason in sorted(row.refused.items()):
            told = "unknown " if reason.startswith("unknown:") else "refused "
            print(f"    {told} {kernel}: {' '.join(reason.split())}")
        for line in _options(row, facts):
            print(f"    option   {line}")


def _by_ours(row: LayerRow, facts: EngineFacts) -> str:
    patch = facts.patches.get(row.kind)
    return f"our patch {patch} makes the choice above" if patch else "our patches make the choice above"


def _options(row: LayerRow, facts: EngineFacts) -> list[str]:
    """What another option would choose: its value, or its name and value where several act on this kind of layer."""
    flags = facts.flags.get(row.kind, ())
    others = {value: kernel for value, kernel in row.options.items() if kernel != row.chosen}
    return [
        f"{option}: {kernel}"
        for value, kernel in others.items()
        for option in ([value] if value.startswith("--") else [f"{flag} {value}" for flag in flags])
    ]
