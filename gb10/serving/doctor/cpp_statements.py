"""Statements of C++ and CUDA that print: checks, throws and warnings, with the condition that guards each. Pure.

A check is known by its form, not by a list of macros: a name with CHECK, ASSERT or THROW (of PyTorch, TVM, FlashInfer,
TensorRT-LLM), a ``throw``, a ``static_assert``; its text are its arguments behind the condition, or what is streamed
into it. The body of a macro is read, too. One without a text is left out: what it prints is its own condition.
"""

import re
from collections.abc import Iterator
from typing import Final

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from gb10.serving.doctor.printed_statements import CONDITION, DEEPEST, Kind, Statement, pieces, telling_words

LARGEST: Final = 1 << 20
"""Bytes of a file that is read."""
CHECK: Final = re.compile(r"(?:[A-Z0-9_]*_)?I?(?:CHECK|ASSERT|ENFORCE)(?:_[A-Z0-9_]+)?|(?:Host)?RuntimeCheck")
THROW: Final = re.compile(r"(?:[A-Z0-9]+_)+(?:AND_)?(?:THROW|ERROR)|Panic")
WARN: Final = re.compile(r"(?:[A-Z0-9]+_)+WARN(?:ING)?(?:_ONCE)?")
COMPARED: Final = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
ERROR: Final = re.compile(r"[A-Z]\w+Error")
STRINGIFIED: Final = re.compile(r"(?<!#)#(?!#)\s*(\w+)")
ESCAPES: Final = {r"\"": '"', r"\'": "'", r"\\": "\\"}
TEXTS: Final = ("string_literal", "raw_string_literal", "concatenated_string")
JOINS: Final = frozenset(("string", "str", "StrCat", "format", "fmtstr", "to_string_view"))
"""Functions whose arguments are the text."""
INWARD: Final = 60
"""Nodes of an expression, or around a statement, that are looked through."""


def cpp_statements(text: str, file: str) -> tuple[Statement, ...]:
    """The statements of a C++ or CUDA file; none of one that is too large."""
    if len(text) > LARGEST:
        return ()
    return tuple(_statements(text.encode(), file, 0))


def _statements(content: bytes, file: str, above: int) -> Iterator[Statement]:
    left = [Parser(Language(tree_sitter_cpp.language())).parse(content).root_node]
    while left:
        node = left.pop()
        if node.type == "preproc_function_def" and not above:
            yield from _of_macro(node, file)
        elif found := _printed(node, file, above):
            yield found
        left += reversed(node.children)


def _of_macro(node: Node, file: str) -> Iterator[Statement]:
    """The body of a macro, as the body of a function of its name."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or value is None:
        return
    body = STRINGIFIED.sub(r" \1 ", re.sub(r"\\(?=\r?\n)", " ", _text(value)))
    yield from _statements(f"void {_text(name)}() {{ {body} ; }}".encode(), file, value.start_point[0] or 1)


def _printed(node: Node, file: str, above: int) -> Statement | None:
    """The statement that begins with this node, if it is one with a text."""
    kind: Kind = "raise"
    exception, held, last = "", "", node
    if node.type == "throw_statement":
        thrown = node.named_children[0] if node.named_children else None
        message = _arguments(thrown) if thrown is not None else []
    elif node.type == "static_assert_declaration":
        condition, said = node.child_by_field_name("condition"), node.child_by_field_name("message")
        kind, held = "assert", _source(condition) if condition is not None else ""
        message = [said] if said is not None else []
    elif node.type == "call_expression" and (name := _name(node)):
        given = _arguments(node)
        streamed, last = _streamed(node)
        errors = [_text(one) for one in given if one.type == "identifier" and ERROR.fullmatch(_text(one))]
        message = streamed or given
        if CHECK.fullmatch(name):
            sign = COMPARED.get(name.rpartition("_")[2])
            held = f" {sign} ".join(map(_source, given[:2])) if sign else "".join(map(_source, given[:1]))
            message = streamed or given[2 if sign else 1 :]
        elif WARN.fullmatch(name):
            kind, exception = "log", "warning"
        elif not THROW.fullmatch(name):
            return None
        exception = exception or (errors[0] if errors and streamed else "")
        exception = "NotImplementedError" if name.endswith("NOT_IMPLEMENTED") else exception
    else:
        return None
    parts, holes = [""], list[str]()
    for one in message:
        if "…" in holes and one.type not in TEXTS:  # what printf fills in
            holes[holes.index("…")] = _source(one)[:120]
        else:
            _literals(one, parts, holes)
    if len(telling_words(" ".join(parts))) < 2:
        return None
    function, around = _around(node)
    conditions = ((f"not ({held})", *around) if held and held != "false" else around)[:DEEPEST]
    return Statement(
        kind=kind,
        exception=exception,
        parts=tuple(parts),
        holes=tuple(holes),
        conditions=conditions,
        names=tuple(dict.fromkeys(re.findall(r"[A-Za-z_]\w{2,60}", " ".join((*conditions, *holes)))))[:INWARD],
        file=file,
        line=node.start_point[0] + 1 + above,
        end=last.end_point[0] + 1 + above,
        function=function,
    )


def _streamed(call: Node) -> tuple[list[Node], Node]:
    """What is streamed into a call, in its order, and the whole expression."""
    found, node = list[Node](), call
    while (parent := node.parent) is not None and parent.type == "binary_expression":
        left, sign, right = (parent.child_by_field_name(field) for field in ("left", "operator", "right"))
        if left != node or right is None or sign is None or sign.type != "<<":
            break
        found.append(right)
        node = parent
    return found, node


def _literals(node: Node, parts: list[str], holes: list[str], depth: int = 0) -> None:
    """Add the literal texts of an expression, and the source of what is filled in."""
    inner = node.named_children
    if node.type == "concatenated_string" and depth < INWARD:
        for one in inner:
            _literals(one, parts, holes, depth + 1)
    elif node.type in TEXTS:
        first, *rest = pieces("".join(ESCAPES.get(_text(one), _plain(one)) for one in inner))
        parts[-1] += first
        for piece in rest:
            holes.append("…")
            parts.append(piece)
    elif depth < INWARD and (
        (node.type == "binary_expression" and node.children[1].type in ("+", "<<"))
        or node.type == "parenthesized_expression"
        or (node.type == "call_expression" and _name(node) in JOINS)
    ):
        for one in _arguments(node) if node.type == "call_expression" else inner:
            _literals(one, parts, holes, depth + 1)
    elif node.type != "comment":
        holes.append(_source(node)[:120])
        parts.append("")


def _plain(part: Node) -> str:
    return " " if part.type == "escape_sequence" else _text(part)


def _arguments(call: Node) -> list[Node]:
    arguments = call.child_by_field_name("arguments")
    return [one for one in arguments.named_children if one.type != "comment"] if arguments is not None else []


def _name(call: Node) -> str:
    """``CHECK`` of ``ns::CHECK<T>(…)``."""
    function = call.child_by_field_name("function")
    for _ in range(INWARD):
        if function is None or function.type == "identifier":
            break
        function = function.child_by_field_name("name")
    return _text(function) if function is not None else ""


def _around(node: Node) -> tuple[str, tuple[str, ...]]:
    """The function around a node, and the conditions on the way to it, the innermost first."""
    conditions = list[str]()
    child, parent = node, node.parent
    for _ in range(4 * INWARD):
        if parent is None:
            break
        before = child.prev_named_sibling
        for _ in range(INWARD):  # what has returned before
            if before is None or before.type in ("parameter_list", "condition_clause"):
                break
            if before.type == "if_statement" and _leaves(before):
                conditions.append(f"not ({_condition(before)})")
            elif before.type == "preproc_if":
                inner = [
                    _condition(one) for one in before.named_children if one.type == "if_statement" and _leaves(one)
                ]
                conditions += [f"not ({_condition(before)} and {one})" for one in reversed(inner)]
            before = before.prev_named_sibling
        match parent.type:
            case "if_statement" | "preproc_if" | "preproc_elif" if child != parent.child_by_field_name("condition"):
                text = _condition(parent)
                conditions.append(f"not ({text})" if child == parent.child_by_field_name("alternative") else text)
            case "case_statement" if (value := parent.child_by_field_name("value")) is not None:
                conditions.append(f"case {_source(value)}")
            case "function_definition":
                declared = parent.child_by_field_name("declarator")
                while declared is not None and (deeper := declared.child_by_field_name("declarator")) is not None:
                    declared = deeper
                return _source(declared)[:120] if declared is not None else "", tuple(conditions[:DEEPEST])
        child, parent = parent, parent.parent
    return "<file>", tuple(conditions[:DEEPEST])


def _condition(branch: Node) -> str:
    found = branch.child_by_field_name("condition")
    text = _source(found) if found is not None else ""
    return text[1:-1] if text.startswith("(") and found is not None and found.type == "condition_clause" else text


def _leaves(branch: Node) -> bool:
    """Whether an ``if`` without ``else`` ends with a return or a throw."""
    body = branch.child_by_field_name("consequence")
    if body is None or branch.child_by_field_name("alternative") is not None:
        return False
    last = body.named_children[-1] if body.type == "compound_statement" and body.named_children else body
    return last.type in ("return_statement", "throw_statement", "continue_statement", "break_statement")


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _source(node: Node) -> str:
    return " ".join(_text(node).split())[:CONDITION]
