"""``selftest``: what gb10 says of a GB10, proven on one, step by step."""

from gb10.cli.common import verb_app

app = verb_app(
    """Prove on this Spark what gb10 says of it. Without a subcommand it is `run`; `run --help` has the options.

\b
./build.py selftest                                    # the machine, and an image of gb10 that is here
./build.py selftest --quick --image IMAGE              # the machine, and any image that is here
./build.py selftest --quick --model models/mine        # also a server; at most 10 minutes
./build.py selftest --list                             # the steps, and how long each may take
./build.py selftest import report.json                 # add a report to the claims (docs/claims.md)
./build.py selftest gate report.json --image DIGEST    # may a release get its tag?
""",
    group=True,
    places={
        "run": "machine.selftest_run:run",
        "import": "machine.selftest_import:import_report",
        "gate": "machine.selftest_import:gate",
    },
    default="run",
)


@app.callback()
def selftest() -> None:
    """Prove on this Spark what gb10 says of it."""
