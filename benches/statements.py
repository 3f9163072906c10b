"""How many raise statements of a release doctor explains: each becomes a log of one traceback, with made-up values.

python3 -m bootstrap benches/statements.py vllm=WHEEL sglang=WHEEL

Two shares: the index of messages names this statement (its file and its words), and a family or a written rule says
more than the quote. Drawn by a seed from the files that start a server, load weights and answer requests.
"""

import random
import re
import sys
import zipfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.explaining import known_statement, question_of
from gb10.serving.doctor.log_scan import scan_log
from gb10.serving.doctor.printed_statements import Statement, python_statements, word_hash
from gb10.serving.doctor.rule_files import is_tool_error, load_doctor_rules, load_messages, load_releases, load_stages

DRAWN = 600
SEED = 20261129
PARTS = re.compile(
    r"config|args|load|worker|runner|executor|entrypoint|serv|quantization|attention|distributed|models?/"
)
TESTS = re.compile(r"/tests?/|benchmark")
VALUES = ("quux", "17", "4096", "o/m-9B", "[3, 5]", "None")
HEAD = {
    "vllm": "INFO 11-02 10:00:00 [core.py:1] Initializing a V1 LLM engine (v{version}) with config: model='o/m'\n",
    "sglang": "[2026-11-02 10:00:01] SGLang {version}\n[2026-11-02 10:00:01] server_args=ServerArgs(model_path='/m')\n",
}


def raised(wheel: Path) -> list[Statement]:
    """The raise statements of these parts of a wheel."""
    with zipfile.ZipFile(wheel) as files:
        return [
            one
            for name in sorted(files.namelist())
            if name.endswith(".py") and PARTS.search(name) and not TESTS.search(name)
            for one in python_statements(files.read(name).decode(), name)
            if one.kind == "raise"
        ]


def log_of(one: Statement, head: str, values: random.Random) -> str:
    """A log with the traceback that ends at this statement."""
    message = one.parts[0] + "".join(values.choice(VALUES) + part for part in one.parts[1:])
    return (
        f"{head}Traceback (most recent call last):\n"
        f'  File "/v/lib/python3.12/site-packages/{one.file}", line {one.line}, in {one.function}\n'
        f"    raise {one.exception}(\n{one.exception}: {message}\n"
    )


def main() -> None:
    """Print both shares for each wheel, and the families that spoke most."""
    rules = load_doctor_rules()
    for given in sys.argv[1:]:
        engine, _, path = given.partition("=")
        statements = raised(Path(path))
        draw = random.Random(SEED)  # noqa: S311 - a draw
        drawn = draw.sample(statements, min(DRAWN, len(statements)))
        head = HEAD[engine].format(version=Path(path).name.split("-")[1])
        codes: Counter[str] = Counter()
        found = other = 0
        for one in drawn:
            scan = scan_log([log_of(one, head, draw).encode()], rules, marks=load_stages().mark, tools=is_tool_error)
            seen = diagnose(rules, Evidence(logs={"log": scan})).seen
            codes[next((each.code for each in seen if each.level in ("error", "warning")), "nothing")] += 1
            known = known_statement(question_of(seen[0], scan, load_releases()), load_messages()) if seen else None
            words = {word_hash(word) for word in one.words}
            right = known is not None and known.row.file == one.file and words == set(known.row.hashes)
            found, other = found + right, other + (known is not None and not right)
        told = sum(count for code, count in codes.items() if code not in ("unknown", "nothing", "start-stopped"))
        print(
            f"{engine}: {len(drawn)} of {len(statements)} raise statements: the index names {found / len(drawn):.1%} "
            f"(another {other / len(drawn):.1%}), more than the quote {told / len(drawn):.1%}, no finding "
            f"{codes['nothing']}",
            codes.most_common(12),
        )


if __name__ == "__main__":
    main()
