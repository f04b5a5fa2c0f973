#include "runtime/backends/cuda/node_split.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cuda {
namespace {

using graph::Op;
using graph::ValueId;

bool is_of_the_host(Op op) {
  switch (op) {
    case Op::kClampPositions:
    case Op::kFirstRows:
    case Op::kRunningSlots:
    case Op::kOwnSlots:
    case Op::kMarkSeen:
    case Op::kAdvance:
    case Op::kAgree:
    case Op::kSample:
    case Op::kAccept:
    case Op::kScore: return true;
    default: return false;
  }
}

/// What is known about a value, in the order of the nodes.
struct Known {
  bool is_of_device = false;    // a result of the body
  bool is_late = false;         // a result of the epilogue, or updated there
  bool is_device_read = false;  // by a node of the body
  bool is_late_touched = false;
};

class Splitter {
 public:
  explicit Splitter(const graph::Graph& graph) : graph_(graph), known_(graph.values.size()) {}

  Result<std::vector<Place>> run() {
    std::vector<Place> places;
    for (const graph::Node& node : graph_.nodes) {
      if (is_of_the_host(node.op)) {
        places.push_back(is_early(node) ? Place::kPrologue : Place::kEpilogue);
        if (places.back() == Place::kEpilogue) mark_late(node);
        continue;
      }
      places.push_back(Place::kBody);
      for (const ValueId operand : node.operands) {
        if (known(operand).is_late) return too_late(node, operand);
        known(operand).is_device_read = true;
      }
      if (node.result) known(*node.result).is_of_device = true;
    }
    return places;
  }

 private:
  Known& known(ValueId id) { return known_[static_cast<size_t>(id.value)]; }

  bool is_early(const graph::Node& node) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Known& operand = known(node.operands[i]);
      if (operand.is_of_device || operand.is_late || operand.is_late_touched) return false;
      if (graph::updates_operand(node.op, i) && operand.is_device_read) return false;
    }
    return true;
  }

  void mark_late(const graph::Node& node) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (graph_.value(node.operands[i]).kind != graph::ValueKind::kState) continue;
      known(node.operands[i]).is_late_touched = true;
      if (graph::updates_operand(node.op, i)) known(node.operands[i]).is_late = true;
    }
    if (node.result) known(*node.result).is_late = true;
  }

  Error too_late(const graph::Node& node, ValueId operand) const {
    return {ErrorKind::kUnsupported,
            fmt::format("[runtime/backends/cuda] cannot compile {}: found {} reading {}, which the host computes after "
                        "the device; expected only results of the device and of the host before it",
                        graph_.name, to_string(node.op), graph_.value(operand).name)};
  }

  const graph::Graph& graph_;
  std::vector<Known> known_;
};

}  // namespace

Result<std::vector<Place>> split_nodes(const graph::Graph& graph) { return Splitter(graph).run(); }

}  // namespace lockstep::cuda
