"""How a verdict is printed: a table on a terminal, plain rows in a pipe, counts when quiet."""

import sys
from collections.abc import Collection

from gb10.core.host import Host
from gb10.core.reporter import NORMAL, terminal
from gb10.image.proof.arch_match import Verdict
from gb10.image.proof.report import render_rows, render_summary, render_table
from gb10.inside.loader import Fit


def print_verdict(host: Host, verdict: Verdict, shown: Collection[Fit]) -> None:
    """The binaries of these fits, then the counts of all."""
    if host.reporter.verbosity < NORMAL:
        print(render_summary(verdict))
    elif sys.stdout.isatty():
        terminal(host.env, stderr=False).print(render_table(verdict, shown))
    else:
        print("\n".join((*render_rows(verdict, shown), str(render_summary(verdict)))))
