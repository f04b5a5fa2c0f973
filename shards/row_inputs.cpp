#include "shards/row_inputs.h"

#include <algorithm>
#include <optional>

namespace lockstep::shards {
namespace {

TensorType embedding_type_of(const graph::Graph& step) {
  const std::optional<graph::ValueId> input = step.find("embeddings");
  return input ? step.value(*input).type : TensorType{};
}

}  // namespace

RowInputs::RowInputs(const graph::Graph& step)
    : ids(static_cast<size_t>(step.rows)),
      slot(ids.size()),
      position(ids.size()),
      logit_rows(static_cast<size_t>(step.slots)),
      targets(step.find("targets") ? ids.size() : 0),
      embedding_type(embedding_type_of(step)) {
  for (const std::vector<int32_t>* input : {&ids, &slot, &position, &logit_rows, &targets}) {
    if (input->empty()) continue;
    tensors.push_back({{DType::kInt32, {std::ssize(*input)}}, std::as_bytes(std::span(*input))});
  }
  if (embedding_type.shape.dims().empty()) return;
  embeddings.resize(static_cast<size_t>(embedding_type.bytes()));
  tensors.push_back({embedding_type, embeddings});
}

void RowInputs::clear() {
  std::ranges::fill(ids, 0);
  std::ranges::fill(slot, -1);
  std::ranges::fill(position, 0);
  std::ranges::fill(logit_rows, -1);
  std::ranges::fill(targets, -1);
  if (!embeddings.empty()) clear_embeddings();
}

/// To −0, which changes no token's embedding.
void RowInputs::clear_embeddings() {
  const std::vector<float> nothing(static_cast<size_t>(embedding_type.shape[1]), -0.0f);
  for (size_t row = 0; row < ids.size(); ++row) set_embedding(row, nothing);
}

void RowInputs::set_embedding(size_t row, std::span<const float> values) {
  const size_t row_bytes = embeddings.size() / ids.size();
  convert_elements(std::as_bytes(values).data(), DType::kFloat32, &embeddings[row * row_bytes], embedding_type.dtype,
                   values.size());
}

void RowInputs::set(std::span<const int32_t> of_ids, std::span<const int32_t> of_slot,
                    std::span<const int32_t> of_position) {
  clear();
  std::ranges::copy(of_ids, ids.begin());
  std::ranges::copy(of_slot, slot.begin());
  std::ranges::copy(of_position, position.begin());
}

void RowInputs::set_embeddings(const PrefillRows& rows) {
  const auto size = static_cast<size_t>(embedding_size());
  std::span<const float> rest = rows.embeddings;
  for (size_t row = 0; row < rows.ids.size() && !rest.empty(); ++row) {
    if (rows.ids[row] != kEmbedded) continue;
    set_embedding(row, rest.first(size));
    rest = rest.subspan(size);
  }
}

}  // namespace lockstep::shards
