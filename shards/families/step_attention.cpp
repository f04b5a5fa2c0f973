// A layer's attention: projections, norms of the heads, rotation, the cache (whole, or a ring as long as the window),
// and the output's partial sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shards/families/step_builder.h"

namespace lockstep::families {
namespace {

using checkpoint::ModelSpec;
using checkpoint::Positions;
using checkpoint::RopeSpec;
using graph::ValueId;

/// Of the norms of latents: transformers' default, whatever the config says.
constexpr double kLatentNormEpsilon = 1e-6;

/// The slopes of ALiBi (Press et al. 2022) for `heads` heads in all: a geometric sequence for the largest power of two
/// below, then every other element of the sequence for twice as many.
std::vector<float> alibi_slopes(int64_t heads, Range own) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  const auto slope = [](int64_t of, int64_t index) {
    const double base = std::pow(2.0, -std::pow(2.0, -(std::log2(static_cast<double>(of)) - 3.0)));
    return static_cast<float>(std::pow(static_cast<float>(base), static_cast<double>(index)));
  };
  std::vector<float> slopes;
  for (int64_t head = own.begin; head < own.end; ++head) {
    slopes.push_back(head < power ? slope(power, head + 1) : slope(2 * power, 2 * (head - power) + 1));
  }
  return slopes;
}

}  // namespace

/// The rotation of a layer's heads.
struct StepBuilder::Rotation {
  std::vector<ValueId> tables;  // frequencies; and, where rows differ, long_frequencies, is_long, slot
  double scale = 1.0;
  std::string pairs;
};

StepBuilder::Rotation StepBuilder::rotation_of(int64_t layer) {
  const RopeSpec& rope = spec_.rope_of(layer);
  const checkpoint::RopeTable table = checkpoint::rope_table(spec_, rope).value();  // checked by build_step
  const std::string name = &rope == &spec_.rope ? "rope." : "rope.local.";
  Rotation rotation{{graph_.constant(name + "frequencies", table.frequencies)},
                    table.scale,
                    rope.pairs == RopeSpec::Pairs::kHalves ? "halves" : "neighbours"};
  if (table.long_frequencies.empty()) return rotation;
  rotation.tables.push_back(graph_.constant(name + "long_frequencies", table.long_frequencies));
  rotation.tables.push_back(slot_state("long_rope", DType::kInt32));
  rotation.tables.push_back(slot_);
  return rotation;
}

ValueId StepBuilder::rotate(ValueId x, const Rotation& rotation, int64_t heads, ValueId position) {
  std::vector<ValueId> operands{x, position};
  operands.insert(operands.end(), rotation.tables.begin(), rotation.tables.end());
  return graph_.rope(std::move(operands), heads, rotation.scale, rotation.pairs);
}

StepBuilder::LayerHeads StepBuilder::heads_of(int64_t layer, const partition::RankPart& part) const {
  const partition::KeyValuePart own = partition::key_values_of(spec_, part, layer);
  return {spec_.heads_of(layer), {part.heads.query, own.heads}, own.rows};
}

/// Norms each of `count` heads by one weight, which is whole on every rank, or by none.
ValueId StepBuilder::head_norm(ValueId x, const std::string& name, const LayerHeads& heads, int64_t count) {
  if (spec_.plain_head_norm) return rms_norm(x, std::nullopt, count);
  return rms_norm(x, whole_weight(name, {heads.shape.head_dim}), count);
}

ValueId StepBuilder::norm_across_heads(ValueId all, const std::string& name, Range own) {
  const int64_t width = graph_.type_of(all).shape[1];
  const ValueId normed = graph_.rms_norm(all, whole_weight(name, {width}), spec_.norm_epsilon);
  return own.size() == width ? normed : graph_.columns(normed, own);
}

ValueId StepBuilder::gathered_norm(ValueId own_heads, const std::string& name, Range own, std::vector<int64_t> parts) {
  return norm_across_heads(gathered(own_heads, std::move(parts)), name, own);
}

/// A window at least as long as every sequence is no window.
int64_t StepBuilder::window_of(int64_t layer) const {
  const int64_t window = spec_.window(layer);
  return window + spec_.pinned_sinks < shape_.capacity ? window : 0;
}

graph::AttentionOptions StepBuilder::attention_options(int64_t layer, const std::string& prefix) {
  const LayerHeads heads = heads_of(layer, part_);
  const partition::RankHeads attended = attended_heads(heads);
  graph::AttentionOptions options{
      .head_map = partition::head_map({spec_.query_heads, heads.shape.key_value_heads}, attended),
      .scale = spec_.attention_scale / (spec_.scale_by_layer ? layer + 1.0 : 1.0),
      .kernel = shape_.kind == StepKind::kDecode ? "decode" : "prefill",
      .window = window_of(layer),
      .chunked = spec_.chunked_windows,
      .pinned = window_of(layer) > 0 ? spec_.pinned_sinks : 0,
      .soft_cap = spec_.attention_soft_cap,
      .bound = shape_.bound,
      .value_columns = spec_.latent ? spec_.latent->rank : 0};
  if (spec_.attention_sinks) {
    options.sinks = weight(prefix + "sinks", {spec_.query_heads}, {attended.query});
  }
  if (spec_.positions == Positions::kAlibi) {
    options.slopes = graph_.constant("alibi.slopes", alibi_slopes(spec_.query_heads, attended.query));
  }
  return options;
}

ValueId StepBuilder::position_up_to(int64_t most) {
  const auto [found, is_new] = positions_up_to_.try_emplace(most);
  if (is_new) found->second = graph_.clamp_positions(position_, most);
  return found->second;
}

ValueId StepBuilder::scaled_by_position(ValueId queries) {
  const checkpoint::QueryScaling& scaling = spec_.query_scaling;
  std::vector<float> factors;
  for (int64_t n = 0; n <= (shape_.capacity + scaling.offset) / scaling.every; ++n) {
    factors.push_back(static_cast<float>(1.0 + scaling.beta * std::log1p(static_cast<double>(n))));
  }
  return graph_.scale_by_position(queries, position_, graph_.constant("query_factors", std::move(factors)),
                                  scaling.every, scaling.offset);
}

partition::RankHeads StepBuilder::attended_heads(const LayerHeads& heads) const {
  if (!is_over_batch()) return heads.own;
  return {{0, spec_.query_heads}, {0, heads.shape.key_value_heads}};
}

std::vector<int64_t> StepBuilder::query_columns(int64_t layer) const {
  std::vector<int64_t> columns;
  for (const partition::RankPart& part : partition_.parts) {
    columns.push_back(part.heads.query.size() * spec_.heads_of(layer).head_dim);
  }
  return columns;
}

std::vector<int64_t> StepBuilder::key_columns(int64_t layer) const {
  std::vector<int64_t> columns;
  for (const partition::RankPart& part : partition_.parts) {
    const LayerHeads heads = heads_of(layer, part);
    columns.push_back(heads.own.key_value.size() * heads.shape.head_dim);
  }
  return columns;
}

ValueId StepBuilder::queries_of_all(ValueId q, int64_t layer) {
  return is_over_batch() ? graph_.all_gather(q, query_columns(layer)) : q;
}

/// The weights or biases (`kind`) of the rows that this rank computes of k's projection and v's, one after the other.
ValueId StepBuilder::key_value_rows(const std::string& prefix, const std::string& kind, const Shape& whole,
                                    const LayerHeads& heads) {
  std::vector<graph::WeightSlice> slices;
  int64_t first = 0;  // of the projection among the rows of both
  for (const char* const projection : {"k_proj.", "v_proj."}) {
    if (first > 0 && heads.shape.keys_are_values) break;
    const std::string name = prefix + projection + kind;
    tensors_.emplace(name, whole);
    const Range rows{std::max<int64_t>(heads.rows.begin - first, 0), std::min(heads.rows.end - first, whole[0])};
    first += whole[0];
    if (rows.size() <= 0) continue;
    slices.push_back({name, {rows}});
    for (size_t axis = 1; axis < whole.rank(); ++axis) slices.back().range.push_back({0, whole[axis]});
  }
  std::vector<int64_t> dims = whole.dims();
  dims[0] = heads.rows.size();
  const std::optional<WeightFormat> format = kind == "weight" ? format_of(slices) : std::nullopt;
  const TensorType type{product_type(prefix + "k_proj.weight"), Shape(std::move(dims))};
  return graph_.weight(prefix + "kv_proj." + kind, type, std::move(slices), format);
}

std::pair<ValueId, ValueId> StepBuilder::key_values(ValueId x, const std::string& prefix, int64_t layer) {
  const LayerHeads heads = heads_of(layer, part_);
  const int64_t width = heads.shape.key_value_heads * heads.shape.head_dim;
  const Range own = head_columns(heads.own.key_value, heads.shape.head_dim);
  const Shape whole{width, spec_.hidden_size};
  if (!partition_.gathers_key_values()) {
    const Bias bias = bias_if(spec_.attention_bias);
    ValueId k = column_parallel(x, prefix + "k_proj", own, whole, bias);
    if (heads.shape.keys_are_values) return {k, k};
    if (spec_.norm_across_heads) k = gathered_norm(k, prefix + "k_norm.weight", own, key_columns(layer));
    return {k, column_parallel(x, prefix + "v_proj", own, whole, bias)};
  }
  std::optional<ValueId> bias;
  const ValueId weights = key_value_rows(prefix, "weight", whole, heads);
  if (spec_.attention_bias) bias = key_value_rows(prefix, "bias", {width}, heads);
  const ValueId pieces = product(x, weights, bias);
  std::vector<int64_t> parts;
  for (const partition::RankPart& part : partition_.parts) parts.push_back(heads_of(layer, part).rows.size());
  const ValueId all = graph_.all_gather(pieces, std::move(parts));
  const ValueId k = spec_.norm_across_heads
                        ? norm_across_heads(graph_.columns(all, {0, width}), prefix + "k_norm.weight", own)
                        : graph_.columns(all, own);
  if (heads.shape.keys_are_values) return {k, k};
  return {k, graph_.columns(all, {width + own.begin, width + own.end})};
}

StepBuilder::Partial StepBuilder::attention_partial(ValueId x, int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.self_attn.", layer);
  const LayerHeads heads = heads_of(layer, part_);
  const int64_t hidden = spec_.hidden_size, width = heads.shape.head_dim;
  const int64_t queries = heads.own.query.size(), keys = heads.own.key_value.size();
  const Range query = head_columns(heads.own.query, width);
  const Shape query_shape{spec_.query_heads * width, hidden};

  ValueId q = column_parallel(x, prefix + "q_proj", query, query_shape, bias_if(spec_.attention_bias));
  std::optional<std::pair<ValueId, ValueId>> own;
  if (!spec_.shares_cache(layer)) own = key_values(x, prefix, layer);
  if (own && spec_.value_norm) own->second = rms_norm(own->second, std::nullopt, keys);
  const auto norm_heads = [&] {
    q = head_norm(q, prefix + "q_norm.weight", heads, queries);
    if (own) own->first = head_norm(own->first, prefix + "k_norm.weight", heads, keys);
  };
  if (spec_.norm_across_heads) {  // those of k: in key_values
    q = gathered_norm(q, prefix + "q_norm.weight", query, query_columns(layer));
  } else if (spec_.norms_heads(layer) && !spec_.norm_after_rope) {
    norm_heads();
  }
  graph::AttentionOptions options = attention_options(layer, prefix);
  if (options.pinned > 0) options.pinned_q = q;
  if (spec_.has_rope(layer)) {
    const Rotation rotation = rotation_of(layer);
    if (options.pinned > 0) {
      options.pinned_q = rotate(q, rotation, queries, position_up_to(options.pinned + options.window - 1));
    }
    q = rotate(q, rotation, queries, position_);
    if (own) own->first = rotate(own->first, rotation, keys, position_);
  }
  if (spec_.norms_heads(layer) && spec_.norm_after_rope) {
    norm_heads();
    if (options.pinned_q) options.pinned_q = head_norm(*options.pinned_q, prefix + "q_norm.weight", heads, queries);
  }
  if (spec_.scales_queries(layer)) {
    q = scaled_by_position(q);
    if (options.pinned_q) options.pinned_q = scaled_by_position(*options.pinned_q);
  }
  q = queries_of_all(q, layer);
  if (options.pinned_q) options.pinned_q = queries_of_all(*options.pinned_q, layer);
  ValueId attended = attend(q, own, layer, std::move(options));
  if (spec_.attention_gate) {
    const ValueId gate = column_parallel(x, prefix + "gate_proj", query, query_shape, bias_if(spec_.attention_bias));
    attended = graph_.gated_activation(gate, attended, "sigmoid");
  }
  return row_parallel(attended, prefix + "o_proj", query, {hidden, spec_.query_heads * width},
                      partition_.attention_blocks, width, bias_if(spec_.attention_output_bias));
}

ValueId StepBuilder::latent_queries(ValueId x, const std::string& prefix, const Rotation& rotation) {
  const checkpoint::LatentAttention& latent = *spec_.latent;
  const Range own = part_.heads.query;
  const int64_t heads = own.size(), width = latent.query_dim();
  std::string name = prefix + "q_proj";
  if (latent.query_rank > 0) {
    const ValueId made = column_parallel(x, prefix + "q_a_proj", {0, latent.query_rank},
                                         {latent.query_rank, spec_.hidden_size}, bias_if(spec_.attention_bias));
    x = graph_.rms_norm(made, whole_weight(prefix + "q_a_norm.weight", {latent.query_rank}), kLatentNormEpsilon);
    name = prefix + "q_b_proj";
  }
  const int64_t inputs = graph_.type_of(x).shape[1];
  tensors_.emplace(name + ".weight", Shape{spec_.query_heads * width, inputs});
  const auto projected = [&](const char* part, Range columns) {  // the same columns of every head
    std::vector<std::pair<std::string, Range>> rows;
    for (int64_t head = own.begin; head < own.end; ++head) {
      rows.emplace_back(name + ".weight", Range{head * width + columns.begin, head * width + columns.end});
    }
    const ValueId weights = stacked_matrix(prefix + part, std::move(rows), inputs);
    return product(x, weights);
  };
  const ValueId plain = projected("q_plain_proj.weight", {0, latent.plain_dim});
  const ValueId turned =
      rotate(projected("q_rotated_proj.weight", {latent.plain_dim, width}), rotation, heads, position_);
  const ValueId keys = weight(prefix + "latent_key_proj.weight", {spec_.query_heads * latent.rank, latent.plain_dim},
                              {head_columns(own, latent.rank), {0, latent.plain_dim}});
  return graph_.join_heads(graph_.head_linear(plain, keys, heads), turned, heads);
}

ValueId StepBuilder::latent_rows(ValueId x, const std::string& prefix, const Rotation& rotation) {
  const checkpoint::LatentAttention& latent = *spec_.latent;
  const Range all{0, spec_.head_dim};
  const ValueId rows =
      column_parallel(x, prefix + "kv_a_proj", all, {spec_.head_dim, spec_.hidden_size}, bias_if(spec_.attention_bias));
  const ValueId normed = graph_.rms_norm(graph_.columns(rows, {0, latent.rank}),
                                         whole_weight(prefix + "kv_a_norm.weight", {latent.rank}), kLatentNormEpsilon);
  const ValueId turned = rotate(graph_.columns(rows, {latent.rank, spec_.head_dim}), rotation, /*heads=*/1, position_);
  return graph_.join_heads(normed, turned, /*heads=*/1);
}

StepBuilder::Partial StepBuilder::latent_attention_partial(ValueId x, int64_t layer) {
  const checkpoint::LatentAttention& latent = *spec_.latent;
  const std::string prefix = fmt::format("model.layers.{}.self_attn.", layer);
  const Range own = part_.heads.query;
  const Rotation rotation = rotation_of(layer);
  ValueId q = latent_queries(x, prefix, rotation);
  if (spec_.scales_queries(layer)) q = scaled_by_position(q);
  const ValueId row = latent_rows(x, prefix, rotation);
  const ValueId attended = attend(q, std::pair(row, row), layer, attention_options(layer, prefix));
  const Range values = head_columns(own, latent.value_dim);
  const ValueId weights = weight(prefix + "latent_value_proj.weight",
                                 {spec_.query_heads * latent.value_dim, latent.rank}, {values, {0, latent.rank}});
  return row_parallel(graph_.head_linear(attended, weights, own.size()), prefix + "o_proj", values,
                      {spec_.hidden_size, spec_.query_heads * latent.value_dim}, partition_.attention_blocks,
                      latent.value_dim, bias_if(spec_.attention_output_bias));
}

ValueId StepBuilder::attend(ValueId q, std::optional<std::pair<ValueId, ValueId>> own, int64_t layer,
                            graph::AttentionOptions options) {
  const LayerHeads heads = heads_of(layer, part_);
  const int64_t ring = options.pinned + options.window - 1 + shape_.most_rows;
  const int64_t tokens = options.window > 0 ? std::min(ring, shape_.capacity) : shape_.capacity;
  const DType elements = cache_elements(spec_.cache_type, shape_.dtype);
  const TensorType cache{
      elements, {cache_slots(), heads.own.key_value.size(), tokens, row_elements(elements, heads.shape.head_dim)}};
  const int64_t source = spec_.cache_layer(layer);
  const ValueId k_cache = graph_.state(fmt::format("kv.{}.k", source), cache);
  const bool is_one = options.value_columns > 0;  // a key is also a value
  const ValueId v_cache = is_one ? k_cache : graph_.state(fmt::format("kv.{}.v", source), cache);
  if (own) graph_.kv_append(own->first, k_cache, cache_slot_, position_, options.window, options.pinned);
  if (own && !is_one) graph_.kv_append(own->second, v_cache, cache_slot_, position_, options.window, options.pinned);
  const ValueId attended = graph_.attention(q, k_cache, v_cache, cache_slot_, position_, std::move(options));
  return is_over_batch() ? graph_.rows_of_owners(attended, slot_, cache_slots(), query_columns(layer)) : attended;
}

}  // namespace lockstep::families
