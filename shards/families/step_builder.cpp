#include "shards/families/step_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/sampling/slot.h"

namespace lockstep::families {
namespace {

using graph::ValueId;

const char* name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kPrefill: return "prefill";
    case StepKind::kDecode: return "decode";
    case StepKind::kVerify: return "verify";
    case StepKind::kScore: return "score";
  }
  return "";
}

graph::GraphHeader header_of(const partition::Partition& partition, const StepShape& shape) {
  return {.name = name_of(shape.kind),
          .ranks = partition.ranks(),
          .rank = shape.rank,
          .rows = shape.rows(),
          .slots = shape.slots};
}

}  // namespace

StepBuilder::StepBuilder(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape, Norm norm)
    : spec_(spec),
      partition_(partition),
      part_(partition.parts.at(static_cast<size_t>(shape.rank))),
      rank_blocks_(partition.rank_blocks()),
      shape_(shape),
      norm_(norm),
      graph_(header_of(partition, shape)) {
  if (shape.kind == StepKind::kDecode) {
    ids_ = of_rows(slot_state("last_id", DType::kInt32));
    wanted_ = graph_.running_slots(slot_state("active", DType::kInt32), slot_state("finished", DType::kInt32));
    slot_ = of_rows(wanted_);  // row i is slot i
    position_ = of_rows(slot_state("length", DType::kInt32));
  } else {
    const TensorType rows{DType::kInt32, {shape.rows()}};
    ids_ = graph_.input("ids", rows);
    slot_ = graph_.input("slot", rows);
    position_ = graph_.input("position", rows);
    wanted_ = graph_.input("logit_rows", {DType::kInt32, {shape.slots}});
  }
  cache_slot_ = is_over_batch() ? graph_.own_slots(slot_, cache_slots()) : slot_;
}

ValueId StepBuilder::slot_state(const std::string& name, DType dtype) {
  return graph_.state(name, {dtype, {shape_.slots}});
}

ValueId StepBuilder::of_rows(ValueId slots) { return shape_.rows() < shape_.slots ? graph_.first_rows(slots) : slots; }

ValueId StepBuilder::weight(const std::string& name, const Shape& whole, std::vector<Range> ranges) {
  tensors_.emplace(name, whole);
  std::vector<int64_t> dims;
  for (const Range& range : ranges) dims.push_back(range.size());
  return graph_.weight(name, {shape_.dtype, Shape(std::move(dims))}, {{name, std::move(ranges)}});
}

ValueId StepBuilder::whole_weight(const std::string& name, const Shape& whole) {
  std::vector<Range> ranges;
  for (const int64_t dim : whole.dims()) ranges.push_back({0, dim});
  return weight(name, whole, std::move(ranges));
}

ValueId StepBuilder::embedding(Scaled scaled) {
  const Range rows = part_.vocabulary;
  const ValueId table =
      matrix("model.embed_tokens.weight", {spec_.vocabulary, spec_.embedding_size}, {rows, {0, spec_.embedding_size}});
  const ValueId partial = graph_.embedding(ids_, table, rows.begin);
  ValueId x = graph_.all_reduce(partial, rank_blocks_, shape_.dtype);
  const float scale = round_to(shape_.dtype, static_cast<float>(spec_.embedding_scale));
  if (spec_.embedding_scale != 1.0 && scaled == Scaled::kOfIds) x = graph_.scale(x, scale);
  if (shape_.kind == StepKind::kPrefill && shape_.embeddings == StepShape::Embeddings::kMixed) {
    // Either term is zero: no rank holds a negative id, and the input is −0 for a token.
    x = graph_.add(x, graph_.input("embeddings", {shape_.dtype, {shape_.rows(), spec_.embedding_size}}));
  }
  if (spec_.embedding_scale != 1.0 && scaled == Scaled::kAll) x = graph_.scale(x, scale);
  if (spec_.embedding_size != spec_.hidden_size) {
    x = graph_.linear(x, whole_weight("model.project_in.weight", {spec_.hidden_size, spec_.embedding_size}));
  }
  if (spec_.layer_input_size > 0) layer_inputs_ = layer_inputs(x);
  if (spec_.positions != checkpoint::Positions::kLearned) return x;
  const ValueId places =
      whole_weight("model.embed_positions.weight", {spec_.max_positions + spec_.position_offset, spec_.hidden_size});
  return graph_.add(x, graph_.lookup(position_, places, spec_.position_offset));
}

ValueId StepBuilder::norm(ValueId x, const std::string& name) {
  const Shape whole{graph_.type_of(x).shape[1]};
  const ValueId weights = whole_weight(name + ".weight", whole);
  switch (norm_) {
    case Norm::kRms:
    case Norm::kRmsRoundedOnce:
    case Norm::kRmsPlusOne: return rms_norm(x, weights, /*heads=*/1);
    case Norm::kLayer: return graph_.layer_norm(x, weights, whole_weight(name + ".bias", whole), spec_.norm_epsilon);
    case Norm::kLayerNoBias: return graph_.layer_norm(x, weights, std::nullopt, spec_.norm_epsilon);
    case Norm::kLayerPlusOne:
      return graph_.layer_norm(x, weights, whole_weight(name + ".bias", whole), spec_.norm_epsilon, /*offset=*/1.0);
  }
  return x;
}

ValueId StepBuilder::rms_norm(ValueId x, std::optional<ValueId> weight, int64_t heads) {
  std::optional<double> offset;
  if (norm_ == Norm::kRmsRoundedOnce) offset = 0.0;
  if (norm_ == Norm::kRmsPlusOne) offset = 1.0;
  return graph_.rms_norm(x, weight, spec_.norm_epsilon, heads, offset);
}

ValueId StepBuilder::layer_inputs(ValueId x) {
  const int64_t size = spec_.layer_input_size, width = spec_.layers * size;
  const std::vector<int64_t> parts = partition_.layer_input_parts(spec_);
  const auto first = std::accumulate(parts.begin(), parts.begin() + shape_.rank, int64_t{0});
  const Range own{first, first + parts[static_cast<size_t>(shape_.rank)]};
  const ValueId table = weight("model.embed_tokens_per_layer.weight", {spec_.layer_input_vocabulary, width},
                               {{0, spec_.layer_input_vocabulary}, own});
  const float scale = round_to(shape_.dtype, static_cast<float>(std::sqrt(static_cast<double>(size))));
  const auto otherwise = spec_.layer_input_of_others ? std::optional<int64_t>(0) : std::nullopt;
  const ValueId of_token = graph_.scale(gathered(graph_.lookup(ids_, table, /*offset=*/0, otherwise), parts), scale);
  const ValueId projected =
      column_parallel(x, "model.per_layer_model_projection", own, {width, spec_.hidden_size}, Bias::kNone);
  const ValueId context =
      graph_.scale(gathered(projected, parts), 1.0 / std::sqrt(static_cast<double>(spec_.hidden_size)));
  const ValueId normed =
      rms_norm(context, whole_weight("model.per_layer_projection_norm.weight", {size}), spec_.layers);
  return graph_.scale(graph_.add(normed, of_token), std::sqrt(0.5));
}

ValueId StepBuilder::layer_input(ValueId x, int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const int64_t size = spec_.layer_input_size, hidden = spec_.hidden_size;
  const ValueId gate = column_parallel(x, prefix + "per_layer_input_gate", {0, size}, {size, hidden}, Bias::kNone);
  const ValueId input = graph_.columns(*layer_inputs_, {layer * size, (layer + 1) * size});
  const ValueId projected = column_parallel(graph_.gated_activation(gate, input, spec_.activation),
                                            prefix + "per_layer_projection", {0, hidden}, {hidden, size}, Bias::kNone);
  return norm(projected, prefix + "post_per_layer_input_norm");
}

ValueId StepBuilder::scale_layer(ValueId x, int64_t layer) {
  if (!spec_.layer_scalar) return x;
  return graph_.multiply(x, whole_weight(fmt::format("model.layers.{}.layer_scalar", layer), {1}));
}

ValueId StepBuilder::with_bias(ValueId x, const std::string& name) {
  return name.empty() ? x : graph_.add(x, whole_weight(name, {spec_.hidden_size}));
}

ValueId StepBuilder::reduce(const Partial& partial) {
  return with_bias(graph_.all_reduce(partial.roots, *partial.blocks, shape_.dtype), partial.bias);
}

ValueId StepBuilder::gathered(ValueId own, std::vector<int64_t> parts) {
  return partition_.ranks() > 1 ? graph_.all_gather(own, std::move(parts)) : own;
}

StepBuilder::Partial StepBuilder::mixer_partial(ValueId x, int64_t layer) {
  if (spec_.has_delta_rule(layer)) return delta_rule_partial(x, layer);
  return spec_.latent ? latent_attention_partial(x, layer) : attention_partial(x, layer);
}

std::pair<ValueId, ValueId> StepBuilder::reduce(const Partial& first, const Partial& second) {
  if (*first.blocks != *second.blocks) {
    const ValueId second_sum = reduce(second);
    return {reduce(first), second_sum};
  }
  const ValueId roots = graph_.join_partials(first.roots, second.roots);
  const ValueId sums = graph_.all_reduce(roots, *first.blocks, shape_.dtype);
  const int64_t width = spec_.hidden_size;
  const ValueId second_sum = with_bias(graph_.columns(sums, {width, 2 * width}), second.bias);
  return {with_bias(graph_.columns(sums, {0, width}), first.bias), second_sum};
}

ValueId StepBuilder::attention(ValueId x, int64_t layer) { return reduce(mixer_partial(x, layer)); }

ValueId StepBuilder::attention_plus_mlp(ValueId x, ValueId y, int64_t layer) {
  const Partial attended = mixer_partial(x, layer);
  if (spec_.has_experts(layer)) {
    const ValueId attention_sum = reduce(attended);
    return graph_.add(attention_sum, mlp(y, layer));
  }
  const auto [attention_sum, mlp_sum] = reduce(attended, dense_partial(y, layer));
  return graph_.add(attention_sum, mlp_sum);
}

/// Rows `rows` of the head. A head tied to a table of elements may have codes; it is then another value than the table.
ValueId StepBuilder::head_matrix(const std::string& name, Range rows) {
  const Shape whole{spec_.vocabulary, spec_.embedding_size};
  const bool has_own_format = spec_.tied_embeddings && !spec_.formats.table && spec_.formats.of("lm_head.weight");
  if (!has_own_format) return matrix(name, whole, {rows, {0, whole[1]}});
  tensors_.emplace(name, whole);
  return graph_.weight("lm_head.weight", {product_type("lm_head.weight"), {rows.size(), whole[1]}},
                       {{name, {rows, {0, whole[1]}}}}, format_of("lm_head.weight", whole[1]));
}

/// f32[R, own vocabulary rows].
ValueId StepBuilder::own_logits(ValueId hidden) {
  const Range rows = part_.vocabulary;
  const std::string name = spec_.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const ValueId weights = head_matrix(name, rows);
  std::optional<ValueId> bias;
  if (spec_.head_bias) bias = bias_rows("lm_head", spec_.vocabulary, rows);
  ValueId logits = product(hidden, weights, bias, DType::kFloat32);
  if (spec_.logit_scale != 1.0) logits = graph_.scale(logits, spec_.logit_scale);
  return spec_.logit_soft_cap > 0 ? graph_.soft_cap(logits, spec_.logit_soft_cap) : logits;
}

std::vector<ValueId> StepBuilder::draw_states() {
  const auto per_slot = [this](const std::string& name, DType dtype, int64_t columns) {
    return graph_.state(name, {dtype, {shape_.slots, columns}});
  };
  return {per_slot("draw_numbers", DType::kFloat32, sampling::kNumbers),
          per_slot("draw_integers", DType::kInt32, sampling::kIntegers), per_slot("seed", DType::kInt32, 2),
          per_slot("eos", DType::kInt32, sampling::kMaxEosIds)};
}

ValueId StepBuilder::next_tokens(ValueId logits) {
  const ValueId seen = graph_.state("seen", {DType::kUInt8, {shape_.slots, spec_.vocabulary}});
  const ValueId last_id = slot_state("last_id", DType::kInt32),
                output_index = slot_state("output_index", DType::kInt32);
  const ValueId finished = slot_state("finished", DType::kInt32);
  const std::vector<ValueId> draw = draw_states();
  std::vector<ValueId> operands;
  if (shape_.kind == StepKind::kVerify) {
    operands = {logits, ids_, slot_, slot_state("length", DType::kInt32), last_id, output_index, finished, seen};
    operands.insert(operands.end(), draw.begin(), draw.end());
    return graph_.accept(std::move(operands));
  }
  graph_.mark_seen(seen, ids_, slot_);
  operands = {logits, wanted_, last_id, output_index, finished, seen};
  operands.insert(operands.end(), draw.begin(), draw.end());
  return graph_.sample(std::move(operands));
}

void StepBuilder::add_outputs(ValueId logits) {
  if (shape_.kind == StepKind::kScore) {
    graph_.output("scores",
                  graph_.score(logits, graph_.input("targets", {DType::kInt32, {shape_.rows()}}), shape_.top));
  } else {
    graph_.output("tokens", next_tokens(logits));
  }
  if (shape_.logits == StepShape::Logits::kOutput) graph_.output("logits", logits);
}

Step StepBuilder::finish(ValueId x) && {
  const bool has_logits_of_all_rows = shape_.kind == StepKind::kVerify || shape_.kind == StepKind::kScore;
  // A verify step determines its number of accepted rows only at the end.
  if (shape_.kind != StepKind::kVerify) graph_.advance(slot_state("length", DType::kInt32), slot_);
  ValueId hidden = has_logits_of_all_rows ? x : graph_.select_rows(x, wanted_);
  if (spec_.norm_before) hidden = norm(hidden, "model.norm");
  if (spec_.embedding_size != spec_.hidden_size) {
    hidden = graph_.linear(hidden, whole_weight("model.project_out.weight", {spec_.embedding_size, spec_.hidden_size}));
  }
  graph_.agree({has_logits_of_all_rows ? graph_.select_rows(hidden, wanted_) : hidden,
                graph_.state("step", {DType::kInt32, {2}}), slot_state("last_id", DType::kInt32),
                slot_state("length", DType::kInt32), slot_state("output_index", DType::kInt32),
                slot_state("parameter_hash", DType::kInt32), slot_state("stop_request", DType::kInt32),
                slot_state("finished", DType::kInt32)});

  std::vector<int64_t> parts;
  for (const partition::RankPart& part : partition_.parts) parts.push_back(part.vocabulary.size());
  add_outputs(graph_.all_gather(own_logits(hidden), std::move(parts)));
  return {std::move(graph_).finish(), std::move(tensors_)};
}

}  // namespace lockstep::families
