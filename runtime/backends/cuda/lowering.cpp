#include "runtime/backends/cuda/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/backends/cuda/few_rows.h"
#include "runtime/graph/coded_weights.h"
#include "runtime/graph/token_rows.h"

namespace lockstep::cuda {
namespace {

using graph::Op;
using graph::Value;
using graph::ValueKind;

constexpr size_t kForever = std::numeric_limits<size_t>::max();

/// The next place in a block of memory that grows.
int64_t append(int64_t& end, int64_t bytes) {
  const int64_t at = end;
  end += padded(bytes);
  return at;
}

}  // namespace

int64_t flag_bytes(int ranks) { return padded(int64_t{ranks} * kMostBlocks * static_cast<int64_t>(sizeof(uint32_t))); }

Result<StepPlan> plan_step(const graph::Graph& graph, const StoreLayout& layout, const Bases& bases,
                           const StepOptions& options) {
  return Lowering(graph, layout, bases, options).run();
}

Lowering::Lowering(const graph::Graph& graph, const StoreLayout& layout, const Bases& bases, const StepOptions& options)
    : graph_(graph),
      layout_(layout),
      bases_(bases),
      hosts_(bases.hosts.count() > 0 ? bases.hosts : device::one_host(graph.ranks)),
      options_(options),
      flow_(graph),
      token_rows_(graph::token_rows(graph)),
      fusion_(plan_fusion(graph)),
      host_reads_(graph.values.size()),
      tensors_(graph.values.size()),
      in_use_(graph.values.size(), {-1, 0}) {}

Error Lowering::invalid(std::string what) const {
  return {ErrorKind::kInvalidArgument, fmt::format("[runtime/backends/cuda] cannot compile {}: {}", graph_.name, what)};
}

Error Lowering::unsupported(std::string what) const {
  return {ErrorKind::kUnsupported, fmt::format("[runtime/backends/cuda] cannot compile {}: {}", graph_.name, what)};
}

Result<StepPlan> Lowering::run() {
  if (graph_.ranks > kMostRanks) {
    return unsupported(fmt::format("found {} ranks, expected at most {}", graph_.ranks, kMostRanks));
  }
  LOCKSTEP_TRY(plan_.places, split_nodes(graph_));
  plan_.host.resize(graph_.values.size());
  plan_.state_mirrors.resize(graph_.values.size(), -1);
  plan_.hidden_samples.resize(graph_.nodes.size(), -1);
  if (graph_.ranks > 1) {
    for (const Node& node : graph_.nodes) plan_.exchanges += exchanges_of(node);
    plan_.exchanges += plan_.exchanges % 2;
  }
  slot_of_rows_ = graph::slot_of_rows(graph_);
  plan_.slot_of_rows = slot_of_rows_;
  place_host_values();
  last_use_ = last_uses();
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    if (graph_.values[i].kind == ValueKind::kResult && plan_.host[i].home != HostPlace::Home::kHead) continue;
    LOCKSTEP_TRY(tensors_[i], place(ValueId(static_cast<int32_t>(i))));
  }
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (plan_.places[i] == Place::kBody && fusion_.launch_of(i) == i) {
      LOCKSTEP_TRY_VOID(place_result(last_of_launch(node)));
      const size_t first = plan_.launches.size();
      LOCKSTEP_TRY_VOID(lower(node));
      for (size_t launch = first; launch < plan_.launches.size(); ++launch) plan_.launches[launch].node = i;
      for (const auto& [offset, bytes] : scratch_) space_.give_back(offset, bytes);
      scratch_.clear();
    }
    free_after(i);
  }
  for (const Node& node : graph_.nodes) {
    if (node.op == Op::kAgree) sample_hidden(node);
  }
  finish_exchanges();
  place_outputs();
  plan_.workspace_bytes = space_.size();
  return std::move(plan_);
}

void Lowering::place_host_values() {
  plan_.head_bytes = padded(sizeof(HeadWords));
  const auto mark = [&](ValueId id) { host_reads_[static_cast<size_t>(id.value)] = true; };
  for (const graph::Output& output : graph_.outputs) mark(output.value);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (plan_.places[i] == Place::kBody) continue;
    for (size_t operand = 0; operand < node.operands.size(); ++operand) {
      const bool is_hidden = node.op == Op::kAgree && operand == 0;
      if (!is_hidden) mark(node.operands[operand]);
    }
    if (!node.result) continue;
    HostPlace& host = plan_.host[static_cast<size_t>(node.result->value)];
    const int64_t bytes = graph_.value(*node.result).type.bytes();
    host = plan_.places[i] == Place::kPrologue ? HostPlace{HostPlace::Home::kHead, append(plan_.head_bytes, bytes)}
                                               : HostPlace{HostPlace::Home::kHost, append(plan_.host_bytes, bytes)};
  }
  int64_t arrivals = 0;  // which every step starts with zeros of
  for (const Node& node : graph_.nodes) {
    if (node.op != Op::kAttention) continue;
    const int64_t rows = graph_.value(node.operands[0]).type.shape[0];
    if (rows <= kMostSplitRows) arrivals = std::max(arrivals, rows * graph_.value(node.operands[1]).type.shape[1]);
  }
  arrivals_ = bases_.head + static_cast<uint64_t>(append(plan_.head_bytes, arrivals * 4));
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    const Value& value = graph_.values[i];
    if (value.kind == ValueKind::kInput) {
      plan_.host[i] = {HostPlace::Home::kHead, append(plan_.head_bytes, value.type.bytes())};
    } else if (value.kind == ValueKind::kState && !layout_.is_on_device(value.name)) {
      plan_.host[i] = {HostPlace::Home::kState, 0};
      const auto& readers = flow_.readers(ValueId(static_cast<int32_t>(i)));
      const bool mirrors =
          std::ranges::any_of(readers, [&](size_t reader) { return plan_.places[reader] == Place::kBody; });
      if (mirrors) plan_.state_mirrors[i] = append(plan_.head_bytes, value.type.bytes());
    }
  }
}

std::vector<size_t> Lowering::last_uses() const {
  std::vector<size_t> last(graph_.values.size(), 0);
  std::vector<ValueId> base;  // of views
  for (size_t i = 0; i < graph_.values.size(); ++i) base.emplace_back(static_cast<int32_t>(i));
  const auto of = [&](ValueId id) { return static_cast<size_t>(id.value); };
  for (const Node& node : graph_.nodes) {
    if (node.result && is_view(node)) base[of(*node.result)] = base[of(node.operands[0])];
  }
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const size_t launch = fusion_.launch_of(i);
    const auto use = [&](ValueId id) {
      size_t& when = last[of(base[of(id)])];
      when = std::max(when, launch);
    };
    if (node.result) use(*node.result);
    std::ranges::for_each(node.operands, use);
    if (node.op == Op::kAgree) last[of(base[of(node.operands[0])])] = kForever;
  }
  for (size_t i = 0; i < last.size(); ++i) {
    if (host_reads_[i]) last[of(base[i])] = kForever;
  }
  return last;
}

bool Lowering::is_view(const Node& node) const {
  return node.op == Op::kColumns && node.result && !host_reads(*node.result);
}

Tensor Lowering::dense(const TensorType& type, uint64_t address) const {
  const std::vector<int64_t>& dims = type.shape.dims();
  Tensor tensor{.address = address, .dtype = type.dtype};
  tensor.columns = dims.empty() ? 1 : dims.back();
  tensor.rows = dims.size() < 2 ? 1 : dims[dims.size() - 2];
  for (size_t i = 0; i + 2 < dims.size(); ++i) tensor.planes *= dims[i];
  tensor.stride = tensor.columns;
  tensor.plane = tensor.rows * tensor.columns;
  return tensor;
}

Result<Tensor> Lowering::place(ValueId id) {
  const Value& value = graph_.value(id);
  const HostPlace& host = plan_.host[static_cast<size_t>(id.value)];
  if (host.home == HostPlace::Home::kHead) {
    return dense(value.type, bases_.head + static_cast<uint64_t>(host.offset));
  }
  switch (value.kind) {
    case ValueKind::kConstant: return dense(value.type, add_table(std::as_bytes(std::span(value.constant))));
    case ValueKind::kState: {
      const StateLayout* state = layout_.state(value.name);
      if (state == nullptr || state->type != value.type) {
        return invalid(
            fmt::format("found state {} {} that the store does not have, expected a store made for this "
                        "graph",
                        value.name, to_string(value.type)));
      }
      if (state->carried) return dense(value.type, bases_.caches + static_cast<uint64_t>(*state->carried));
      if (state->cache) return dense(value.type, bases_.caches + static_cast<uint64_t>(state->cache->offset));
      const int64_t mirror = plan_.state_mirrors[static_cast<size_t>(id.value)];
      return dense(value.type, mirror < 0 ? 0 : bases_.head + static_cast<uint64_t>(mirror));
    }
    case ValueKind::kWeight: {
      const auto found = layout_.weights.find(value.name);
      if (found == layout_.weights.end() || found->second.type != value.type) {
        return invalid(
            fmt::format("found weight {} {} that the store does not have, expected a store made for this "
                        "graph",
                        value.name, to_string(value.type)));
      }
      const WeightForm* rows = layout_.form(value.name, Packing{});
      return dense(value.type, rows == nullptr ? 0 : bases_.weights + static_cast<uint64_t>(rows->offset));
    }
    default: return Tensor{};
  }
}

/// Whether the node's partial sums can be written where peers read them: before the next exchange, which sums them.
bool Lowering::is_area_root(const Node& node) const {
  if (graph_.ranks == 1 || !node.result || host_reads(*node.result)) return false;
  const auto reader = flow_.only_reader(*node.result);
  if (!reader || graph_.nodes[*reader].op != Op::kAllReduce) return false;
  for (size_t i = index_of(node); i < *reader; ++i) {
    if (exchanges_of(graph_.nodes[i]) > 0) return false;
  }
  return true;
}

Result<void> Lowering::place_result(const Node& node) {
  if (!node.result) return ok();
  const auto at = static_cast<size_t>(node.result->value);
  const TensorType& type = graph_.values[at].type;
  if (is_view(node)) {
    const Tensor& base = operand(node, 0);
    tensors_[at] = base;
    tensors_[at].address += static_cast<uint64_t>(node.integer("begin") * base.element_size());
    tensors_[at].columns = node.integer("end") - node.integer("begin");
    return ok();
  }
  if (is_area_root(node)) {
    tensors_[at] = dense(type, area(graph_.rank, exchange_));
    plan_.half_bytes = std::max(plan_.half_bytes, padded(type.bytes()));
  } else {
    const int64_t offset = space_.take(padded(type.bytes()));
    in_use_[at] = {offset, padded(type.bytes())};
    tensors_[at] = dense(type, bases_.workspace + static_cast<uint64_t>(offset));
  }
  tensors_[at].is_token_rows = token_rows_[at];
  return ok();
}

const Lowering::Node& Lowering::last_of_launch(const Node& node) const {
  const Node* last = &node;
  for (const Fused::As as : {Fused::As::kColumnsOf, Fused::As::kResidualOf}) {
    const std::vector<size_t> parts = fusion_.parts_of(index_of(node), as);
    if (!parts.empty()) last = &graph_.nodes[parts.back()];
  }
  return *last;
}

void Lowering::free_after(size_t node) {
  for (size_t i = 0; i < in_use_.size(); ++i) {
    if (in_use_[i].first < 0 || last_use_[i] != node) continue;
    space_.give_back(in_use_[i].first, in_use_[i].second);
    in_use_[i].first = -1;
  }
}

void Lowering::place_outputs() {
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    const bool is_of_device =
        host_reads_[i] && plan_.host[i].home == HostPlace::Home::kNone && graph_.values[i].kind == ValueKind::kResult;
    if (!is_of_device) continue;
    const int64_t bytes = graph_.values[i].type.bytes();
    plan_.host[i] = {HostPlace::Home::kTail, append(plan_.tail_bytes, bytes)};
    if (bytes > 0) plan_.copies.push_back({tensors_[i].address, bytes, plan_.host[i].offset});
  }
}

void Lowering::sample_hidden(const Node& node) {
  const Tensor& hidden = operand(node, 0);
  const bool is_of_device =
      flow_.maker(node.operands[0]).has_value() && plan_.places[*flow_.maker(node.operands[0])] == Place::kBody;
  if (!is_of_device) return;
  Tensor sample = hidden;
  sample.columns = std::min<int64_t>(hidden.columns, 16 / hidden.element_size());
  sample.stride = sample.columns;
  const int64_t bytes = sample.rows * sample.columns * sample.element_size();
  if (sample.rows == 1 && bytes > 0) {  // as it lies
    const int64_t to = append(plan_.tail_bytes, bytes);
    plan_.hidden_samples[index_of(node)] = to;
    plan_.copies.push_back({hidden.address, bytes, to});
    return;
  }
  const int64_t offset = space_.take(padded(bytes));  // until the end of the step
  sample.address = bases_.workspace + static_cast<uint64_t>(offset);
  Tensor from = hidden;
  from.columns = sample.columns;
  copy_rows(from, sample);
  const int64_t to = append(plan_.tail_bytes, bytes);
  plan_.hidden_samples[index_of(node)] = to;
  if (bytes > 0) plan_.copies.push_back({sample.address, bytes, to});
}

Result<void> Lowering::lower(const Node& node) {
  switch (node.op) {
    case Op::kEmbedding: return lower_embedding(node);
    case Op::kLinear:
    case Op::kLinearBlocks:
      if (graph::format_of(graph_, node, 1)) return lower_product_codes(node);
      return has_few_rows(graph_, node, 1) ? lower_few(node) : lower_product(node);
    case Op::kHeadLinear: return lower_head_linear(node);
    case Op::kMoeExperts: return lower_experts(node);
    case Op::kMoeRoute: lower_route(node); break;
    case Op::kLookup:
    case Op::kSelectRows: lower_rows(node); break;
    case Op::kColumns: lower_columns(node); break;
    case Op::kJoinPartials: lower_join(node); break;
    case Op::kJoinHeads: lower_join_heads(node); break;
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kScale:
    case Op::kSoftCap:
    case Op::kActivation:
    case Op::kGatedActivation: lower_map(node); break;
    case Op::kScaleRows:
    case Op::kScaleByPosition: lower_scale_rows(node); break;
    case Op::kFakeQuantise: lower_fake_quantise(node); break;
    case Op::kTakeColumns: lower_take_columns(node); break;
    case Op::kRmsNorm: lower_rms_norm(node); break;
    case Op::kCutOff:
    case Op::kMatchMagnitude: lower_stream(node); break;
    case Op::kWeightedSum: lower_weighted_sum(node); break;
    case Op::kLayerNorm: lower_layer_norm(node); break;
    case Op::kRope: lower_rope(node); break;
    case Op::kCausalConv: lower_causal_conv(node); break;
    case Op::kGatedDeltaRule: lower_gated_delta_rule(node); break;
    case Op::kKvAppend: return lower_append(node);
    case Op::kAttention: return lower_attention(node);
    case Op::kAllReduce: return lower_all_reduce(node);
    case Op::kAllGather: lower_all_gather(node); break;
    case Op::kRowsOfOwners: lower_owners(node); break;
    default: return unsupported(fmt::format("found {}, which has no kernel", to_string(node.op)));
  }
  return ok();
}

const int32_t* Lowering::slot_of_padding() const {
  return slot_of_rows_ ? tensor(*slot_of_rows_).as<int32_t>() : nullptr;
}

Result<uint64_t> Lowering::weight(const Node& node, size_t operand, const Packing& packing) const {
  const Value& value = graph_.value(node.operands[operand]);
  const WeightForm* form = value.kind == ValueKind::kWeight ? layout_.form(value.name, packing) : nullptr;
  if (form != nullptr) return bases_.weights + static_cast<uint64_t>(form->offset);
  return unsupported(fmt::format("found {} as operand {} of {}, expected a weight of the store", value.name, operand,
                                 to_string(node.op)));
}

}  // namespace lockstep::cuda
