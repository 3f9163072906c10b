"""Asks an engine's look-up the questions of a request, a JSON file, and prints the answers."""

import ast
import dataclasses
import functools
import json
import os
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from gb10.image.moe.child.cut import Cut, Module
from gb10.image.moe.child.families import ALSO, FAMILIES, WANTED
from gb10.image.moe.child.question import Answer, Question, error_line
from gb10.image.moe.child.stand_in import machine, standard


def main() -> None:
    """Answer all questions; bounded in time, memory and file size."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    limit(request["limits"])
    files = {name: Module(Path(path).read_text(encoding="utf-8"), name) for name, path in request["sources"].items()}
    asked = [Question(**fields) for fields in request["questions"]]
    device, shared = request["device"], request["shared"]
    cuts: dict[tuple[str, str], Cut] = {}
    answers = []
    for question in asked:
        key = (question.engine, question.family)
        if key not in cuts:
            names = WANTED[question.family] + ALSO.get(key, ())
            module = files[request["modules"][question.family]]
            cuts[key] = Cut(module, names, machine(device, shared, "", None))
        answers.append(dataclasses.asdict(answer_question(cuts[key], question, files, device, shared)))
    facts = {name: files[path].parameters(kernel) for name, (path, kernel) in request["kernels"].items()}
    json.dump({"answers": answers, "parameters": facts, "dtypes": dtypes(files.values())}, sys.stdout)


def limit(limits: dict[str, int]) -> None:
    """Bound what this process may use: seconds, bytes of memory, and bytes of a file."""
    for kind, most in limits.items():
        resource.setrlimit(getattr(resource, kind), (most, most))


def answer_question(cut: Cut, asked: Question, files: dict[str, Module], device: str, shared: int) -> Answer:
    """One answer, in a fresh space: the look-ups keep what they read. Raises NotKnownError."""
    known = machine(device, shared, asked.triton, asked.user)
    answer = Answer()

    def recorded(path: str, *more: Any, **named: Any) -> IO[Any]:
        handle: IO[Any] = open(path, *more, **named)  # noqa: PTH123, SIM115 - what the engine calls
        answer.opened = os.fspath(path) if answer.keys is None else answer.opened  # later: the other GEMM's file
        return handle

    def importing(module: str, name: str) -> Any:
        where = next((files[path] for path in files if _is(path, module)), None)
        if name in known:
            return known[name]
        if where and name in where.defined and name not in cut.module.defined:
            return other(where, name).run({"__file__": where.where, **known}, importing)[name]
        return standard(module, name)

    for variable in ("SGLANG_MOE_CONFIG_DIR", "SGLANG_LORA_CONFIG_DIR"):
        os.environ.pop(variable, None)
        if asked.user is not None:
            os.environ[variable] = asked.user
    space = cut.run({"__file__": asked.module, "__name__": "engine", "open": recorded, **known}, importing)
    if asked.family == "helion":
        space["canonicalize_gpu_name"] = importing("vllm.kernels.helion.utils", "canonicalize_gpu_name")
    try:
        FAMILIES[asked.family](space, asked, answer)
    except Exception as error:
        answer.raised = error_line(error)
    return answer


@functools.cache
def other(module: Module, name: str) -> Cut:
    """A function of another module, cut once."""
    return Cut(module, (name,), machine("", 0, "", None))


def dtypes(modules: Iterable[Module]) -> list[str | None]:
    """The types that the engine names a file of experts by: what its own function returns."""
    names = ("get_config_dtype_str", "_get_config_dtype_str")
    found = next((module.defined[name] for module in modules for name in names if name in module.defined), None)
    returns = [node.value for node in ast.walk(found) if isinstance(node, ast.Return)] if found else []
    values = [node.value for node in returns if isinstance(node, ast.Constant)]
    return [value if isinstance(value, str) else None for value in values]


def _is(path: str, module: str) -> bool:
    return path.removesuffix(".py").replace("/", ".") == module
