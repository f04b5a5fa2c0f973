// The products of a step: the formats of their matrices, and their inputs as these read them: rounded, gathered, in the
// order of the columns.
#include <algorithm>
#include <numeric>

#include "shards/families/step_builder.h"

namespace lockstep::families {
namespace {

using graph::ValueId;

/// The widest groups of at most `group` columns such that none is part of two of the stored groups, or of two leaves of
/// `leaf` columns.
int64_t group_in_leaf(int64_t group, int64_t columns, int64_t leaf) {
  return group >= columns ? std::min(leaf, columns) : std::gcd(group, leaf);
}

}  // namespace

std::optional<checkpoint::MatrixFormat> StepBuilder::stored_format_of(const std::string& tensor) const {
  const std::optional<checkpoint::MatrixFormat> stored = spec_.formats.of(tensor);
  if (!stored) return stored;
  const bool is_table = tensor == "model.embed_tokens.weight" || (spec_.tied_embeddings && tensor == "lm_head.weight");
  if (stored->ordered && (is_table || tensor.find(".experts.") != std::string::npos)) return std::nullopt;
  // Ranks that gather keys and values multiply rows of both at once; the bits must be those of ranks that do not.
  const bool is_key = tensor.ends_with(".self_attn.k_proj.weight"),
             is_value = tensor.ends_with(".self_attn.v_proj.weight");
  if ((!is_key && !is_value) || spec_.query_heads == spec_.key_value_heads) return stored;
  std::string other = tensor;
  other[other.size() - std::string_view("k_proj.weight").size()] = is_key ? 'v' : 'k';
  return stored->ordered || spec_.formats.of(other) != stored ? std::nullopt : stored;
}

std::optional<WeightFormat> StepBuilder::format_of(const std::string& tensor, int64_t columns,
                                                   std::optional<int64_t> leaf) const {
  const std::optional<checkpoint::MatrixFormat> stored = stored_format_of(tensor);
  if (!stored) return std::nullopt;
  WeightFormat format = stored->of_columns(columns);
  // Elements that are quantised while they load have groups of their leaf, of which the last may be narrower.
  const bool is_int8 = stored->activations == checkpoint::ActivationFormat::kInt8ByGroup &&
                       format == WeightFormat{.bits = 8, .group = format.group};
  if (leaf && !is_int8) format.group = group_in_leaf(format.group, columns, *leaf);
  return format;
}

std::optional<WeightFormat> StepBuilder::format_of(const std::vector<graph::WeightSlice>& slices,
                                                   std::optional<int64_t> leaf) const {
  if (slices.empty()) return std::nullopt;
  const auto format = [&](const graph::WeightSlice& slice) {
    return format_of(slice.tensor, tensors_.at(slice.tensor)[1], leaf);
  };
  const std::optional<WeightFormat> first = format(slices.front());
  const bool are_equal = std::ranges::all_of(slices, [&](const auto& slice) { return format(slice) == first; });
  const bool are_ordered = std::ranges::any_of(slices, [&](const auto& slice) { return is_ordered(slice.tensor); });
  return are_equal && !are_ordered ? first : std::nullopt;
}

bool StepBuilder::is_ordered(const std::string& tensor) const {
  const std::optional<checkpoint::MatrixFormat> stored = stored_format_of(tensor);
  return stored && stored->ordered;
}

bool StepBuilder::is_ordered(ValueId weight) const {
  return graph_.value(weight).format && is_ordered(tensor_of(weight));
}

checkpoint::ActivationFormat StepBuilder::activation_format_of(const std::string& tensor) const {
  const std::optional<checkpoint::MatrixFormat> stored = spec_.formats.of(tensor);
  return stored ? stored->activations : checkpoint::ActivationFormat::kElements;
}

DType StepBuilder::product_type(const std::string& tensor) const {
  return checkpoint::is_fixed(activation_format_of(tensor)) ? DType::kFloat32 : shape_.dtype;
}

ValueId StepBuilder::matrix(const std::string& name, const Shape& whole, std::vector<Range> ranges,
                            std::optional<int64_t> leaf) {
  tensors_.emplace(name, whole);
  const TensorType type{product_type(name), {ranges[0].size(), ranges[1].size()}};
  return graph_.weight(name, type, {{name, std::move(ranges)}}, format_of(name, whole[1], leaf));
}

std::string StepBuilder::tensor_of(ValueId weight) const {
  const graph::Value& value = graph_.value(weight);
  return value.name == "lm_head.weight" ? value.name : value.slices.front().tensor;
}

graph::Activations StepBuilder::activations_of(ValueId weight) const {
  const bool is_int8 = graph_.value(weight).format &&
                       activation_format_of(tensor_of(weight)) == checkpoint::ActivationFormat::kInt8ByGroup;
  return is_int8 ? graph::Activations::kInt8 : graph::Activations::kAsTheyAre;
}

std::optional<graph::Rounding> StepBuilder::rounding_for(const std::string& tensor) const {
  using Format = checkpoint::ActivationFormat;
  const Format format = activation_format_of(tensor);
  if (!checkpoint::is_fixed(format)) return std::nullopt;
  graph::Rounding rounding{.codes = format == Format::kInt8ByToken ? "int8" : "e4m3", .group = std::nullopt};
  if (format == Format::kE4M3ByGroup) rounding.group = checkpoint::kE4M3GroupColumns;
  return rounding;
}

ValueId StepBuilder::rounded_for(ValueId x, const std::string& tensor) {
  using Format = checkpoint::ActivationFormat;
  const Format format = activation_format_of(tensor);
  const std::optional<graph::Rounding> rounding = rounding_for(tensor);
  if (!rounding) return x;
  std::optional<ValueId> scale;
  if (format == Format::kE4M3ByTensor) {
    scale = float_weight(tensor.substr(0, tensor.rfind('.')) + ".input_scale", {1});
  }
  const auto key = std::tuple(x.value, format, scale ? std::optional(scale->value) : std::nullopt);
  if (const auto found = rounded_.find(key); found != rounded_.end()) return found->second;
  const ValueId made = graph_.fake_quantise(x, rounding->codes, rounding->group, scale);
  return rounded_.emplace(key, made).first->second;
}

ValueId StepBuilder::in_order_of(ValueId x, ValueId weight, Range columns) {
  const int64_t width = graph_.type_of(x).shape[1];
  if (!is_ordered(weight)) return columns.size() < width ? graph_.columns(x, columns) : x;
  const std::string tensor = tensor_of(weight);
  const std::string name = tensor.substr(0, tensor.rfind('.')) + ".column_order";
  tensors_.emplace(name, Shape{width});
  return graph_.take_columns(x, graph_.weight(name, {DType::kFloat32, {columns.size()}}, {{name, {columns}}}));
}

ValueId StepBuilder::input_of(ValueId x, ValueId weight) {
  return in_order_of(rounded_for(x, tensor_of(weight)), weight, {0, graph_.type_of(x).shape[1]});
}

ValueId StepBuilder::own_columns_of(ValueId x, ValueId weight, Range columns, int64_t whole, const BlockSplit& blocks,
                                    int64_t block) {
  const std::string tensor = tensor_of(weight);
  const checkpoint::ActivationFormat format = activation_format_of(tensor);
  const bool shares_scale = checkpoint::is_fixed(format) && format != checkpoint::ActivationFormat::kE4M3ByTensor;
  if (partition_.ranks() == 1 || (!is_ordered(weight) && !shares_scale)) return input_of(x, weight);
  std::vector<int64_t> parts;
  for (int rank = 0; rank < blocks.ranks(); ++rank) {
    const Range leaves = blocks.range_of(rank);
    parts.push_back(std::min(leaves.end * block, whole) - std::min(leaves.begin * block, whole));
  }
  return in_order_of(rounded_for(gathered(x, std::move(parts)), tensor), weight, columns);
}

ValueId StepBuilder::product(ValueId x, ValueId weight, std::optional<ValueId> bias, std::optional<DType> result) {
  const ValueId read = input_of(x, weight);
  return graph_.linear(read, weight, bias, result.value_or(shape_.dtype), activations_of(weight));
}

ValueId StepBuilder::bias_rows(const std::string& name, int64_t whole, Range rows) {
  tensors_.emplace(name + ".bias", Shape{whole});
  const TensorType type{product_type(name + ".weight"), {rows.size()}};
  return graph_.weight(name + ".bias", type, {{name + ".bias", {rows}}});
}

ValueId StepBuilder::column_parallel(ValueId x, const std::string& name, Range rows, const Shape& whole, Bias bias) {
  const ValueId weights = matrix(name + ".weight", whole, {rows, {0, whole[1]}});
  std::optional<ValueId> added;
  if (bias == Bias::kPresent) added = bias_rows(name, whole[0], rows);
  return product(x, weights, added);
}

StepBuilder::Partial StepBuilder::row_parallel(ValueId x, const std::string& name, Range columns, const Shape& whole,
                                               const BlockSplit& blocks, int64_t block, Bias bias) {
  const ValueId weights = matrix(name + ".weight", whole, {{0, whole[0]}, columns}, block);
  const ValueId read = own_columns_of(x, weights, columns, whole[1], blocks, block);
  const BlockSplit& split = sums_by_rank() ? rank_blocks_ : blocks;
  const int64_t leaf = sums_by_rank() ? columns.size() : block;
  return {graph_.linear_blocks(read, weights, split, leaf, activations_of(weights)), &split,
          bias == Bias::kPresent ? name + ".bias" : ""};
}

}  // namespace lockstep::families
