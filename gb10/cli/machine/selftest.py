"""``selftest``: what gb10 says of a GB10, proven on one, step by step."""

from gb10.cli.common import verb_app

app = verb_app(
    """Prove on this Spark what gb10 says of it. Without a subcommand it is `run`.

\b
./build.py selftest                                    # the machine, and the image that is here
./build.py selftest --quick --model models/mine        # also a server; at most 10 minutes
./build.py selftest --list                             # the steps, and how long each may take
""",
    group=True,
    places={"run": "machine.selftest_run:run"},
    default="run",
)


@app.callback()
def selftest() -> None:
    """Prove on this Spark what gb10 says of it."""
