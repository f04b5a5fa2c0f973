#!/usr/bin/env python3
"""Plants small faults in a copy of the project and checks that tests catch them.

    mutations.py [--list] [--seconds 240] [--again NAME|survived …] [--only AREA …] [--tree FOLDER]

Needs what a build with tests needs, and the demo model. The copy, its build folder and the results are in
build/mutations; a run goes on where the last one ended. Exit status: 0 at least 90 % of the faults that are not argued
equivalent are caught, 1 fewer are, 2 wrong arguments or no build, 130 interrupted.
"""
import argparse
import itertools
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import areas  # noqa: E402
import faults  # noqa: E402
import judge  # noqa: E402
import tree as trees  # noqa: E402
import verdicts  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutations"
SURVIVORS = pathlib.Path(__file__).with_name("survivors.json")
MOST_BROKEN = 12  # in a row do not compile: then the build itself is broken


def places_of(tree):
    """Area → its faults in order."""
    places = {}
    for area in areas.AREAS:
        found = [fault for file in areas.sources_of(area, tree.files) for fault in faults.faults_of(file, tree.source(file))]
        places[area] = faults.in_order(found, areas.SEED, area.per_file)
    return places


def all_chosen(places, results):
    """The faults of all areas, taken in turn, so that an interrupted run has some of each."""
    lists = [verdicts.chosen(order, area.count, results.read) for area, order in places.items()]
    return [fault for row in itertools.zip_longest(*lists) for fault in row if fault]


def line_of(fault, result):
    found = result["status"] if result else "not judged"
    if found == "caught":
        found += f" by {result['test']}: {result['how']}"
    return f"{fault.name} {fault.file}:{fault.line} {fault.kind}: {fault.change}: {found}"


def judge_all(tree, places, results, arguments, seconds):
    tree.copy()
    tree.configure()
    court = judge.Judge(tree, FOLDER / "usable_tests.json", seconds)
    broken = 0
    while True:
        open_faults = [fault for fault in all_chosen(places, results)
                       if not results.read(fault) and "equivalent" not in arguments.get(fault.name, {})]
        if not open_faults:
            return
        fault = open_faults[0]
        result = court.judge(fault, (arguments.get(fault.name, {}).get("caught by"),))
        results.write(fault, result)
        print(line_of(fault, result), flush=True)
        broken = broken + 1 if result["status"] == "does not compile" else 0
        if broken == MOST_BROKEN:
            raise RuntimeError(f"[mutations] {broken} faults in a row do not compile; does the project?\n{result['output']}")


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the faults and what is known of them; judge none")
    parser.add_argument("--seconds", type=float, default=240.0, help="of a fault's builds and tests")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help="forget these results first; 'survived': of "
                        "all survivors")
    parser.add_argument("--only", nargs="+", metavar="AREA", choices=[area.name for area in areas.AREAS],
                        help="of: " + ", ".join(area.name for area in areas.AREAS))
    parser.add_argument("--tree", type=pathlib.Path, default=FOLDER / "tree", help="the folder of the copy")
    options = parser.parse_args()
    tree = trees.Tree(ROOT, options.tree)
    arguments = {entry["name"]: entry for entry in json.loads(SURVIVORS.read_text(encoding="utf-8"))}
    places = {area: order for area, order in places_of(tree).items() if not options.only or area.name in options.only}
    results = verdicts.Results(FOLDER / "results", tree.source)
    for fault in itertools.chain(*places.values()):
        result = results.read(fault) if options.again else None
        if result and (fault.name in options.again or result["status"] == "survived" and "survived" in options.again):
            results.drop(fault)
    if not options.list:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)
        try:
            judge_all(tree, places, results, arguments, options.seconds)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return 130
    planted = all_chosen(places, results)
    if options.list:
        for fault in planted:
            print(line_of(fault, results.read(fault)))
    counts, survivors, share = verdicts.verdict(planted, results.read, arguments)
    for fault in survivors:
        print(f"survived: {line_of(fault, None)}\n    {fault.text}\n    write a test that catches it, or argue in "
              f"{SURVIVORS.relative_to(ROOT)} why it changes nothing")
    print(verdicts.summary(counts, share))
    return 0 if options.list or verdicts.is_good(counts, share) else 1


if __name__ == "__main__":
    sys.exit(main())
