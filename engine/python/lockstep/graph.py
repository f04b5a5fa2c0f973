"""The graph of a step, as plain objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import _lockstep
from .calls import called
from .errors import bad_input
from .tables import html_table


@dataclass(frozen=True)
class GraphTensor:
    """A named tensor of a graph."""

    name: str
    kind: str  # "input", "weight", "state", "constant" or "result"
    dtype: str  # "f32", "bf16", "i32" and so on
    shape: tuple[int, ...]
    slices: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()  # of a weight: (checkpoint tensor, [begin, end) by dim)

    @property
    def type(self) -> str:
        """Such as "bf16[4,576]"."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class GraphNode:
    """One operation."""

    op: str  # "linear", "all_reduce", "attention" and so on
    operands: tuple[GraphTensor, ...]
    result: GraphTensor | None  # None: it only updates states
    attributes: dict[str, Any]
    is_collective: bool  # whether all ranks execute it together
    weight_bytes: int  # of the weights that it reads
    flops: int  # a multiply-add is 2; products with weights only
    sent_bytes: int  # that this rank contributes to a collective

    @property
    def name(self) -> str:
        """The name of the result; empty without one."""
        return "" if self.result is None else self.result.name

    @property
    def type(self) -> str:
        """The type of the result, such as "bf16[4,576]"; empty without one."""
        return "" if self.result is None else self.result.type

    def __str__(self) -> str:
        operands = ", ".join(f"%{operand.name}" for operand in self.operands)
        result = "" if self.result is None else f"%{self.name} = "
        return f"{result}{self.op}({operands})" + (f" : {self.type}" if self.type else "")


class Graph(Sequence[GraphNode]):
    """The step of one rank: a sequence of nodes in the order of their execution. `print` shows its text form."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.name: str = given["name"]  # "prefill", "decode", "verify" or "score"
        self.rank: int = given["rank"]
        self.ranks: int = given["ranks"]
        self.rows: int = given["rows"]  # token rows of a step
        self.slots: int = given["slots"]  # sequences that the states hold
        self.tensors: dict[str, GraphTensor] = {
            value["name"]: GraphTensor(value["name"], value["kind"], value["dtype"], tuple(value["shape"]),
                                       tuple((tensor, tuple(ranges)) for tensor, ranges in value["slices"]))
            for value in given["values"]}
        self.nodes: list[GraphNode] = [
            GraphNode(**(node | {"operands": tuple(self.tensors[name] for name in node["operands"]),
                                 "result": None if node["result"] is None else self.tensors[node["result"]]}))
            for node in given["nodes"]]
        self.outputs: dict[str, GraphTensor] = {name: self.tensors[value] for name, value in given["outputs"].items()}
        self._text: str = given["text"]

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, index: Any) -> Any:
        return self.nodes[index]

    def __iter__(self) -> Iterator[GraphNode]:
        return iter(self.nodes)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return (f"<lockstep.Graph {self.name} rank {self.rank} of {self.ranks}: {len(self)} nodes, "
                f"{len(self.collectives)} collectives>")

    def of_kind(self, kind: str) -> list[GraphTensor]:
        """The tensors of one kind: "input", "weight", "state", "constant" or "result"."""
        return [tensor for tensor in self.tensors.values() if tensor.kind == kind]

    @property
    def collectives(self) -> list[GraphNode]:
        """The nodes that all ranks execute together."""
        return [node for node in self.nodes if node.is_collective]

    @property
    def cost(self) -> dict[str, int]:
        """Of one step with all rows in use: "weight_bytes" read, "flops", "collectives", "sent_bytes"."""
        return {"weight_bytes": sum(node.weight_bytes for node in self.nodes),
                "flops": sum(node.flops for node in self.nodes), "collectives": len(self.collectives),
                "sent_bytes": sum(node.sent_bytes for node in self.nodes)}

    def _repr_html_(self) -> str:
        counted = Counter(node.op for node in self.nodes)
        rows = []
        for op, count in counted.most_common():
            nodes = [node for node in self.nodes if node.op == op]
            rows.append((op, count, sum(node.weight_bytes for node in nodes), sum(node.flops for node in nodes),
                         sum(node.sent_bytes for node in nodes)))
        return html_table(f"{self.name}, rank {self.rank} of {self.ranks}, {self.rows} rows",
                          ("operation", "nodes", "weight bytes", "FLOPs", "sent bytes"), rows)


def graph_of(engine: _lockstep.OpenModel, name: str, rank: int, before_passes: bool) -> Graph:
    """The graph called `name` of `rank`."""
    found = called(engine, "graphs", rank, before_passes)
    for given in found:
        if given["name"] == name:
            return Graph(given)
    raise bad_input("cannot show a graph", repr(name), "one of " + ", ".join(given["name"] for given in found), "correct it")
