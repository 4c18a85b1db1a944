"""`python -m attacks [CAMPAIGN ...] [--minutes M] [--seed S]`: attack rote and report tries and failures."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from attacks.campaign import CAMPAIGNS, Report, add_to_record, campaign, run

_MOST_SHOWN = 20
_CLEAR = "\r\033[K"


def main() -> int:
    parser = argparse.ArgumentParser(prog="attacks", description=__doc__)
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=f"some of {', '.join(CAMPAIGNS)}; all if none")
    parser.add_argument("--minutes", type=float, default=10.0, help="time for all campaigns together")
    parser.add_argument("--tries", type=int, default=None, help="end each campaign after so many tries")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same attacks")
    parser.add_argument("--record", type=Path, default=None, help="a JSON file to which the counts are added")
    given = parser.parse_args()
    names = given.campaigns or list(CAMPAIGNS)
    wrong = [name for name in names if name not in CAMPAIGNS]
    if wrong:
        parser.error(f"there is no campaign {wrong[0]}; choose from {', '.join(CAMPAIGNS)}")
    if not 0 < given.minutes < float("inf") or (given.tries is not None and given.tries < 1):
        parser.error("minutes and tries are numbers above 0")
    if given.record is not None and not given.record.absolute().parent.is_dir():
        parser.error(f"there is no directory {given.record.absolute().parent} to record in")
    # Ended from outside, also in the background: what was tried until then counts.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    failed = 0
    for name in names:
        print(f"{name}: {campaign(name).title}", flush=True)
        report = run(name, given.seed, seconds=60 * given.minutes / len(names), tries=given.tries, told=Teller())
        if given.record is not None:
            add_to_record(given.record, report)
        failed += len(report.failures)
        sys.stderr.write(_CLEAR * sys.stderr.isatty())
        parts = ", ".join(f"{count:,} {group}" for group, count in report.groups.items())
        print(f"  {report.tries:,} tries in {report.seconds:.0f} s, {len(report.failures):,} failures")
        if parts:
            print(f"  {parts}")
    return 1 if failed else 0


class Teller:
    """Says how a campaign goes: a line that moves on a terminal, one a minute elsewhere, and every failure at once."""

    def __init__(self) -> None:
        self._minutes, self._failures = 0, 0

    def __call__(self, report: Report) -> None:
        moving = sys.stderr.isatty()
        for line in report.failures[self._failures : _MOST_SHOWN]:
            print(f"{_CLEAR * moving}  FAILED (seed {report.seed}) {line}", flush=True)
        self._failures = len(report.failures)
        so_far = f"  {report.tries:,} tries, {len(report.failures):,} failures, {report.seconds:.0f} s"
        if moving:
            sys.stderr.write(f"{_CLEAR}{so_far}")
            sys.stderr.flush()
        elif report.seconds // 60 > self._minutes:
            self._minutes = int(report.seconds // 60)
            print(so_far, flush=True)


if __name__ == "__main__":
    sys.exit(main())
