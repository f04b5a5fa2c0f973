#!/usr/bin/env python3
"""Reads the flight recorders of a job: where each rank waits, and which ranks are missing.

    read_flight.py DIR          DIR as given to --flight-recorder
"""
import json
import pathlib
import sys


def read(folder):
    """The dumps by rank."""
    dumps = [json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("rank-*.json"))]
    return {dump["rank"]: dump for dump in dumps}


def place(operation):
    """The name of an operation, equal on all ranks."""
    return operation["group"], operation["sequence"]


def line(rank, dump):
    if not dump["operations"]:
        return f"rank {rank:3}  {dump['host']}  in {dump['phase']}: nothing entered"
    last = dump["operations"][-1]
    state = "after" if last["left"] else f"for {dump['unix_time'] - last['entered']:.3f} s in"
    return (f"rank {rank:3}  {dump['host']}  in {dump['phase']}: {state} {last['operation']} {last['sequence']} "
            f"({last['group']}, {last['bytes']} bytes, schedule {last['schedule']} step {last['step']})")


def who_is_missing(dumps):
    """One line for each operation in which ranks wait: the ranks that have not entered it."""
    lines = []
    waiting = {}
    for rank, dump in dumps.items():
        if dump["operations"] and not dump["operations"][-1]["left"]:
            waiting.setdefault(place(dump["operations"][-1]), []).append(rank)
    for (group, sequence), ranks in waiting.items():
        entered = {rank for rank, dump in dumps.items()
                   if any(place(each) == (group, sequence) for each in dump["operations"])}
        size = max(dumps) + 1
        missing = [rank for rank in range(size) if rank not in entered]
        lines.append(f"{group} operation {sequence}: waited for by {ranks}, not entered by {missing or 'nobody'}; "
                     "ranks without a dump may be missing as well")
    return lines


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    dumps = read(sys.argv[1])
    if not dumps:
        sys.exit(f"{sys.argv[1]}: found no rank-R.json, expected the folder of --flight-recorder")
    for rank, dump in sorted(dumps.items()):
        print(line(rank, dump))
    print("\n".join(who_is_missing(dumps)))
    whys = {dump["why"] for dump in dumps.values()}
    print("\n".join(f"why: {why}" for why in sorted(whys)))


if __name__ == "__main__":
    main()
