"""`python -m attacks.explorer_visitor PORT`: fetch a page and one of its parts until the input ends; say how it went.

It is a process of its own, so that it measures the explorer and not those who attack it.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time

__all__ = ["main"]

PATHS = ("/capacity", "/static/x/lib.js")


def main() -> None:
    """Print the number of visits, the slowest in seconds and by path, and whatever was not the page."""
    port, over = int(sys.argv[1]), threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    visits, slowest, failures = 0, dict.fromkeys(PATHS, 0.0), []
    while not over.wait(0.05):
        for path in PATHS:
            began = time.monotonic()
            try:
                line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                line.request("GET", path)
                answer = line.getresponse()
                body = answer.read()
                line.close()
                if answer.status != 200:
                    failures.append(f"{path} gave {answer.status} {body[:80]!r}")
            except (OSError, http.client.HTTPException) as error:
                failures.append(f"{path} gave {error!r}")
            visits, slowest[path] = visits + 1, max(slowest[path], time.monotonic() - began)
    print(json.dumps({"visits": visits, "slowest": slowest, "failures": failures[:10]}))


if __name__ == "__main__":
    main()
