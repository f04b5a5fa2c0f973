// The host's copy of the row inputs of a step with rows: prefill, verify or score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/graph/graph.h"
#include "shards/step_engine.h"

namespace lockstep::shards {

/// [rows] ×3, logit_rows [slots] and, of a score step, targets [rows]. Neither copied nor moved once `tensors` is used.
struct RowInputs {
  explicit RowInputs(const graph::Graph& step);

  /// All rows become padding.
  void clear();
  /// The first rows; the others become padding, without logits, targets and embeddings.
  void set(std::span<const int32_t> ids, std::span<const int32_t> slot, std::span<const int32_t> position);
  /// Those of the rows without an id (`kEmbedded`).
  void set_embeddings(const PrefillRows& rows);
  /// 0: the step has no such input.
  int64_t embedding_size() const { return embeddings.empty() ? 0 : embedding_type.shape[1]; }

  std::vector<int32_t> ids, slot, position, logit_rows, targets;
  TensorType embedding_type;                // [rows, embedding size]; no elements: the step has no such input
  std::vector<std::byte> embeddings;        // of that type
  std::vector<device::HostTensor> tensors;  // views of them

 private:
  void clear_embeddings();
  void set_embedding(size_t row, std::span<const float> values);
};

}  // namespace lockstep::shards
