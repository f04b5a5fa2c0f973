#include "runtime/backends/neuron/lowering/step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/core/check.h"
#include "runtime/core/hash.h"

namespace lockstep::neuron {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using graph::ValueKind;

RowLayout row_layout_of(const Graph& graph) {
  const bool each = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op == Op::kRunningSlots || node.op == Op::kAccept;
  });
  return each ? RowLayout::kOfEachSlot : RowLayout::kOfOneSlot;
}

/// How a node reads a value whose layout on the device differs from the host's.
enum class Use { kPlain, kCache, kSeen, kExpertRows, kExpertOutputs };

Use use_of(const Node& node, size_t operand) {
  switch (node.op) {
    case Op::kKvAppend: return operand == 1 ? Use::kCache : Use::kPlain;
    case Op::kAttention: return operand == 1 || operand == 2 ? Use::kCache : Use::kPlain;
    case Op::kMarkSeen: return operand == 0 ? Use::kSeen : Use::kPlain;
    case Op::kSample: return operand == 5 ? Use::kSeen : Use::kPlain;
    case Op::kAccept: return operand == 7 ? Use::kSeen : Use::kPlain;
    case Op::kMoeExperts:
      if (operand == 4 || operand == 7) return Use::kExpertOutputs;  // down and its bias: d rows per expert
      return operand >= 2 ? Use::kExpertRows : Use::kPlain;          // gate, up and their biases: I rows per expert
    default: return Use::kPlain;
  }
}

/// The first node that reads `id` in a special layout, and that layout.
std::pair<Use, const Node*> special_use(const Graph& graph, ValueId id) {
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == id && use_of(node, i) != Use::kPlain) return {use_of(node, i), &node};
    }
  }
  return {Use::kPlain, nullptr};
}

Shape largest(const std::vector<Shape>& shapes) {
  std::vector<int64_t> dims = shapes.front().dims();
  for (const Shape& shape : shapes) {
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = std::max(dims[i], shape[i]);
  }
  return Shape(std::move(dims));
}

std::vector<int64_t> row_major(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (size_t i = shape.rank(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Splits the rows of experts off: [L · n, …] becomes [L, n, …].
Shape by_expert(const Shape& shape, int64_t experts) {
  std::vector<int64_t> dims{experts, shape[0] / experts};
  dims.insert(dims.end(), shape.dims().begin() + 1, shape.dims().end());
  return Shape(std::move(dims));
}

}  // namespace

Step::Step(std::span<const Graph> graphs, const LoweringOptions& options)
    : graphs_(graphs),
      options_(options),
      row_layout_(row_layout_of(graphs.front())),
      builder_(graphs.front().name),
      values_(graphs.front().values.size()),
      updated_(values_.size()),
      parameter_of_(values_.size(), -1) {
  for (const ValueKind kind : {ValueKind::kInput, ValueKind::kState, ValueKind::kWeight, ValueKind::kConstant}) {
    for (const ValueId id : graph().values_of(kind)) declare(id);
  }
}

void Step::declare(ValueId id) {
  switch (graph().value(id).kind) {
    case ValueKind::kInput: return declare_parameter(id, Role::kInput);
    case ValueKind::kState: return declare_parameter(id, Role::kState);
    case ValueKind::kWeight: return declare_parameter(id, Role::kWeight);
    case ValueKind::kResult: return;
    case ValueKind::kConstant: break;
  }
  std::vector<std::vector<float>> contents;
  for (int rank = 0; rank < ranks(); ++rank) contents.push_back(graph(rank).value(id).constant);
  set_value(id, of_each_rank(graph().value(id).name, contents));
}

std::vector<Shape> Step::shapes_of(ValueId id) const {
  std::vector<Shape> shapes;
  for (const Graph& graph : graphs_) shapes.push_back(graph.value(id).type.shape);
  return shapes;
}

Placement Step::placement_of(ValueId id, TensorType& device) const {
  std::vector<Shape> views = shapes_of(id);
  const auto [use, node] = special_use(graph(), id);
  if (use == Use::kExpertRows || use == Use::kExpertOutputs) {
    for (size_t r = 0; r < views.size(); ++r) {
      const auto index = static_cast<size_t>(node - graph().nodes.data());
      views[r] = by_expert(views[r], graphs_[r].nodes[index].integer("experts"));
    }
  }
  const Shape whole = largest(views);
  device.shape = whole;
  if (use == Use::kSeen) device.shape = {whole[0] + 1, whole[1]};
  if (use != Use::kCache) return {std::move(views), row_major(whole)};
  // [S, G, C, h] is stored as rows (position, slot) of all heads, plus a scratch row.
  const int64_t width = whole[1] * whole[3];
  device.shape = {whole[2] * whole[0] + 1, width};
  return {std::move(views), {width, whole[3], whole[0] * width, 1}};
}

void Step::declare_parameter(ValueId id, Role role) {
  const graph::Value& value = graph().value(id);
  Parameter parameter{.name = value.name, .role = role, .type = value.type};
  parameter.placement = placement_of(id, parameter.type);
  parameter_of_[static_cast<size_t>(id.value)] = static_cast<int>(parameters_.size());
  set_value(id, add_parameter(std::move(parameter)));
}

hlo::Value Step::add_parameter(Parameter parameter) {
  const hlo::Type type{hlo::element_of(parameter.type.dtype), parameter.type.shape.dims(), {}};
  const hlo::Value value = builder_.parameter(parameter.name, type);
  parameters_.push_back(std::move(parameter));
  return value;
}

Result<Step::Int8Weight> Step::in_8_bits(ValueId weight, int64_t leaf, int64_t width) {
  const graph::Value& value = graph().value(weight);
  const Int8Part part{.weight = value.name, .host = value.type.dtype, .leaf = leaf, .width = width};
  const auto [found, is_new] = in_8_bits_.try_emplace(weight.value, Int8Weight{}, part);
  if (found->second.second != part) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/backends/neuron] cannot lower weight {}: found it in 8 bits in groups of {} and "
                             "of {} columns, expected one form",
                             value.name, found->second.second.width, width)};
  }
  if (!is_new) return found->second.first;
  const std::vector<Shape> views = shapes_of(weight);
  const Shape whole = largest(views);
  const int64_t groups = (whole[1] + leaf - 1) / leaf * part.groups_per_leaf();
  Parameter parameter{.name = value.name + ".integers",
                      .role = Role::kWeight,
                      .type = {DType::kInt8, {whole[0], groups * width}},
                      .placement = {views, {}},
                      .int8 = part};
  Int8Weight& made = found->second.first;
  made.integers = add_parameter(parameter);
  parameter.name = value.name + ".scales";
  parameter.type = {DType::kFloat32, {groups, whole[0]}};
  parameter.int8->holds = Int8Part::Holds::kScales;
  made.scales = add_parameter(std::move(parameter));
  return made;
}

void Step::set_state(ValueId id, hlo::Value value) {
  set_value(id, value);
  updated_[static_cast<size_t>(id.value)] = true;
}

template <typename T>
hlo::Value Step::rank_parameter(const std::string& name, DType dtype, const std::vector<std::vector<T>>& values) {
  std::vector<std::vector<std::byte>> contents;
  Fingerprint key;
  const size_t count = values.front().size();
  for (const std::vector<T>& own : values) {
    const auto bytes = std::as_bytes(std::span(own));
    contents.emplace_back(bytes.begin(), bytes.end());
    key.add_bytes(bytes);
  }
  // A value needed by several nodes is passed once.
  const auto [found, is_new] = by_rank_.try_emplace(fmt::format("{}/{}/{}", to_string(dtype), count, key.value()));
  if (!is_new) return found->second;
  const Shape shape{static_cast<int64_t>(count)};
  std::string own_name = "rank." + name;  // layers may differ in what has one name
  for (int number = 2; std::ranges::find(parameters_, own_name, &Parameter::name) != parameters_.end(); ++number) {
    own_name = fmt::format("rank.{}.{}", name, number);
  }
  found->second = builder_.parameter(own_name, {hlo::element_of(dtype), shape.dims(), {}});
  parameters_.push_back({.name = own_name,
                         .role = Role::kRank,
                         .type = {dtype, shape},
                         .placement = {std::vector<Shape>(values.size(), shape), {1}},
                         .contents = std::move(contents)});
  return found->second;
}

namespace {

template <typename T>
std::vector<std::vector<T>> padded(std::vector<std::vector<T>> values) {
  size_t count = 0;
  for (const auto& own : values) count = std::max(count, own.size());
  for (auto& own : values) own.resize(count);
  return values;
}

template <typename T>
bool are_equal(const std::vector<std::vector<T>>& values) {
  return std::all_of(values.begin(), values.end(), [&](const auto& own) { return own == values.front(); });
}

}  // namespace

hlo::Value Step::of_each_rank(const std::string& name, const std::vector<std::vector<int32_t>>& values) {
  if (are_equal(values)) return builder_.constants(values.front());
  return rank_parameter(name, DType::kInt32, padded(values));
}

hlo::Value Step::of_each_rank(const std::string& name, const std::vector<std::vector<float>>& values) {
  if (are_equal(values)) return builder_.constants(values.front());
  return rank_parameter(name, DType::kFloat32, padded(values));
}

namespace {

TensorType host_type(const hlo::Type& type) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32, DType::kUInt8, DType::kInt8}) {
    if (hlo::element_of(dtype) == type.element) return {dtype, Shape(type.dims)};
  }
  LOCKSTEP_CHECK(false, to_string(type));
}

}  // namespace

LoweredStep Step::finish() && {
  LoweredStep step{.module = {}, .signature = {.ranks = ranks()}};
  std::vector<hlo::Value> outputs;
  std::vector<int> sources;  // the parameter aliased by an output, or −1
  const auto add = [&](std::string name, hlo::Value value, int parameter) {
    step.signature.outputs.push_back({std::move(name), host_type(builder_.type_of(value)), std::nullopt});
    outputs.push_back(value);
    sources.push_back(parameter);
  };
  for (const graph::Output& output : graph().outputs) add(output.name, value(output.value), -1);
  for (const auto& [name, value] : extra_outputs_) add(name, value, -1);
  if (options_.indices == LoweringOptions::Indices::kOutput) {
    for (const hlo::Builder::Indexing& use : builder_.indexings()) {
      add(fmt::format("index{} below {}", outputs.size(), fmt::join(use.limits, ",")), use.indices, -1);
    }
  }
  for (const ValueId id : graph().values_of(ValueKind::kState)) {
    const auto index = static_cast<size_t>(id.value);
    if (updated_[index]) add(graph().value(id).name, value(id), parameter_of_[index]);
  }
  hlo::Builder::Finished finished = std::move(builder_).finish(std::move(outputs));
  step.module = std::move(finished.module);
  for (size_t i = 0; i < finished.kept.size(); ++i) {
    const auto old = static_cast<size_t>(finished.kept[i]);
    step.signature.parameters.push_back(std::move(parameters_[old]));
    const auto source = std::find(sources.begin(), sources.end(), static_cast<int>(old));
    if (source == sources.end()) continue;
    const auto output = static_cast<int>(source - sources.begin());
    step.signature.parameters.back().output = output;
    step.signature.outputs[static_cast<size_t>(output)].parameter = static_cast<int>(i);
    step.module.aliases.push_back({output, static_cast<int>(i)});
  }
  return step;
}

hlo::Element NodeView::result_element() const {
  return hlo::element_of(step_.graph().value(node().result.value()).type.dtype);
}

double NodeView::number_or(std::string_view name, double otherwise) const { return node().number_or(name, otherwise); }

int64_t NodeView::integer_or(std::string_view name, int64_t otherwise) const {
  return node().integer_or(name, otherwise);
}

std::string NodeView::own_name(const std::string& what) const { return fmt::format("n{}.{}", index_, what); }

hlo::Value NodeView::integer_of_each_rank(std::string_view name) const {
  std::vector<std::vector<int32_t>> values;
  for (int rank = 0; rank < step_.ranks(); ++rank) {
    values.push_back({static_cast<int32_t>(node(rank).integer(name))});
  }
  return step_.of_each_rank(std::string(name), values);
}

void NodeView::set_result(hlo::Value value) const {
  step_.set_value(node().result.value(), builder().convert(value, result_element()));
}

Error NodeView::unsupported(const std::string& what) const {
  return {ErrorKind::kUnsupported, fmt::format("[runtime/backends/neuron] cannot lower node {} ({}) of {}: {}", index_,
                                               graph::to_string(node().op), step_.graph().name, what)};
}

}  // namespace lockstep::neuron
