// Lowering of operations over slots: running, seen, length, sampling.
#include <algorithm>

#include "runtime/backends/cpu/compiler.h"
#include "runtime/sampling/scoring.h"
#include "runtime/sampling/slot.h"

namespace lockstep::cpu {
namespace {

/// The sampling states of the slots: the last operands of `sample` and `accept`, except `seen`.
struct SlotStates {
  int32_t* last_id;  // [slots], like the next two
  int32_t* output_index;
  int32_t* finished;
  Tensor numbers;   // [slots, kNumbers]
  Tensor integers;  // [slots, kIntegers]
  Tensor seed;      // [slots, 2]
  Tensor eos;       // [slots, ids]

  sampling::SlotView view(int64_t slot) const {
    return {.numbers = reinterpret_cast<const float*>(numbers.at(slot)),
            .integers = reinterpret_cast<const int32_t*>(integers.at(slot)),
            .seed = reinterpret_cast<const int32_t*>(seed.at(slot)),
            .eos = reinterpret_cast<const int32_t*>(eos.at(slot)),
            .eos_ids = eos.columns,
            .last_id = last_id + slot,
            .output_index = output_index + slot,
            .finished = finished + slot};
  }
  /// The token of a slot that does not run.
  int32_t idle_token(int64_t slot) const {
    return finished[slot] != 0 ? view(slot).integers[sampling::kPadId] : int32_t{-1};
  }
};

std::span<const float> floats_of(const Tensor& logits, int64_t row, int64_t rows = 1) {
  return {reinterpret_cast<const float*>(logits.at(row)), static_cast<size_t>(rows * logits.columns)};
}

std::span<uint8_t> seen_by(const Tensor& seen, int64_t slot) {
  return {reinterpret_cast<uint8_t*>(seen.at(slot)), static_cast<size_t>(seen.columns)};
}

/// One scratch per worker; shared, because a stage is copyable.
auto make_scratches(int workers, int64_t vocabulary) {
  auto scratches = std::make_shared<std::vector<std::unique_ptr<sampling::Scratch>>>();
  for (int worker = 0; worker < workers; ++worker) {
    scratches->push_back(std::make_unique<sampling::Scratch>(vocabulary));
  }
  return scratches;
}

/// The operands of an accept node: `per_slot` rows for each slot.
struct AcceptTask {
  Tensor logits;
  const int32_t* ids;  // [rows], like the next
  const int32_t* slot;
  int32_t* length;
  Tensor seen;
  SlotStates states;
  int32_t* result;
  int64_t per_slot;

  void run(int64_t index, sampling::Scratch& scratch) const {
    const int64_t first = index * per_slot;
    std::fill_n(result + first, per_slot, -1);
    if (slot[first] < 0 || states.finished[index] != 0) {
      result[first] = states.idle_token(index);
      return;
    }
    int64_t rows = 1;  // rows other than padding
    while (rows < per_slot && slot[first + rows] >= 0) ++rows;
    const auto drafts = static_cast<size_t>(rows - 1);
    length[index] +=
        sampling::take_drafted(states.view(index), {ids + first + 1, drafts}, floats_of(logits, first, rows),
                               seen_by(seen, index), {result + first, drafts + 1}, scratch);
  }
};

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

void Compiler::lower_sample(const Node& node) {
  const auto ids = [&](size_t i) { return operand(node, i).as<int32_t>(); };
  const SlotStates states{.last_id = ids(2),
                          .output_index = ids(3),
                          .finished = ids(4),
                          .numbers = operand(node, 6),
                          .integers = operand(node, 7),
                          .seed = operand(node, 8),
                          .eos = operand(node, 9)};
  const Tensor logits = operand(node, 0);
  add_shared([states, logits, rows = ids(1), seen = operand(node, 5), dst = result(node).as<int32_t>(),
              scratches = make_scratches(workers_, logits.columns), slots = graph_.slots](Part part) {
    const Share share = share_of(slots, part);
    for (int64_t slot = share.begin; slot < share.end; ++slot) {
      const bool runs = rows[slot] >= 0 && states.finished[slot] == 0;
      dst[slot] = runs ? sampling::take_next(states.view(slot), floats_of(logits, slot), seen_by(seen, slot),
                                             *(*scratches)[part.worker])
                       : states.idle_token(slot);
    }
  });
}

void Compiler::lower_accept(const Node& node) {
  const auto ids = [&](size_t i) { return operand(node, i).as<int32_t>(); };
  const AcceptTask task{.logits = operand(node, 0),
                        .ids = ids(1),
                        .slot = ids(2),
                        .length = ids(3),
                        .seen = operand(node, 7),
                        .states = {.last_id = ids(4),
                                   .output_index = ids(5),
                                   .finished = ids(6),
                                   .numbers = operand(node, 8),
                                   .integers = operand(node, 9),
                                   .seed = operand(node, 10),
                                   .eos = operand(node, 11)},
                        .result = result(node).as<int32_t>(),
                        .per_slot = operand(node, 0).rows / graph_.slots};
  LOCKSTEP_CHECK(task.logits.stride == task.logits.columns * 4, task.logits.stride, task.logits.columns);
  add_shared([task, scratches = make_scratches(workers_, task.logits.columns), slots = graph_.slots](Part part) {
    const Share share = share_of(slots, part);
    for (int64_t slot = share.begin; slot < share.end; ++slot) task.run(slot, *(*scratches)[part.worker]);
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
