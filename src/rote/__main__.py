"""`rote` and `python -m rote`: from the first moment on, ctrl-C ends in one sentence."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the imports that it needs may be interrupted too."""
    try:
        from rote.cli.main import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("rote: interrupted; nothing was left half-written.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
