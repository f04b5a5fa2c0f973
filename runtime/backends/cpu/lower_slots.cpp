// Phases of the operations over slots: which run, what they have seen, how long they are, their next token.
#include "runtime/backends/cpu/compiler.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::cpu {
namespace {

/// The operands of a sample node, in the order of runtime/graph/OPERATIONS.md.
struct SampleTask {
  Tensor logits;
  const int32_t* rows;
  int32_t* last_id;
  int32_t* output_index;
  int32_t* finished;
  Tensor seen;
  const float* temperature;
  const float* top_p;
  const float* min_p;
  const float* repetition_penalty;
  const int32_t* top_k;
  const int32_t* do_sample;
  const int32_t* max_new_tokens;
  const int32_t* pad_id;
  const uint32_t* seed;  // [slots, 2]: low, high
  Tensor eos;
  int32_t* result;

  sampling::Parameters parameters_of(int64_t slot) const {
    return {.do_sample = do_sample[slot] != 0,
            .temperature = temperature[slot],
            .top_k = top_k[slot],
            .top_p = top_p[slot],
            .min_p = min_p[slot],
            .repetition_penalty = repetition_penalty[slot],
            .seed = seed[2 * slot] | static_cast<uint64_t>(seed[2 * slot + 1]) << 32};
  }

  bool is_end(int64_t slot, int32_t token) const {
    const int32_t* ids = eos.as<int32_t>() + slot * eos.columns;
    for (int64_t i = 0; i < eos.columns; ++i) {
      if (ids[i] == token && token >= 0) return true;
    }
    return false;
  }

  void run(int64_t slot, sampling::Scratch& scratch) const {
    if (finished[slot] != 0) {
      result[slot] = pad_id[slot];
      return;
    }
    result[slot] = -1;
    if (rows[slot] < 0) return;
    const auto vocabulary = static_cast<size_t>(logits.columns);
    const int32_t token = sampling::choose({reinterpret_cast<const float*>(logits.at(slot)), vocabulary},
                                           {reinterpret_cast<const uint8_t*>(seen.at(slot)), vocabulary},
                                           parameters_of(slot), static_cast<uint32_t>(output_index[slot]), scratch);
    result[slot] = token;
    last_id[slot] = token;
    ++output_index[slot];
    if (is_end(slot, token) || output_index[slot] >= max_new_tokens[slot]) finished[slot] = 1;
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
  const auto numbers = [&](size_t i) { return operand(node, i).as<float>(); };
  const SampleTask task{.logits = operand(node, 0),
                        .rows = ids(1),
                        .last_id = ids(2),
                        .output_index = ids(3),
                        .finished = ids(4),
                        .seen = operand(node, 5),
                        .temperature = numbers(6),
                        .top_p = numbers(7),
                        .min_p = numbers(8),
                        .repetition_penalty = numbers(9),
                        .top_k = ids(10),
                        .do_sample = ids(11),
                        .max_new_tokens = ids(12),
                        .pad_id = ids(13),
                        .seed = operand(node, 14).as<uint32_t>(),
                        .eos = operand(node, 15),
                        .result = result(node).as<int32_t>()};
  // One scratch per worker; shared, because a phase is copyable.
  auto scratches = std::make_shared<std::vector<std::unique_ptr<sampling::Scratch>>>();
  for (int worker = 0; worker < workers_; ++worker) {
    scratches->push_back(std::make_unique<sampling::Scratch>(task.logits.columns));
  }
  add_shared([task, scratches, slots = graph_.slots](Part part) {
    const Share share = share_of(slots, part);
    for (int64_t slot = share.begin; slot < share.end; ++slot) task.run(slot, *(*scratches)[part.worker]);
  });
}

}  // namespace lockstep::cpu
