#include "shards/families/step_builder.h"

#include <cmath>

#include "runtime/sampling/sampling.h"

namespace lockstep::families {
namespace {

using graph::ValueId;

graph::GraphHeader header_of(const partition::Partition& partition, const StepShape& shape) {
  return {.name = shape.phase == Phase::kPrefill ? "prefill" : "decode",
          .ranks = partition.ranks(),
          .rank = shape.rank,
          .rows = shape.rows(),
          .slots = shape.slots};
}

/// Which local cache head each local query head reads.
std::vector<int64_t> head_map(const checkpoint::ModelSpec& spec, const partition::RankHeads& heads) {
  const int64_t group = spec.query_heads / spec.key_value_heads;
  std::vector<int64_t> map;
  for (int64_t head = heads.query.begin; head < heads.query.end; ++head) {
    map.push_back(head / group - heads.key_value.begin);
  }
  return map;
}

Range scaled(const Range& range, int64_t by) { return {range.begin * by, range.end * by}; }

}  // namespace

StepBuilder::StepBuilder(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape)
    : spec_(spec),
      partition_(partition),
      part_(partition.parts.at(static_cast<size_t>(shape.rank))),
      shape_(shape),
      rope_(checkpoint::rope_table(spec).value()),  // find_family has seen it succeed
      graph_(header_of(partition, shape)) {
  if (shape.phase == Phase::kPrefill) {
    const TensorType rows{DType::kInt32, {shape.chunk}};
    ids_ = graph_.input("ids", rows);
    slot_ = graph_.input("slot", rows);
    position_ = graph_.input("position", rows);
    wanted_ = graph_.input("logit_rows", {DType::kInt32, {shape.slots}});
  } else {
    ids_ = slot_state("last_id", DType::kInt32);
    slot_ = graph_.running_slots(slot_state("active", DType::kInt32), slot_state("finished", DType::kInt32));
    position_ = slot_state("length", DType::kInt32);
    wanted_ = slot_;  // row i is slot i
  }
}

ValueId StepBuilder::slot_state(const std::string& name, DType dtype) {
  return graph_.state(name, {dtype, {shape_.slots}});
}

ValueId StepBuilder::weight(const std::string& name, const Shape& whole, std::vector<Range> ranges) {
  tensors_.emplace(name, whole);
  std::vector<int64_t> dims;
  for (const Range& range : ranges) dims.push_back(range.size());
  return graph_.weight(name, {shape_.dtype, Shape(std::move(dims))}, {{name, std::move(ranges)}});
}

ValueId StepBuilder::embedding(const std::string& table) {
  const Range rows = part_.vocabulary;
  const ValueId weights = weight(table, {spec_.vocabulary, spec_.hidden_size}, {rows, {0, spec_.hidden_size}});
  const ValueId partial = graph_.embedding(ids_, weights, rows.begin);
  return graph_.all_reduce(partial, partition_.embedding_blocks(), shape_.dtype);
}

ValueId StepBuilder::rms_norm(ValueId x, const std::string& name) {
  return graph_.rms_norm(x, weight(name, {spec_.hidden_size}, {{0, spec_.hidden_size}}), spec_.norm_epsilon);
}

ValueId StepBuilder::column_parallel(ValueId x, const std::string& name, Range rows, const Shape& whole, Bias bias) {
  const ValueId weights = weight(name + ".weight", whole, {rows, {0, whole[1]}});
  if (bias == Bias::kNone) return graph_.linear(x, weights);
  return graph_.linear(x, weights, weight(name + ".bias", {whole[0]}, {rows}));
}

ValueId StepBuilder::row_parallel(ValueId x, const std::string& name, Range columns, const Shape& whole,
                                  const BlockSplit& blocks, int64_t block, Bias bias) {
  const ValueId weights = weight(name + ".weight", whole, {{0, whole[0]}, columns});
  const ValueId sum = graph_.all_reduce(graph_.linear_blocks(x, weights, blocks, block), blocks, shape_.dtype);
  if (bias == Bias::kNone) return sum;
  return graph_.add(sum, weight(name + ".bias", {whole[0]}, {{0, whole[0]}}));
}

ValueId StepBuilder::rotary_attention(ValueId x, int64_t layer, const std::string& prefix) {
  const int64_t hidden = spec_.hidden_size, width = spec_.head_dim;
  const Range query = scaled(part_.heads.query, width), key_value = scaled(part_.heads.key_value, width);
  const Shape query_shape{spec_.query_heads * width, hidden}, key_value_shape{spec_.key_value_heads * width, hidden};
  const Bias bias = spec_.attention_bias ? Bias::kPresent : Bias::kNone;

  const ValueId frequencies = graph_.constant("rope.frequencies", rope_.frequencies);

  ValueId q = column_parallel(x, prefix + "q_proj", query, query_shape, bias);
  ValueId k = column_parallel(x, prefix + "k_proj", key_value, key_value_shape, bias);
  const ValueId v = column_parallel(x, prefix + "v_proj", key_value, key_value_shape, bias);
  q = graph_.rope(q, position_, frequencies, part_.heads.query.size(), rope_.scale);
  k = graph_.rope(k, position_, frequencies, part_.heads.key_value.size(), rope_.scale);

  const TensorType cache{shape_.dtype, {shape_.slots, part_.heads.key_value.size(), shape_.capacity, width}};
  const ValueId k_cache = graph_.state(fmt::format("kv.{}.k", layer), cache);
  const ValueId v_cache = graph_.state(fmt::format("kv.{}.v", layer), cache);
  graph_.kv_append(k, k_cache, slot_, position_);
  graph_.kv_append(v, v_cache, slot_, position_);

  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  const ValueId heads = graph_.attention(q, k_cache, v_cache, slot_, position_, head_map(spec_, part_.heads), scale,
                                         shape_.phase == Phase::kPrefill ? "prefill" : "decode");
  return row_parallel(heads, prefix + "o_proj", query, {hidden, spec_.query_heads * width}, partition_.attention_blocks,
                      width, bias);
}

ValueId StepBuilder::gated_mlp(ValueId x, const std::string& prefix) {
  const Range columns = part_.mlp_columns;
  const Shape up_shape{spec_.intermediate_size, spec_.hidden_size};
  const Bias bias = spec_.mlp_bias ? Bias::kPresent : Bias::kNone;
  const ValueId gate = column_parallel(x, prefix + "gate_proj", columns, up_shape, bias);
  const ValueId up = column_parallel(x, prefix + "up_proj", columns, up_shape, bias);
  const ValueId inner = graph_.gated_activation(gate, up, spec_.activation);
  return row_parallel(inner, prefix + "down_proj", columns, {spec_.hidden_size, spec_.intermediate_size},
                      partition_.mlp_blocks, partition_.mlp_block, bias);
}

ValueId StepBuilder::next_tokens(ValueId logits, ValueId rows) {
  const ValueId seen = graph_.state("seen", {DType::kUInt8, {shape_.slots, spec_.vocabulary}});
  graph_.mark_seen(seen, ids_, slot_);
  return graph_.sample({logits, rows, slot_state("last_id", DType::kInt32), slot_state("output_index", DType::kInt32),
                        slot_state("finished", DType::kInt32), seen, slot_state("temperature", DType::kFloat32),
                        slot_state("top_p", DType::kFloat32), slot_state("min_p", DType::kFloat32),
                        slot_state("repetition_penalty", DType::kFloat32), slot_state("top_k", DType::kInt32),
                        slot_state("do_sample", DType::kInt32), slot_state("max_new_tokens", DType::kInt32),
                        slot_state("pad_id", DType::kInt32), graph_.state("seed", {DType::kInt32, {shape_.slots, 2}}),
                        graph_.state("eos", {DType::kInt32, {shape_.slots, sampling::kMaxEosIds}})});
}

Step StepBuilder::finish(ValueId x, const std::string& norm, const std::string& head) && {
  graph_.advance(slot_state("length", DType::kInt32), slot_);
  const ValueId hidden = rms_norm(graph_.select_rows(x, wanted_), norm);
  graph_.agree({hidden, graph_.state("step", {DType::kInt32, {2}}), slot_state("last_id", DType::kInt32),
                slot_state("length", DType::kInt32), slot_state("output_index", DType::kInt32),
                slot_state("parameter_hash", DType::kInt32), slot_state("stop_request", DType::kInt32),
                slot_state("finished", DType::kInt32)});

  const Range rows = part_.vocabulary;
  const ValueId weights = weight(head, {spec_.vocabulary, spec_.hidden_size}, {rows, {0, spec_.hidden_size}});
  const ValueId own_logits = graph_.linear(hidden, weights, std::nullopt, DType::kFloat32);
  std::vector<int64_t> parts;
  for (const partition::RankPart& part : partition_.parts) parts.push_back(part.vocabulary.size());
  const ValueId logits = graph_.all_gather(own_logits, std::move(parts));

  graph_.output("tokens", next_tokens(logits, wanted_));
  if (shape_.logits == StepShape::Logits::kOutput) graph_.output("logits", logits);
  return {std::move(graph_).finish(), std::move(tensors_)};
}

}  // namespace lockstep::families
