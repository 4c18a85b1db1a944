"""The process behind `pool.Worker`: `python -m rote.web.worker`. Lines of JSON in, lines of JSON out.

It ends when its server does: a thread watches the other end of the pipe.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import IO, Any

__all__ = ["main"]


def main() -> None:
    """Answer until the server is gone."""
    out = os.fdopen(os.dup(1), "wb")
    # Whatever else prints must not get between the lines.
    os.dup2(2, 1)
    if hasattr(os, "nice"):
        os.nice(5)
    questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()
    while True:
        question = json.loads(questions.get())
        _say(out, _answer(question["task"], question["args"], out))


def _listen(source: IO[bytes], questions: queue.SimpleQueue[bytes]) -> None:
    for line in source:
        questions.put(line)
    os._exit(0)


def _answer(task: str, args: dict[str, Any], out: IO[bytes]) -> dict[str, Any]:
    from rote.errors import RoteError
    from rote.web import tasks

    try:
        return {"done": tasks.TASKS[task](args, lambda record: _say(out, {"notice": record}))}
    except RoteError as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"refused": "not enough memory for this; try a smaller shape or fewer facts."}
    except OSError as error:
        return {"refused": f"a file could not be read or written: {error.strerror or error}."}
    except Exception as error:
        return {"refused": f"a fault in rote itself, {type(error).__name__}: {str(error)[:300]}."}


def _say(out: IO[bytes], record: dict[str, Any]) -> None:
    out.write(json.dumps(record, allow_nan=False).encode() + b"\n")
    out.flush()


if __name__ == "__main__":
    main()
