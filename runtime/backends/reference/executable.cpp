#include "runtime/backends/reference/executable.h"

#include <algorithm>
#include <cstring>

#include "runtime/backends/reference/buffer_plan.h"
#include "runtime/graph/coded_weights.h"

namespace lockstep::reference {
namespace {

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/reference] " + std::move(message)};
}

Kernel kernel_of(graph::Op op) {
  switch (op) {
    case graph::Op::kEmbedding: return embedding;
    case graph::Op::kLinear: return linear;
    case graph::Op::kLinearBlocks: return linear_blocks;
    case graph::Op::kHeadLinear: return head_linear;
    case graph::Op::kAllReduce: return all_reduce;
    case graph::Op::kAllGather: return all_gather;
    case graph::Op::kLookup: return lookup;
    case graph::Op::kAdd: return add;
    case graph::Op::kMultiply: return multiply;
    case graph::Op::kJoinPartials: return join_partials;
    case graph::Op::kJoinHeads: return join_heads;
    case graph::Op::kScale: return scale;
    case graph::Op::kScaleRows: return scale_rows;
    case graph::Op::kScaleByPosition: return scale_by_position;
    case graph::Op::kSoftCap: return soft_cap;
    case graph::Op::kCutOff: return cut_off;
    case graph::Op::kFakeQuantise: return fake_quantise;
    case graph::Op::kTakeColumns: return take_columns;
    case graph::Op::kMatchMagnitude: return match_magnitude;
    case graph::Op::kWeightedSum: return weighted_sum;
    case graph::Op::kRmsNorm: return rms_norm;
    case graph::Op::kLayerNorm: return layer_norm;
    case graph::Op::kRope: return rope;
    case graph::Op::kClampPositions: return clamp_positions;
    case graph::Op::kKvAppend: return kv_append;
    case graph::Op::kAttention: return attention;
    case graph::Op::kCausalConv: return causal_conv;
    case graph::Op::kGatedDeltaRule: return gated_delta_rule;
    case graph::Op::kActivation: return activation;
    case graph::Op::kGatedActivation: return gated_activation;
    case graph::Op::kMoeRoute: return moe_route;
    case graph::Op::kMoeExperts: return moe_experts;
    case graph::Op::kColumns: return columns;
    case graph::Op::kSelectRows: return select_rows;
    case graph::Op::kFirstRows: return first_rows;
    case graph::Op::kRunningSlots: return running_slots;
    case graph::Op::kOwnSlots: return own_slots;
    case graph::Op::kRowsOfOwners: return rows_of_owners;
    case graph::Op::kMarkSeen: return mark_seen;
    case graph::Op::kAdvance: return advance;
    case graph::Op::kAgree: return agree;
    case graph::Op::kSample: return sample;
    case graph::Op::kAccept: return accept;
    case graph::Op::kScore: return score;
  }
  LOCKSTEP_CHECK(false, static_cast<int>(op));
  return nullptr;
}

/// Rounds the elements of a tensor stored as f32 to its type.
void round_elements(const Tensor& t) {
  if (!is_float(t.type.dtype) || t.type.dtype == DType::kFloat32) return;
  float* values = t.floats();
  for (int64_t i = 0; i < t.elements(); ++i) values[i] = round_to(t.type.dtype, values[i]);
}

void copy_in(std::span<const std::byte> src, const Tensor& dst) {
  if (src.empty()) return;
  if (is_float(dst.type.dtype)) {
    convert_elements(src.data(), dst.type.dtype, dst.memory, DType::kFloat32, static_cast<size_t>(dst.elements()));
  } else {
    std::memcpy(dst.memory, src.data(), src.size());
  }
}

void copy_out(const Tensor& src, std::span<std::byte> dst) {
  if (dst.empty()) return;
  if (src.held != src.type.dtype) {
    convert_elements(src.memory, src.held, dst.data(), src.type.dtype, static_cast<size_t>(src.elements()));
  } else {
    std::memcpy(dst.data(), src.memory, dst.size());
  }
}

}  // namespace

Result<std::unique_ptr<Executable>> Executable::make(const graph::Graph& graph, Store& store,
                                                     const device::CompileOptions& options) {
  std::unique_ptr<Executable> executable(new Executable(graph, store));
  LOCKSTEP_TRY_VOID(executable->check_communicator(options));
  LOCKSTEP_TRY_VOID(executable->place_values());
  executable->environment_ = {graph.rank, graph.ranks, options.communicator, nullptr};
  executable->add_steps();
  return executable;
}

Result<void> Executable::check_communicator(const device::CompileOptions& options) const {
  if (options.communicator == nullptr) {
    if (graph_.ranks == 1) return ok();
    return invalid(
        fmt::format("cannot compile {}: found no communicator, expected one of {} ranks", graph_.name, graph_.ranks));
  }
  const device::Communicator& group = *options.communicator;
  if (group.size() == graph_.ranks && group.rank() == graph_.rank) return ok();
  return invalid(fmt::format("cannot compile {}: found a communicator of rank {} of {}, expected rank {} of {}",
                             graph_.name, group.rank(), group.size(), graph_.rank, graph_.ranks));
}

Result<void> Executable::place_values() {
  inputs_ = graph_.values_of(graph::ValueKind::kInput);
  const BufferPlan plan = plan_buffers(graph_);
  for (const int64_t bytes : plan.bytes) buffers_.emplace_back(static_cast<size_t>(bytes));
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const graph::Value& value = graph_.values[v];
    if (plan.buffer[v] >= 0) {
      tensors_.push_back(
          {value.type, held_type(value.type.dtype), buffers_[static_cast<size_t>(plan.buffer[v])].data()});
      if (value.kind == graph::ValueKind::kConstant) {
        std::copy(value.constant.begin(), value.constant.end(), tensors_.back().floats());
      }
      continue;
    }
    const bool is_weight = value.kind == graph::ValueKind::kWeight;
    const std::optional<Tensor> held = is_weight ? store_.weight(value.name) : store_.state(value.name);
    if (value.kind == graph::ValueKind::kResult) {  // without a producing node: unused
      tensors_.emplace_back();
    } else if (held && held->type == value.type) {
      tensors_.push_back(*held);
    } else {
      return invalid(fmt::format("cannot compile {}: the store was not made for {} {}", graph_.name, value.name,
                                 to_string(value.type)));
    }
  }
  for (const graph::Output& output : graph_.outputs) {
    const Tensor& source = tensor(output.value);
    outputs_.push_back({output.name, source, std::vector<std::byte>(static_cast<size_t>(source.type.bytes()))});
  }
  return ok();
}

void Executable::add_steps() {
  int64_t vocabulary = 0;
  for (const graph::Node& node : graph_.nodes) {
    Step step{kernel_of(node.op), {node, {}, std::nullopt, std::nullopt, {}}};
    for (const graph::ValueId id : node.operands) {
      step.call.operands.push_back(tensor(id));
      const std::optional<WeightFormat>& format = graph_.value(id).format;
      step.call.int8_widths.push_back(format && graph::has_int8_activations(node) ? format->group : 0);
    }
    if (node.result) step.call.result = tensor(*node.result);
    if (node.has("blocks")) step.call.sum.emplace(BlockSplit{node.integers("blocks")});
    const bool draws = node.op == graph::Op::kSample || node.op == graph::Op::kAccept;
    if (draws) vocabulary = std::max(vocabulary, step.call.operands[0].columns());
    steps_.push_back(std::move(step));
  }
  if (vocabulary > 0) scratch_ = std::make_unique<sampling::Scratch>(vocabulary);
  environment_.scratch = scratch_.get();
}

Result<void> Executable::check_inputs(std::span<const device::HostTensor> inputs) const {
  if (inputs.size() != inputs_.size()) {
    return invalid(
        fmt::format("cannot run {}: found {} inputs, expected {}", graph_.name, inputs.size(), inputs_.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Value& wanted = graph_.value(inputs_[i]);
    if (inputs[i].type == wanted.type && static_cast<int64_t>(inputs[i].bytes.size()) == wanted.type.bytes()) continue;
    return invalid(fmt::format(
        "cannot run {}: input {}: found {} ({} bytes), expected {}; shapes are fixed at "
        "compilation",
        graph_.name, wanted.name, to_string(inputs[i].type), inputs[i].bytes.size(), to_string(wanted.type)));
  }
  return ok();
}

Result<void> Executable::run(std::span<const device::HostTensor> inputs) {
  LOCKSTEP_TRY_VOID(check_inputs(inputs));
  LOCKSTEP_TRY_VOID(store_.require_weights());
  for (size_t i = 0; i < inputs.size(); ++i) copy_in(inputs[i].bytes, tensor(inputs_[i]));
  for (const Step& step : steps_) {
    LOCKSTEP_TRY_VOID(step.kernel(step.call, environment_));
    if (step.call.result) round_elements(*step.call.result);
  }
  for (OutputCopy& output : outputs_) copy_out(output.source, output.bytes);
  return ok();
}

std::span<const std::byte> Executable::output(std::string_view name) const {
  for (const OutputCopy& output : outputs_) {
    if (output.name == name) return output.bytes;
  }
  return {};
}

int64_t Executable::workspace_bytes() const {
  int64_t bytes = 0;
  for (const std::vector<std::byte>& buffer : buffers_) bytes += static_cast<int64_t>(buffer.size());
  for (const OutputCopy& output : outputs_) bytes += static_cast<int64_t>(output.bytes.size());
  return bytes;
}

}  // namespace lockstep::reference
