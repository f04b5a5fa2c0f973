#include "runtime/backends/cuda/host_operations.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/check.h"
#include "runtime/device/agreement.h"
#include "runtime/graph/agree.h"
#include "runtime/sampling/scoring.h"
#include "runtime/sampling/slot_states.h"

namespace lockstep::cuda {
namespace {

using graph::Node;
using graph::Op;

/// A node's operands and result in the host's memory.
class Operands {
 public:
  Operands(const Node& node, const HostMemory& memory) : node_(node), memory_(memory) {}

  int32_t* ints(size_t i) const { return reinterpret_cast<int32_t*>(memory_.at(node_.operands[i])); }
  float* floats(size_t i) const { return reinterpret_cast<float*>(memory_.at(node_.operands[i])); }
  uint8_t* bytes(size_t i) const { return reinterpret_cast<uint8_t*>(memory_.at(node_.operands[i])); }
  std::span<int32_t> all_ints(size_t i) const { return {ints(i), static_cast<size_t>(elements(i))}; }
  const Shape& shape(size_t i) const { return memory_.graph.value(node_.operands[i]).type.shape; }
  int64_t elements(size_t i) const { return shape(i).elements(); }
  int64_t columns(size_t i) const { return shape(i)[shape(i).rank() - 1]; }
  std::span<int32_t> result() const {
    const auto count = static_cast<size_t>(memory_.graph.value(*node_.result).type.shape.elements());
    return {reinterpret_cast<int32_t*>(memory_.at(*node_.result)), count};
  }
  float* float_result() const { return reinterpret_cast<float*>(memory_.at(*node_.result)); }

  sampling::SlotStates drawing_states(size_t last_id, size_t seen) const {
    return {.last_id = ints(last_id),
            .output_index = ints(last_id + 1),
            .finished = ints(last_id + 2),
            .seen = bytes(seen),
            .numbers = floats(seen + 1),
            .integers = ints(seen + 2),
            .seed = ints(seen + 3),
            .eos = ints(seen + 4),
            .eos_ids = columns(seen + 4),
            .vocabulary = columns(seen)};
  }

 private:
  const Node& node_;
  const HostMemory& memory_;
};

HostOperation sample(const Operands& in) {
  const sampling::SlotStates states = in.drawing_states(/*last_id=*/2, /*seen=*/5);
  return [states, logits = in.floats(0), rows = in.ints(1), dst = in.result(),
          scratch = std::make_shared<sampling::Scratch>(states.vocabulary)]() -> Result<void> {
    for (size_t slot = 0; slot < dst.size(); ++slot) {
      const auto at = static_cast<int64_t>(slot);
      dst[slot] = sampling::sample_slot(states, at, rows[slot], logits + at * states.vocabulary, *scratch);
    }
    return ok();
  };
}

HostOperation accept(const Operands& in) {
  const sampling::SlotStates states = in.drawing_states(/*last_id=*/4, /*seen=*/7);
  return [states, logits = in.floats(0), ids = in.all_ints(1), slot_of = in.all_ints(2), length = in.all_ints(3),
          dst = in.result(), scratch = std::make_shared<sampling::Scratch>(states.vocabulary)]() -> Result<void> {
    const size_t per_slot = ids.size() / length.size();
    for (size_t slot = 0; slot < length.size(); ++slot) {
      const size_t first = slot * per_slot;
      sampling::accept_slot(states, static_cast<int64_t>(slot), ids.subspan(first, per_slot),
                            slot_of.subspan(first, per_slot), logits + static_cast<int64_t>(first) * states.vocabulary,
                            length.data(), dst.subspan(first, per_slot), *scratch);
    }
    return ok();
  };
}

HostOperation score(const Operands& in, int64_t width) {
  return [logits = in.floats(0), vocabulary = static_cast<size_t>(in.columns(0)), targets = in.all_ints(1),
          dst = in.float_result(), width = static_cast<size_t>(width),
          ids = std::vector<int32_t>(static_cast<size_t>(width - 1) / 2)]() mutable -> Result<void> {
    for (size_t row = 0; row < targets.size(); ++row) {
      sampling::score_row({logits + row * vocabulary, vocabulary}, targets[row], ids, {dst + row * width, width});
    }
    return ok();
  };
}

HostOperation mark_seen(const Operands& in) {
  return [seen = in.bytes(0), slots = in.shape(0)[0], vocabulary = in.columns(0), ids = in.all_ints(1),
          slot = in.all_ints(2)]() -> Result<void> {
    for (size_t row = 0; row < ids.size(); ++row) {
      const bool is_inside = slot[row] >= 0 && slot[row] < slots && ids[row] >= 0 && ids[row] < vocabulary;
      if (is_inside) seen[slot[row] * vocabulary + ids[row]] = 1;
    }
    return ok();
  };
}

HostOperation agree(const Node& node, const Operands& in, const HostMemory& memory) {
  using Of = graph::AgreeOperand;
  const graph::Graph& graph = memory.graph;
  const TensorType& hidden = graph.value(node.operands[Of::kHidden]).type;
  const auto element = static_cast<int64_t>(size_of(hidden.dtype));
  const int64_t row_bytes = hidden.shape[1] * element;
  device::AgreedFacts facts{.step = in.all_ints(Of::kStep),
                            .last_id = in.all_ints(Of::kLastId),
                            .length = in.all_ints(Of::kLength),
                            .output_index = in.all_ints(Of::kOutputIndex),
                            .parameter_hash = in.all_ints(Of::kParameterHash),
                            .hidden = memory.at(node.operands[Of::kHidden]),
                            .hidden_rows = hidden.shape[0],
                            .hidden_stride = row_bytes,
                            .hidden_row_bytes = row_bytes};
  if (memory.hidden_sample != nullptr) {
    facts.hidden = memory.hidden_sample;
    facts.hidden_row_bytes = facts.hidden_stride = std::min(row_bytes, graph::kAgreedBytes / element * element);
  }
  const auto bytes = static_cast<size_t>(device::agreement_payload_bytes(in.elements(Of::kFinished)));
  const auto ranks = static_cast<size_t>(graph.ranks);
  return [facts, stop = std::span<const int32_t>(in.all_ints(Of::kStopRequest)), finished = in.all_ints(Of::kFinished),
          own = std::vector<std::byte>(bytes), all = std::vector<std::byte>(bytes * ranks),
          counts = std::vector<int64_t>(ranks, static_cast<int64_t>(bytes)),
          communicator = memory.communicator]() mutable -> Result<void> {
    const auto group = static_cast<int>(counts.size());
    const auto slots = static_cast<int64_t>(finished.size());
    if (group > 1) {
      device::write_agreement_payload(device::agreement_checksum(facts), stop, own);
      LOCKSTEP_TRY_VOID(communicator->all_gather(own, counts, all, device::Stream::host()));
      if (!device::payloads_agree(all, group, slots)) {
        return device::disagreement_error("runtime/backends/cuda", facts.step, all, group, slots);
      }
    }
    for (size_t slot = 0; slot < finished.size(); ++slot) {
      const bool stops =
          group > 1 ? device::payload_requests_stop(all.data(), static_cast<int64_t>(slot)) : stop[slot] != 0;
      if (stops) finished[slot] = 1;
    }
    return ok();
  };
}

HostOperation of_rows(const Node& node, const Operands& in) {
  const std::span<int32_t> dst = in.result();
  const std::span<int32_t> from = in.all_ints(0);
  if (node.op == Op::kFirstRows) {
    return [from, dst]() -> Result<void> {
      std::ranges::copy(from.first(dst.size()), dst.begin());
      return ok();
    };
  }
  if (node.op == Op::kRunningSlots) {
    return [active = from, finished = in.all_ints(1), dst]() -> Result<void> {
      for (size_t slot = 0; slot < dst.size(); ++slot) {
        dst[slot] = active[slot] != 0 && finished[slot] == 0 ? static_cast<int32_t>(slot) : -1;
      }
      return ok();
    };
  }
  if (node.op == Op::kClampPositions) {
    return [from, dst, most = static_cast<int32_t>(node.integer("most"))]() -> Result<void> {
      std::ranges::transform(from, dst.begin(), [most](int32_t position) { return std::min(position, most); });
      return ok();
    };
  }
  LOCKSTEP_CHECK(node.op == Op::kOwnSlots, to_string(node.op));
  return [from, dst, first = node.integer("first_slot"), count = node.integer("slots")]() -> Result<void> {
    std::ranges::transform(from, dst.begin(), [=](int32_t slot) {
      const int64_t own = slot - first;
      return own >= 0 && own < count ? static_cast<int32_t>(own) : -1;
    });
    return ok();
  };
}

}  // namespace

Result<HostOperation> host_operation(const Node& node, const HostMemory& memory) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const bool is_sampled = node.op == Op::kAgree && i == 0 && memory.hidden_sample != nullptr;
    if (is_sampled || memory.at(node.operands[i]) != nullptr) continue;
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/backends/cuda] cannot compile {}: found {} as an operand of {}, expected a value "
                    "that the host knows",
                    memory.graph.name, memory.graph.value(node.operands[i]).name, to_string(node.op))};
  }
  const Operands in(node, memory);
  switch (node.op) {
    case Op::kSample: return sample(in);
    case Op::kAccept: return accept(in);
    case Op::kScore: return score(in, 1 + 2 * node.integer("top"));
    case Op::kMarkSeen: return mark_seen(in);
    case Op::kAgree: return agree(node, in, memory);
    case Op::kAdvance:
      return HostOperation([length = in.all_ints(0), slot = in.all_ints(1)]() -> Result<void> {
        for (const int32_t s : slot) {
          if (s >= 0 && static_cast<size_t>(s) < length.size()) ++length[static_cast<size_t>(s)];
        }
        return ok();
      });
    default: return of_rows(node, in);
  }
}

}  // namespace lockstep::cuda
