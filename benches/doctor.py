"""What a check-up costs: 50 MB of log in one pass, one line against all errors of tools, and one look at this machine.

python3 -m bootstrap benches/doctor.py
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.serving.checkup.collect import collect_host
from gb10.serving.doctor.log_scan import BLOCK, scan_log
from gb10.serving.doctor.rule_files import is_tool_error, load_doctor_rules, load_tool_errors

RUNS = 5
ASKED = 500
TROUBLE = (
    "(EngineCore pid={0}) ERROR 11-24 08:00:00 [core.py:1231] ValueError: block {0} of the cache was not found there\n"
)
"""A line that is compared with the errors of tools, and is none of them."""
LINES = (
    "(APIServer pid=1) INFO 11-24 08:{:02}:{:02} [loggers.py:289] Engine 000: Avg prompt throughput: {}.3 tokens/s, "
    "Avg generation throughput: 38.8 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.3%\n",
    'INFO:     11-24 08:{:02}:{:02} 10.0.0.9:{} - "POST /v1/chat/completions HTTP/1.1" 200 OK, with some more words\n',
    "[2026-11-24 08:{:02}:{:02} TP0] Decode batch, #running-req: 4, #token: {}, token usage: 0.02, cuda graph: True\n",
)


def main() -> None:
    """Print all three."""
    rules = load_doctor_rules()
    usual = [LINES[at % 3].format(at // 60 % 60, at % 60, at) for at in range(400_000)]
    troubled = [f"{TROUBLE.format(at)}{one}" if at % 1000 == 0 else one for at, one in enumerate(usual)]
    for name, lines in (("usual", usual), ("with trouble", troubled)):
        text = "".join(lines).encode()[:50_000_000]
        blocks = [text[at : at + BLOCK] for at in range(0, len(text), BLOCK)]
        for _ in range(RUNS):
            began, spent = time.perf_counter(), time.process_time()
            scan = scan_log(blocks, rules, tools=is_tool_error)
            wall, cpu = time.perf_counter() - began, time.process_time() - spent
            found = f"{len(scan.hits)} findings, {len(scan.trouble)} unknown"
            print(
                f"{scan.size / 1e6:.0f} MB {name}, {len(rules)} rules: {wall:.2f} s, {cpu:.2f} CPU s; {found}",
                flush=True,
            )
    for _ in range(RUNS):
        began = time.process_time()
        for at in range(ASKED):
            is_tool_error(TROUBLE.format(at))
        spent = (time.process_time() - began) / ASKED
        print(f"one line, {len(load_tool_errors())} errors of tools: {spent * 1000:.2f} CPU ms", flush=True)
    for _ in range(RUNS):
        began = time.perf_counter()
        machine = collect_host("localhost")
        print(f"one machine: {time.perf_counter() - began:.2f} s, {len(machine.look.cores)} cores", flush=True)


if __name__ == "__main__":
    main()
