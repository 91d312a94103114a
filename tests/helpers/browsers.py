"""A headless Chromium for tests of pages: where one is, and what it says of a page."""

import functools
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr", "--log-level=0"),
    *("--virtual-time-budget=5000", "--window-size=1100,1400"),
)
# Shows the page in a frame of the same server, where a script may look at it, whatever the page's own policy.
_HARNESS = """<!doctype html><meta charset="utf-8"><iframe src="{page}" width="1000" height="1200"></iframe>
<pre id="told"></pre><script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const page = frame.contentDocument;
  const told = (() => {{ {look} }})();
  document.getElementById("told").textContent = JSON.stringify(told);
}});
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page.

    Attributes:
        result: what the looking script returned.
        console: lines of the console: errors of scripts, and what a policy refused.
    """

    result: Any
    console: tuple[str, ...]


def find_browser() -> str | None:
    """The program of a Chromium; None where there is none."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None and importlib.util.find_spec("playwright") is not None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = playwright.chromium.executable_path
        browser = path if Path(path).is_file() else None
    return browser


def look_at(browser: str, page: Path, look: str) -> Seen:
    """Open a page and look at it.

    Args:
        browser: the program.
        page: a file.
        look: the body of a function in JavaScript, whose `page` is the document; returns JSON values.
    """
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as url:
        shutil.copy(page, Path(folder) / "page.html")
        Path(folder, "harness.html").write_text(_HARNESS.format(page="page.html", look=look))
        done = subprocess.run(
            [browser, *_FLAGS, f"--user-data-dir={folder}/profile", "--dump-dom", f"{url}/harness.html"],
            capture_output=True,
            text=True,
            timeout=90,
        )
    match = re.search(r'<pre id="told">(.+?)</pre>', done.stdout, re.DOTALL)
    assert match is not None, (done.stdout[-500:], done.stderr[-2000:])
    return Seen(json.loads(unescape(match[1])), tuple(re.findall(r".*CONSOLE.*", done.stderr)))


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
