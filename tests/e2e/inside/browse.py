"""In a container without a network: Debian's Chromium shows pages, light and dark, wide and as a phone.

python3 browse.py FOLDER, with pages in FOLDER/*.html; prints what it saw as JSON, and writes FOLDER/shots/*.png.
"""

import base64
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

DRIVER = "http://127.0.0.1:9515"
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
VIEWS = {"wide": (1200, 900), "phone": (375, 740)}
LOOK = """
const sides = [...document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect().right);
const paper = getComputedStyle(document.body).backgroundColor;
const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = values => values.map(v => linear(v / 255))
  .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const contrast = (one, two) => (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
const worst = (query, property, behind) => Math.min(...[...document.querySelectorAll(query)].map(
  part => contrast(light(rgb(getComputedStyle(part)[property])), light(rgb(behind)))));
const tint = getComputedStyle(document.querySelector('figure')).backgroundColor;
return {
  title: document.title, paper, wide: document.documentElement.scrollWidth - innerWidth,
  charts: document.querySelectorAll('svg').length, rows: document.querySelectorAll('tbody tr').length,
  beyond: Math.max(0, ...sides.map(side => side - innerWidth)),
  text: Math.min(worst('h1, p, td, li', 'color', paper), worst('svg text', 'fill', tint)),
  smallest: Math.min(...[...document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect().height)),
  requests: performance.getEntriesByType('resource').length,
};
"""


def call(path: str, body: Any = None, method: str = "POST") -> Any:
    data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(DRIVER + path, data, kind, method=method)  # noqa: S310 - chromedriver, beside us
    with urllib.request.urlopen(request, timeout=120) as reply:  # noqa: S310 - chromedriver, beside us
        return json.load(reply)["value"]


def ready() -> bool:
    for _ in range(600):
        try:
            return bool(call("/status", method="GET")["ready"])
        except OSError:
            time.sleep(0.1)
    raise SystemExit("chromedriver does not answer")


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / "shots").mkdir(exist_ok=True)
    with subprocess.Popen(["chromedriver", "--port=9515"], stdout=subprocess.DEVNULL) as driver:
        ready()
        wanted = {"goog:chromeOptions": {"args": OPTIONS}, "goog:loggingPrefs": {"browser": "ALL"}}
        session = call("/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        at, seen = f"/session/{session}", {}
        for page in sorted(folder.glob("*.html")):
            for view, (width, height) in VIEWS.items():
                for scheme in ("light", "dark"):
                    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": view == "phone"}
                    tell(at, "Emulation.setDeviceMetricsOverride", metrics)
                    tell(
                        at,
                        "Emulation.setEmulatedMedia",
                        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
                    )
                    call(f"{at}/url", {"url": f"file://{page}"})
                    name = f"{page.stem}-{view}-{scheme}"
                    seen[name] = call(f"{at}/execute/sync", {"script": LOOK, "args": []})
                    shot = tell(at, "Page.captureScreenshot", {"captureBeyondViewport": True})["data"]
                    (folder / f"shots/{name}.png").write_bytes(base64.b64decode(shot))
        seen["log"] = call(f"{at}/se/log", {"type": "browser"})
        call(at, method="DELETE")
        driver.terminate()
    print(json.dumps(seen))


def tell(at: str, command: str, parameters: Any) -> Any:
    return call(f"{at}/goog/cdp/execute", {"cmd": command, "params": parameters})


main()
