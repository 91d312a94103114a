"""A server that speaks OpenAI's embeddings API, on a port of this machine."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from helpers.words import WordEncoder
from surprise_rerank import OpenAIEncoder

WORDS = WordEncoder()
KEY = "sk-very-secret-123"


def good(texts: list[str]) -> dict[str, Any]:
    items = [{"index": i, "embedding": row.tolist()} for i, row in enumerate(WORDS.encode(texts).dense)]
    return {"data": items[::-1]}  # in another order


class Endpoint:
    """Answers well after those that a test asks for: (status, body, headers), or a function of texts."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((self.path, dict(self.headers), body))
                answer = endpoint.answers.pop(0) if endpoint.answers else good
                status, headers = 200, {}
                if isinstance(answer, tuple):
                    status, answer, headers = answer
                raw = answer(body["input"]) if callable(answer) else answer
                raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def encoder(self, **options: Any) -> OpenAIEncoder:
        return OpenAIEncoder("toy", self.url, **{"api_key": KEY, **options})
