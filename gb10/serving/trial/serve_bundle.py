"""One benchmark of an endpoint as a bundle."""

import json
from pathlib import Path

from gb10.serving.load.results import Served
from gb10.serving.trial.bench_bundle import write_bundle
from gb10.serving.trial.launch_line import Outcome, result_of
from gb10.serving.trial.measuring import Measure


def write_serve_bundle(path: Path, served: Served, measure: Measure) -> str:
    """Write it; its sha256. Raises UsageError."""
    facts = {"endpoint": served.endpoint}
    outcome = Outcome(result=result_of(served.verdict, ""), why=served.why, facts=facts, serve=served.document())
    head = json.dumps({"kind": "serve", **measure.document})
    return write_bundle(path, f"{head}\n{outcome.line(served.boot, 0, 0)}\n", measure.book, None)
