"""The parts of the program that get faults, and which of their sources do."""
import dataclasses
import fnmatch

SEED = 20261129


@dataclasses.dataclass(frozen=True)
class Area:
    name: str
    count: int       # of faults
    patterns: tuple  # of paths; * stays within a folder
    per_file: int = 2


AREAS = (
    Area("kernels", 5, ("runtime/backends/cpu/kernels/*.h",)),
    Area("CPU backend", 7, ("runtime/backends/cpu/*.cpp",)),
    Area("sampling", 12, ("runtime/sampling/*.cpp",)),
    Area("partition", 12, ("shards/*.cpp", "shards/partition/*.cpp", "shards/families/*.cpp")),
    Area("scheduling", 12, ("actors/*.cpp", "engine/*.cpp", "engine/requests/*.cpp")),
    Area("transport", 12, ("transport/*.cpp", "transport/*/*.cpp")),
)
# Sources that few machines run: matrix units; and texts for people.
LEFT_OUT = ("*/tile_unit.h", "*/tiles.h", "*/linear_tiles.cpp", "*/explain.cpp", "*/unavailable.cpp", "*_text.cpp", "*_log.cpp")


def sources_of(area, files):
    """Those of `files` that belong to the area."""
    return [file for file in files
            if any(fnmatch.fnmatch(file, pattern) and file.count("/") == pattern.count("/") for pattern in area.patterns)
            and not any(fnmatch.fnmatch(file, pattern) for pattern in LEFT_OUT)]
