"""The page: milliseconds from the last key of a question to both orders on the screen.

    surprise-rerank serve --index FOLDER
    python benchmarks/page_latency.py --url http://127.0.0.1:8000 --dataset beir/scifact

Questions of the data set are typed in a headless Chromium, key by key. Beside stand the same requests without
a browser, in turn: both orders, and one of them. The page waits some milliseconds for another key, and this
is in its figures.
"""

from __future__ import annotations

import argparse
import re
import shutil
import time
from collections.abc import Callable

import httpx
import numpy as np
from machine import describe
from playwright.sync_api import sync_playwright

from surprise_rerank.eval.retrieval.datasets import load_dataset

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# From the event of the last key until what it asked for is drawn.
_WATCH = """() => {
  window.took = [];
  const orders = document.getElementById("orders"), question = document.getElementById("question");
  let typed = 0;
  question.addEventListener("input", () => { typed = performance.now(); }, true);
  new MutationObserver(() => {
    if (orders.dataset.question !== question.value) return;
    requestAnimationFrame(() => setTimeout(() => {
      document.body.dataset.took = window.took.push(performance.now() - typed);
    }));
  }).observe(orders, { attributes: true, attributeFilter: ["data-question"] });
}"""


def main() -> None:
    """Print the medians and 95 % quantiles."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--url", default="http://127.0.0.1:8000")
    asked.add_argument("--dataset", default="beir/scifact")
    asked.add_argument("--questions", type=int, default=60)
    arguments = asked.parse_args()
    questions = list(load_dataset(arguments.dataset).queries.values())[: arguments.questions]
    both = {"top_k": 10, "excerpts": True, "keep_refused": True, "compare_with": "cosine"}
    rows: dict[str, list[float]] = {
        "one order, by request": [],
        "both orders, by request": [],
        "the page": [],
    }
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    with httpx.Client(base_url=arguments.url, timeout=60) as client, sync_playwright() as playwright:

        def request(question: str, **more: object) -> float:
            begun = time.perf_counter()
            client.post("/v1/search", json={"query": question, **more}).raise_for_status()
            return 1000 * (time.perf_counter() - begun)

        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(arguments.url)
        page.wait_for_selector("#examples button")
        page.evaluate(_WATCH)
        measured: dict[str, Callable[[str], float]] = {
            "one order, by request": lambda text: request(text, top_k=10),
            "both orders, by request": lambda text: request(text, **both),
        }
        request("the first one takes longest", **both)
        for number, question in enumerate(questions, start=1):
            text = " ".join(question.split())
            for name, one in measured.items():
                rows[name].append(one(text))
            page.locator("#question").fill("")
            page.wait_for_selector("#start:not([hidden])")
            page.locator("#question").press_sequentially(text)
            page.wait_for_selector(f'body[data-took="{number}"]')
            rows["the page"].append(page.evaluate("window.took.at(-1)"))
        script = client.get("/page/script.js").text
    pause = re.search(r"PAUSE = (\d+)", script)
    print(describe())
    print(
        f"{len(questions)} questions of {arguments.dataset}; the page waits {pause and pause[1]} ms for a key"
    )
    for name, own in rows.items():
        print(f"  {name:<26} median {np.median(own):6.0f} ms, 95 % {np.quantile(own, 0.95):6.0f} ms")


if __name__ == "__main__":
    main()
