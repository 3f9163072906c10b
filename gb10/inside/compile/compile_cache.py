"""Inside a build stage: the compile cache that machines share, checked before a compile and counted after it.

    compile_cache.py --config CCACHE.CONF    print the configuration to compile with: this one, or none (/dev/null)
    compile_cache.py --count STATSLOG        print where the results of ccache's calls came from

ccache gives up on a server silently, for each unit again, and does not log in when the user's name is empty. So this
program sends one request with the same login first, and prints a defect.
"""

import argparse
import base64
import http.client
import socket
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

SAYS = "compile cache: "  # whoever builds repeats lines that begin so
TIMEOUT = 3.0  # seconds
ABSENT = "gb10-asks-whether-anybody-is-here"
FAILED = ("remote_storage_error", "remote_storage_timeout")


def main() -> None:
    """Check the server, or count the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--count", type=Path)
    options = parser.parse_args()
    if options.count:
        text = options.count.read_text(encoding="utf-8") if options.count.exists() else ""
        print(f"{SAYS}{summary(text)}", flush=True)
        return
    wrong = check_server(address(options.config.read_text(encoding="utf-8")))
    if wrong:
        print(f"{SAYS}{wrong}: compiling without it", file=sys.stderr, flush=True)
    print("/dev/null" if wrong else options.config)


def address(config: str) -> SplitResult:
    """The server's URL in a ccache configuration; attributes follow it, each after a bar."""
    values = dict(line.split(" = ", 1) for line in config.splitlines())
    return urlsplit(values["remote_storage"].split("|")[0])


def check_server(url: SplitResult) -> str | None:
    """The defect of the server in words; None when it answers and accepts the login."""
    try:
        return check_redis(url) if url.scheme == "redis" else check_http(url)
    except (OSError, http.client.HTTPException) as error:
        return f"no answer from the server ({getattr(error, 'strerror', None) or str(error) or type(error).__name__})"


def check_redis(url: SplitResult) -> str | None:
    """The login and a PING, in redis' own protocol."""
    asked = [["PING"]]
    if url.password is not None:
        asked.insert(0, ["AUTH", unquote(url.username or ""), unquote(url.password)])
    with socket.create_connection((url.hostname, url.port or 6379), TIMEOUT) as server, server.makefile("rb") as lines:
        for words in asked:
            server.sendall(b"*%d\r\n" % len(words) + b"".join(map(redis_string, words)))
            reply = lines.readline(1000).decode(errors="replace").strip()
            if not reply.startswith("+"):
                why = reply.lstrip("-").split(" ")[0]  # what follows may repeat the password
                return f"the server refused {words[0]} ({why or 'it hung up'})"
    return None


def redis_string(word: str) -> bytes:
    """A bulk string of redis' protocol."""
    content = word.encode()
    return b"$%d\r\n%s\r\n" % (len(content), content)


def check_http(url: SplitResult) -> str | None:
    """Request a name that does not exist, with the login: a server that works answers 404."""
    login = f"{unquote(url.username or '')}:{unquote(url.password or '')}".encode()
    headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"} if url.username else {}
    server = http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=TIMEOUT)
    try:
        server.request("GET", f"{url.path.rstrip('/')}/{ABSENT}", headers=headers)
        status = server.getresponse().status
    finally:
        server.close()
    return None if status in (200, 404) else f"the server refused a GET (HTTP {status})"


def summary(log: str) -> str:
    """A statistics log of ccache in words: per call the source's name after ``#``, then what happened, a line each."""
    calls = [set(call.splitlines()[1:]) for call in f"\n{log}".split("\n# ")[1:]]
    found = Counter(
        "here" if "local_storage_hit" in call else "server" if "remote_storage_hit" in call else "compiled"
        for call in calls
    )
    text = f"units: {found['here']} from this builder, {found['server']} from the server, "
    failed = sum(not call.isdisjoint(FAILED) for call in calls)
    return f"{text}{found['compiled']} compiled" + (f"; the server failed for {failed}" if failed else "")


if __name__ == "__main__":
    main()
