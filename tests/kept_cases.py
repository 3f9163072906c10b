"""All that doctor says of the kept reports and sound logs, a line of JSON each: python -m tests.kept_cases."""

import dataclasses
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import yaml

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.log_scan import Scan, scan_log
from gb10.serving.doctor.rule_files import is_tool_error, load_doctor_rules, load_stages

HERE = Path(__file__).parent


def read_starts() -> list[dict[str, str]]:
    """Logs of starts that were made for this: ``xz -dc tests/cases/starts.jsonl.xz`` shows them."""
    text = lzma.decompress((HERE / "cases/starts.jsonl.xz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def kept_logs() -> Iterator[tuple[str, str]]:
    """Each log with a name: the reports of tests/cases, and the logs of the unit tests."""
    for path in sorted((HERE / "cases").glob("*.yaml")):
        if path.stem == "verbs":
            continue  # of other verbs: no logs
        for one in yaml.safe_load(path.read_text(encoding="utf-8")):
            yield f"{path.stem} {one['id']}", "\n".join(one.get("logs") or [one["log"]])
    for one in read_starts():
        yield f"starts {one['id']}", one["log"]
    for path in sorted((HERE / "unit/data/doctor").rglob("*.log")):
        yield path.stem, path.read_text(encoding="utf-8")


def scanned(log: str) -> Scan:
    """A log as ``doctor --log`` scans it."""
    return scan_log([log.encode()], load_doctor_rules(), marks=load_stages().mark, tools=is_tool_error)


def main() -> None:
    """Print for each log what was read of it and each finding."""
    for name, log in kept_logs():
        scan = scanned(log)
        print(json.dumps([name, str(scan.start), str(scan.facts), [(one.rule.code, one.value) for one in scan.hits]]))
        for one in diagnose(load_doctor_rules(), Evidence(logs={"log": scan})).seen:
            said = (one.words(one.rule.meaning), one.words(one.rule.action), one.rule.evidence) if one.rule else ()
            shown = dataclasses.replace(one, rule=None)
            print(json.dumps([name, one.code, one.level, *said, str(shown)]))


if __name__ == "__main__":
    main()
