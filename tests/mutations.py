"""Do the tests notice a wrong line? Random mutations, each run against the test files that name its module.

``python3 -m bootstrap tests/mutations.py --count 60 --seed 7`` copies the tree, changes one comparison, ``and``,
``not``, condition or number of ``gb10/`` at a time in the copy, and runs the unit and golden test files that import the
changed module, or name it in a constant DRIVES because their requests reach it through others. The checkout itself is
never changed. What survives is tried with the files of tests/integration that name its module and start no container
engine, each of them alone, but for tests marked ``slow`` or ``long``: what talks to a server, a registry or an index is
tested there, with the real one. They need the network, and a store of their own.
``--callers`` tries more test files before: those whose tests call the changed function, by a run of all unit and
golden tests that notes it (tests/function_calls.py). That says whether any test notices; the share by the files that
name the module says whether it is found where one looks for it.
``--integration`` tries the other integration test files, too: minutes for each survivor.
``--uncalled`` lists the functions that no unit or golden test calls, with the number of their mutants, and runs none.

What no test could notice, or only by repeating a number, is not changed:

* numbers of a module's or a class's constants: limits and tables;
* seconds of waits and the sizes of caches, pools and blocks (UNSEEN, TAKEN, ``1 << 20``): they change how fast
  something is or how much memory it takes, not what it does;
* where a long text is cut (``text[:2000]``, CUT and more): one character more is as good;
* how often a text is split whose last or first part alone is taken: ``rsplit("/", 1)[-1]``;
* ``<`` against ``<=`` where one side is the clock: it never stands at the limit.

A mutant runs in a PID namespace of its own (unshare of util-linux), with a limit of its memory: with one changed
comparison, what ends the processes of a session ends those of everybody else.

Exit code 0: at least 90 % of the mutants were caught; 1: fewer; 2: the tests fail without a mutation, before or after
the others, or an entry of EQUIVALENT fits no line.
"""

import argparse
import ast
import contextlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SUITES: Final = ("tests/unit", "tests/golden")
INTEGRATION: Final = ("tests/integration",)
LEAST: Final = 0.9
"""The share of mutants that the tests must catch."""
MEMORY: Final = 8 << 30
"""Bytes of address space of a run: a mutant may never end, and keep all that it makes."""
ISOLATED: Final = (
    *("prlimit", f"--as={MEMORY}"),
    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *(("--user", "--map-current-user") if os.geteuid() else ()),
)
"""A run sees no process but its own, and all of them end with it."""
PYTEST: Final = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--in-memory")
NO_TESTS: Final = 5
"""pytest's exit code where all tests of a file are marked as slow."""
UNSEEN: Final = frozenset(
    {"indent", "timeout", "maxsize", "pool_maxsize", "max_workers", "bufsize", "buffering", "compresslevel"}
)
"""Keyword arguments whose numbers no test notices."""
TAKEN: Final = frozenset({"sleep", "wait", "lru_cache", "ThreadPoolExecutor"})
"""Functions whose numbers are seconds or sizes."""
CUT: Final = 20
"""From so many characters on, a slice's end is where a long text is cut; below, it is part of what a user sees."""
CLOCKS: Final = frozenset({"monotonic", "time", "perf_counter", "monotonic_ns", "time_ns"})
EQUIVALENT: Final[dict[tuple[str, str, str], str]] = {
    (
        "scale = box.width * box.height / total if total else 0",
        "0",
        "1",
    ): "without values nothing is laid out, so nothing is scaled",
    ('self._made = (float("-inf"), 0.0)', "0.0", "1.0"): "what was made so long ago is made anew",
    ('self._made: tuple[float, float] = (float("-inf"), 0.0)', "0.0", "1.0"): "what was made so long ago is made anew",
    (
        "same, earlier = number == wanted, number < wanted",
        "<",
        "<=",
    ): "the same capability is answered before an earlier one",
    (
        "return len(os.sched_getaffinity(0))",
        "0",
        "1",
    ): "where tests run, process 1 has the same cores",
}
"""Mutants that nothing can catch, or nothing should: (source line, old text, new text) and the reason.

By line, not by file and number, so that an entry survives when its module moves.
"""
SWAPPED: Final[dict[type[ast.cmpop | ast.boolop], tuple[str, str]]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One change of one module: bytes ``start`` to ``end`` become ``new``."""

    path: str
    line: int
    source_line: str
    start: int
    end: int
    old: str
    new: str
    function: str
    """``path:first line`` of the innermost function; of a module or a class, line 0."""

    @property
    def rule(self) -> tuple[str, str, str]:
        """How EQUIVALENT names it."""
        return self.source_line, self.old, self.new

    def __str__(self) -> str:
        change = "negated" if self.new == f"not ({self.old})" else f"{self.old} -> {self.new or 'nothing'}"
        return f"{self.path}:{self.line}: {change} in: {self.source_line}"

    def apply(self, source: bytes) -> bytes:
        """The module's text with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


class Source:
    """A module's text, its tree, and where a node begins and ends in bytes."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path, self.content = path, content
        self.tree = ast.parse(content, path)
        self.functions = [
            (min(one.lineno for one in (node, *node.decorator_list)), node.end_lineno or 0)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        self.lines = content.splitlines(keepends=True)
        self.offsets = [0]
        for line in self.lines:
            self.offsets.append(self.offsets[-1] + len(line))

    def begin(self, node: ast.expr) -> int:
        return self.offsets[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self.offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def mutant(self, start: int, end: int, new: str) -> Mutant:
        line = self.content.count(b"\n", 0, start)
        first = max((begin for begin, last in self.functions if begin <= line + 1 <= last), default=0)
        return Mutant(
            path=self.path,
            line=line + 1,
            function=f"{self.path}:{first}",
            source_line=self.lines[line].decode().strip(),
            start=start,
            end=end,
            old=self.content[start:end].decode(),
            new=new,
        )


def mutants_of(source: Source) -> Iterator[Mutant]:
    """Every mutant of a module that still is Python.

    A condition of ``==``, ``is``, ``in`` or ``not`` is not negated besides: that would be the same mutant again.
    """
    apart = {id(number) for node in ast.walk(source.tree) for part in unnoticed(node) for number in ast.walk(part)}
    for node in nodes(source.tree):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
                    yield from swapped(source, op, left, right)
            case ast.BoolOp():
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from swapped(source, node.op, left, right)
            case ast.UnaryOp(op=ast.Not()):
                yield source.mutant(source.begin(node), source.begin(node) + len("not"), "")
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and id(node) not in apart:
                yield source.mutant(source.begin(node), source.end(node), str(value + 1))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield from negated(source, test)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from negated(source, test)


def unnoticed(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node whose numbers are not changed; the module's docstring says why."""
    match node:
        case ast.Module(body=body) | ast.ClassDef(body=body):
            yield from (one for one in body if isinstance(one, ast.Assign | ast.AnnAssign))
        case ast.Call(func=function, args=args, keywords=keywords):
            yield from (one.value for one in keywords if one.arg in UNSEEN)
            yield from filter(is_size, args)
            if name_of(function) in TAKEN:
                yield from (*args, *(one.value for one in keywords))
            if name_of(function) == "read":  # one byte more tells a file that is too large
                yield from (one.right for one in args if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add))
            if name_of(function) == "get_close_matches":  # the first one is named
                yield from (one.value for one in keywords if one.arg == "n")
        case ast.Compare(comparators=sides):
            yield from filter(is_size, sides)
        case ast.BinOp(op=ast.Add(), right=right) if is_size(right):
            yield right
        case ast.Slice(upper=ast.Constant(value=int(end)) as upper) if end >= CUT:
            yield upper
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr=verb), args=[_, ast.Constant() as most]), slice=at):
            if (verb, ast.unparse(at)) in (("rsplit", "-1"), ("split", "0")):
                yield most


def is_size(node: ast.expr) -> bool:
    """``1 << 20`` by itself; times something, it is a unit."""
    match node:
        case ast.BinOp(op=ast.LShift(), left=ast.Constant(), right=ast.Constant()):
            return True
    return False


def name_of(function: ast.expr) -> str:
    """``sleep`` of ``sleep`` and ``time.sleep``."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def reads_clock(side: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and name_of(node.func) in CLOCKS for node in ast.walk(side))


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of code that runs: no annotations, no imports for types; no f-strings, whose places 3.11 has wrong."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from nodes(child)


def swapped(source: Source, op: ast.cmpop | ast.boolop, left: ast.expr, right: ast.expr) -> Iterator[Mutant]:
    old, new = SWAPPED[type(op)]
    if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and (reads_clock(left) or reads_clock(right)):
        return
    start, end = source.end(left), source.begin(right)
    pattern = rf"\b{old}\b".replace(" ", r"\s+") if old.isidentifier() or " " in old else re.escape(old)
    found = re.search(pattern.encode(), source.content[start:end])
    if found:
        yield source.mutant(start + found.start(), start + found.end(), new)


def negated(source: Source, test: ast.expr) -> Iterator[Mutant]:
    same = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
    if isinstance(test, ast.UnaryOp) or (isinstance(test, ast.Compare) and isinstance(test.ops[0], same)):
        return
    start, end = source.begin(test), source.end(test)
    yield source.mutant(start, end, f"not ({source.content[start:end].decode()})")


def named_modules(file: Path) -> set[str]:
    """The files of gb10 that a file imports, or names as ``gb10.a.b`` or ``gb10/a/b.py`` in a string."""
    found = set[str]()
    for node in ast.walk(ast.parse(file.read_bytes(), file)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {f"{module}.{alias.name}" for alias in names}
            case ast.Constant(value=str(text)) if re.fullmatch(r"gb10(\.\w+)+", text):
                found.add(text)
            case ast.Constant(value=str(text)) if re.fullmatch(r"gb10(/\w+)+\.py", text):
                found.add(text.removesuffix(".py").replace("/", "."))
    return {str(path.relative_to(ROOT)) for name in found if (path := module_file(name))}


def module_file(name: str) -> Path | None:
    """The file of ``gb10.a.b`` or ``gb10.a.b.function``; None for other packages."""
    parts = name.split(".")
    while parts and parts[0] == "gb10":
        path = ROOT.joinpath(*parts)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
        parts.pop()
    return None


def tests_by_module(suites: Iterable[str] = SUITES) -> dict[str, list[str]]:
    """For each module that a test file of these suites names, these files."""
    found: dict[str, list[str]] = {}
    for test in sorted(path for suite in suites for path in (ROOT / suite).rglob("test_*.py")):
        for module in named_modules(test):
            found.setdefault(module, []).append(str(test.relative_to(ROOT)))
    return found


def starts_engine(test: str) -> bool:
    """Whether a test file of tests/integration names what opens a container engine: a fixture, a class, a function.

    A parameter ``engine`` is vLLM or SGLang as well, and a context opens no engine by itself.
    """
    named = set[str]()
    for node in ast.walk(ast.parse((ROOT / test).read_bytes(), test)):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name):
                named.add(name)
    return not named.isdisjoint(("docker", "Engine", "connect_or_start", "ready_engine"))


class Copy:
    """A copy of the checkout in which mutants live, with a home and a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "checkout"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_symlink() or (ROOT / name).is_file():  # not what git lists and the tree has lost
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name, follow_symlinks=False)
        # Bytecode is looked up by the hash of the source: by time and size a mutant would run as its original.
        compiling = (sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash")
        subprocess.run([*compiling, "gb10", "tests", "bootstrap"], cwd=self.tree, check=True)
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith(("GB10_", "PYTEST", "XDG"))
        }
        self.env |= {"HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, tests: Iterable[str], limit: float | None, *more: str) -> tuple[str, str]:
        """What the tests say: passed, failed, no tests or no end; and their output. No process of theirs is left."""
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [*ISOLATED, *PYTEST, *more, "-m", "not slow and not long", *tests],
                cwd=self.tree,
                env=self.env,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                verdict = {0: "passed", NO_TESTS: "no tests"}.get(process.wait(limit), "failed")
            except subprocess.TimeoutExpired:
                verdict = "no end"
            finally:
                with contextlib.suppress(ProcessLookupError):  # nothing of the group is left
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            return verdict, output.read()

    def calls(self) -> dict[str, list[str]]:
        """The unit and golden test files that call each function, those that call the fewest functions first."""
        place = self.tree / "function-calls.json"
        self.env["FUNCTION_CALLS"] = str(place)
        self.run(SUITES, None, "--maxfail=0", "-p", "tests.function_calls")
        found: dict[str, list[str]] = json.loads(place.read_bytes())
        breadth = Counter(test for tests in found.values() for test in tests)
        return {function: sorted(tests, key=lambda test: (breadth[test], test)) for function, tests in found.items()}

    def survives(self, mutant: Mutant, tests: Iterable[str], limit: float) -> bool:
        """Whether the tests pass with a mutant; its module is as before afterwards."""
        path = self.tree / mutant.path
        original = path.read_bytes()
        try:
            path.write_bytes(mutant.apply(original))
            verdict = self.run(tests, limit)[0]
            if verdict == "no end":  # the mutant waits for ever, or the machine is busy
                print(f"    no end in {limit:.0f} s:", flush=True)
            return verdict == "passed"
        finally:
            path.write_bytes(original)


@dataclass(kw_only=True, slots=True)
class Trial:
    """Which test files notice a mutant: those that name its module, then the others that were wanted."""

    copy: Copy
    limit: float
    naming: Mapping[str, Sequence[str]]
    callers: Mapping[str, Sequence[str]]
    real: Mapping[str, Sequence[str]]
    fit: dict[str, bool] = field(default_factory=dict)
    """Whether an integration test file passes without a mutation."""

    def of(self, mutant: Mutant) -> str:
        """``caught``, ``caught by`` whom, or ``SURVIVED``."""
        if not self.copy.survives(mutant, self.naming[mutant.path], self.limit):
            return "caught"
        callers = [test for test in self.callers.get(mutant.function, ()) if test not in self.naming[mutant.path]]
        if callers and not self.copy.survives(mutant, callers, 10 * self.limit):
            return "caught by callers"
        for test in self.real.get(mutant.path, ()):
            if test not in self.fit:
                self.fit[test] = self.passes(test)
            if self.fit[test] and not self.copy.survives(mutant, [test], 5 * self.limit):
                return f"caught by {test}"
        return "SURVIVED"

    def passes(self, test: str) -> bool:
        """Whether an integration test file passes without a mutation; one that does not is named, and left out."""
        verdict = self.copy.run([test], 10 * self.limit)[0]
        if verdict not in ("passed", "no tests"):
            print(f"    {test} fails without a mutation", flush=True)
        return verdict == "passed"


def main() -> int:
    """Choose mutants, see that the tests pass without, then with each of them; print who survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--limit", type=float, default=120, metavar="S", help="seconds for the tests of one mutant")
    parser.add_argument("--only", action="append", metavar="PREFIX", help="mutate files below such paths alone")
    parser.add_argument("--callers", action="store_true", help="try survivors with all tests that call the function")
    parser.add_argument("--integration", action="store_true", help="try survivors with tests that start an engine")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and run nothing")
    parser.add_argument("--uncalled", action="store_true", help="list functions that no test calls, and run no mutant")
    options = parser.parse_args()
    naming = tests_by_module()
    every = [m for path in sorted(naming) for m in mutants_of(Source(path, (ROOT / path).read_bytes()))]
    stale = EQUIVALENT.keys() - {mutant.rule for mutant in every}
    for line, old, new in sorted(stale):
        print(f"EQUIVALENT has {old!r} -> {new!r} in {line!r}, which no module that a test names has")
    if stale:
        return 2
    pool = [m for m in every if m.rule not in EQUIVALENT and m.path.startswith(tuple(options.only or [""]))]
    chosen = random.Random(options.seed).sample(pool, min(options.count, len(pool)))  # noqa: S311 # no secret
    print(f"seed {options.seed}: {len(chosen)} of {len(pool)} mutants in {len(naming)} modules", flush=True)
    if options.list:
        print(*chosen, sep="\n")
        return 0
    real = {
        module: [test for test in tests if options.integration or not starts_engine(test)]
        for module, tests in tests_by_module(INTEGRATION).items()
    }
    with tempfile.TemporaryDirectory(prefix="gb10-mutations-", ignore_cleanup_errors=True) as folder:
        copy = Copy(Path(folder))
        callers = copy.calls() if options.callers or options.uncalled else {}
        if options.uncalled:
            alone = Counter(m.function for m in pool if m.function not in callers and not m.function.endswith(":0"))
            print(f"{alone.total()} of {len(pool)} mutants are in {len(alone)} functions that no such test calls")
            print(*(f"{count:4} {function}" for function, count in alone.most_common()), sep="\n")
            return 0
        trial = Trial(copy=copy, limit=options.limit, naming=naming, callers=callers, real=real)
        used = {test for m in chosen for test in naming[m.path]}
        verdict, output = copy.run(sorted(used), 10 * options.limit)
        if verdict != "passed":
            print(output, f"the tests fail without a mutation: {verdict}", sep="\n")
            return 2
        verdicts = dict[Mutant, str]()
        for number, mutant in enumerate(chosen, 1):
            verdicts[mutant] = trial.of(mutant)
            print(f"{number:3} {verdicts[mutant]} {mutant}", flush=True)
        # A mutant may leave something in the store that makes a test fail for every later one.
        spoilt = [test for test, fit in trial.fit.items() if fit and not trial.passes(test)]
    survivors = [mutant for mutant, verdict in verdicts.items() if verdict == "SURVIVED"]
    print_sums(Counter(verdicts.values()))
    print("survivors:")
    for mutant in survivors:
        print(f"  {mutant}\n    {' '.join(naming[mutant.path])}")
    if spoilt:
        return 2
    return 0 if len(chosen) - len(survivors) >= LEAST * len(chosen) else 1


def print_sums(counts: Counter[str]) -> None:
    """The share that was caught, by those test files that were tried one after another."""
    total, caught = counts.total(), counts["caught"]
    print(f"\n{caught} of {total} caught ({caught / total:.0%}) by the test files that name the module")
    if more := counts["caught by callers"]:
        caught += more
        print(f"{caught} ({caught / total:.0%}) with the test files whose tests call the function")
    if real := total - caught - counts["SURVIVED"]:
        print(f"{caught + real} ({(caught + real) / total:.0%}) with the integration tests that name it")


if __name__ == "__main__":
    sys.exit(main())
