// Lowering of operations over slots: running, seen, length, sampling.
#include <algorithm>

#include "runtime/backends/cpu/compiler.h"
#include "runtime/sampling/scoring.h"
#include "runtime/sampling/slot_states.h"

namespace lockstep::cpu {
namespace {

std::span<const float> floats_of(const Tensor& logits, int64_t row, int64_t rows = 1) {
  return {reinterpret_cast<const float*>(logits.at(row)), static_cast<size_t>(rows * logits.columns)};
}

/// One scratch per worker; shared, because a stage is copyable.
auto make_scratches(int workers, int64_t vocabulary) {
  auto scratches = std::make_shared<std::vector<std::unique_ptr<sampling::Scratch>>>();
  for (int worker = 0; worker < workers; ++worker) {
    scratches->push_back(std::make_unique<sampling::Scratch>(vocabulary));
  }
  return scratches;
}

/// `seen`, and the operands after it, of a node that chooses tokens.
sampling::SlotStates states_of(std::span<const Tensor> operands) {
  const Tensor& seen = operands[0];
  const Tensor& eos = operands[4];
  LOCKSTEP_CHECK(seen.stride == seen.columns, seen.stride, seen.columns);
  return {.seen = seen.as<uint8_t>(),
          .numbers = operands[1].as<float>(),
          .integers = operands[2].as<int32_t>(),
          .seed = operands[3].as<int32_t>(),
          .eos = eos.as<int32_t>(),
          .eos_ids = eos.columns,
          .vocabulary = seen.columns};
}

}  // namespace

void Compiler::lower_running_slots(const Node& node) {
  add_alone([active = operand(node, 0).as<int32_t>(), finished = operand(node, 1).as<int32_t>(),
             dst = result(node).as<int32_t>(), slots = graph_.slots]() -> Result<void> {
    for (int64_t slot = 0; slot < slots; ++slot) {
      dst[slot] = active[slot] != 0 && finished[slot] == 0 ? static_cast<int32_t>(slot) : -1;
    }
    return ok();
  });
}

void Compiler::lower_first_rows(const Node& node) {
  add_alone(
      [from = operand(node, 0).as<int32_t>(), dst = result(node).as<int32_t>(), rows = graph_.rows]() -> Result<void> {
        std::copy_n(from, rows, dst);
        return ok();
      });
}

void Compiler::lower_own_slots(const Node& node) {
  add_alone([slot = operand(node, 0).as<int32_t>(), dst = result(node).as<int32_t>(), rows = graph_.rows,
             first = node.integer("first_slot"), count = node.integer("slots")]() -> Result<void> {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t own = slot[row] - first;
      dst[row] = own >= 0 && own < count ? static_cast<int32_t>(own) : -1;
    }
    return ok();
  });
}

void Compiler::lower_mark_seen(const Node& node) {
  add_alone([seen = operand(node, 0), ids = operand(node, 1).as<int32_t>(), slot = operand(node, 2).as<int32_t>(),
             rows = graph_.rows]() -> Result<void> {
    for (int64_t row = 0; row < rows; ++row) {
      const bool is_inside = slot[row] >= 0 && slot[row] < seen.rows && ids[row] >= 0 && ids[row] < seen.columns;
      if (is_inside) *seen.at(slot[row], ids[row]) = std::byte{1};
    }
    return ok();
  });
}

void Compiler::lower_advance(const Node& node) {
  add_alone([length = operand(node, 0), slot = operand(node, 1).as<int32_t>(), rows = graph_.rows]() -> Result<void> {
    for (int64_t row = 0; row < rows; ++row) {
      if (slot[row] >= 0 && slot[row] < length.columns) ++length.as<int32_t>()[slot[row]];
    }
    return ok();
  });
}

sampling::SlotStates Compiler::drawing_states(const Node& node, size_t last_id, size_t seen) const {
  std::vector<Tensor> drawing;
  for (size_t i = seen; i < node.operands.size(); ++i) drawing.push_back(operand(node, i));
  sampling::SlotStates states = states_of(drawing);
  states.last_id = operand(node, last_id).as<int32_t>();
  states.output_index = operand(node, last_id + 1).as<int32_t>();
  states.finished = operand(node, last_id + 2).as<int32_t>();
  return states;
}

void Compiler::lower_sample(const Node& node) {
  const Tensor logits = operand(node, 0);
  add_shared([states = drawing_states(node, /*last_id=*/2, /*seen=*/5), logits, rows = operand(node, 1).as<int32_t>(),
              dst = result(node).as<int32_t>(), scratches = make_scratches(workers_, logits.columns),
              slots = graph_.slots](Part part) {
    const Share share = share_of(slots, part);
    for (int64_t slot = share.begin; slot < share.end; ++slot) {
      dst[slot] =
          sampling::sample_slot(states, slot, rows[slot], floats_of(logits, slot).data(), *(*scratches)[part.worker]);
    }
  });
}

void Compiler::lower_accept(const Node& node) {
  const Tensor logits = operand(node, 0);
  LOCKSTEP_CHECK(logits.stride == logits.columns * 4, logits.stride, logits.columns);
  add_shared([states = drawing_states(node, /*last_id=*/4, /*seen=*/7), logits, ids = operand(node, 1).as<int32_t>(),
              slot_of = operand(node, 2).as<int32_t>(), length = operand(node, 3).as<int32_t>(),
              dst = result(node).as<int32_t>(), scratches = make_scratches(workers_, logits.columns),
              slots = graph_.slots](Part part) {
    const int64_t per_slot = logits.rows / slots;
    const auto rows_of = [per_slot](auto* rows, int64_t slot) {
      return std::span(rows + slot * per_slot, static_cast<size_t>(per_slot));
    };
    const Share share = share_of(slots, part);
    for (int64_t slot = share.begin; slot < share.end; ++slot) {
      sampling::accept_slot(states, slot, rows_of(ids, slot), rows_of(slot_of, slot),
                            floats_of(logits, slot * per_slot).data(), length, rows_of(dst, slot),
                            *(*scratches)[part.worker]);
    }
  });
}

void Compiler::lower_score(const Node& node) {
  const auto top = static_cast<size_t>(node.integer("top"));
  auto scratches =
      std::make_shared<std::vector<std::vector<int32_t>>>(static_cast<size_t>(workers_), std::vector<int32_t>(top));
  add_shared(
      [logits = operand(node, 0), targets = operand(node, 1).as<int32_t>(), dst = result(node), scratches](Part part) {
        const Share share = share_of(dst.used_rows(), part);
        for (int64_t row = share.begin; row < share.end; ++row) {
          sampling::score_row(floats_of(logits, row), targets[row], (*scratches)[static_cast<size_t>(part.worker)],
                              {reinterpret_cast<float*>(dst.at(row)), static_cast<size_t>(dst.columns)});
        }
      });
}

}  // namespace lockstep::cpu
