"""`python -m attacks [CAMPAIGN ...] [--minutes M] [--seed S]`: attack rote and report tries and failures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attacks.campaign import CAMPAIGNS, Report, add_to_record, campaign, run

_MOST_SHOWN = 20
_said = 0.0


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
    failed = 0
    for name in names:
        print(f"{name}: {campaign(name).title}", flush=True)
        report = run(name, given.seed, seconds=60 * given.minutes / len(names), tries=given.tries, told=_told)
        if given.record is not None:
            add_to_record(given.record, report)
        failed += len(report.failures)
        sys.stderr.write("\r\033[K" if sys.stderr.isatty() else "")
        parts = ", ".join(f"{count:,} {group}" for group, count in report.groups.items())
        print(f"  {report.tries:,} tries in {report.seconds:.0f} s, {len(report.failures):,} failures")
        if parts:
            print(f"  {parts}")
        for line in report.failures[:_MOST_SHOWN]:
            print(f"  FAILED (seed {report.seed}) {line}")
    return 1 if failed else 0


def _told(report: Report) -> None:
    """A line that moves on a terminal, and one a minute elsewhere."""
    global _said  # noqa: PLW0603
    if not sys.stderr.isatty():
        if report.seconds // 60 != _said:
            _said = report.seconds // 60
            print(f"  {report.tries:,} tries, {len(report.failures):,} failures, {report.seconds:.0f} s", flush=True)
    else:
        sys.stderr.write(f"\r\033[K  {report.tries:,} tries, {len(report.failures):,} failures, {report.seconds:.0f} s")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
