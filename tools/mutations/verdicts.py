"""Results of single faults, arguments about survivors, and the verdict on all."""
import hashlib
import json

LEAST_CAUGHT = 0.9  # of the faults that are not equivalent


class Results:
    """One file per fault; a result holds while the fault's source stays the same."""

    def __init__(self, folder, source_of):
        self.folder, self.source_of = folder, source_of
        folder.mkdir(parents=True, exist_ok=True)

    def _hash(self, file):
        return hashlib.sha256(self.source_of(file).encode()).hexdigest()

    def read(self, fault):
        path = self.folder / f"{fault.name}.json"
        if not path.exists():
            return None
        result = json.loads(path.read_text(encoding="utf-8"))
        return result if result["source"] == self._hash(fault.file) else None

    def write(self, fault, result):
        result = result | {"source": self._hash(fault.file)}
        path = self.folder / f"{fault.name}.json"
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def drop(self, fault):
        (self.folder / f"{fault.name}.json").unlink(missing_ok=True)


def chosen(places, count, result_of):
    """The first `count` of an area's places that compile, as far as results are known; the rest counts as usable."""
    usable = []
    for fault in places:
        if len(usable) == count:
            break
        result = result_of(fault)
        if not result or result["status"] != "does not compile":
            usable.append(fault)
    return usable


def verdict(faults, result_of, arguments):
    """(counts, survivors, share of caught faults) of faults by their results and the committed arguments."""
    counts = dict.fromkeys(("caught", "equivalent", "survived", "not judged"), 0)
    survivors = []
    for fault in faults:
        result = result_of(fault)
        if "equivalent" in arguments.get(fault.name, {}):
            counts["equivalent"] += 1
        elif not result:
            counts["not judged"] += 1
        elif result["status"] == "caught":
            counts["caught"] += 1
        else:
            counts["survived"] += 1
            survivors.append(fault)
    judged = counts["caught"] + counts["survived"]
    return counts, survivors, counts["caught"] / judged if judged else 0.0


def summary(counts, share):
    """One line."""
    text = (f"{sum(counts.values())} faults planted: {counts['caught']} caught, {counts['equivalent']} equivalent, "
            f"{counts['survived']} survived")
    if counts["not judged"]:
        text += f", {counts['not judged']} not judged"
    return f"{text}; {100 * share:.0f} % of those not equivalent are caught"


def is_good(counts, share):
    return counts["not judged"] == 0 and share >= LEAST_CAUGHT
