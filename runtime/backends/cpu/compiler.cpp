#include "runtime/backends/cpu/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/graph/token_rows.h"

namespace lockstep::cpu {

using graph::Op;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

Compiler::Compiler(const graph::Graph& graph, Store& store, const Kernels& kernels, int workers,
                   device::Communicator* communicator, Program& program)
    : graph_(graph),
      store_(store),
      kernels_(kernels),
      workers_(workers),
      communicator_(communicator),
      program_(program),
      fusion_(plan_fusion(graph)),
      buffers_(plan_buffers(graph, fusion_)),
      slot_of_rows_(graph::slot_of_rows(graph)) {}

Result<void> Compiler::compile() {
  LOCKSTEP_TRY_VOID(check_communicator());
  LOCKSTEP_TRY_VOID(map_workspace());
  LOCKSTEP_TRY_VOID(place_values());
  bind_inputs_and_outputs();
  if (slot_of_rows_ && graph_.value(*slot_of_rows_).kind != ValueKind::kResult) bound_rows_by(*slot_of_rows_);
  for (const Node& node : graph_.nodes) {
    LOCKSTEP_TRY_VOID(lower(node));
    if (node.result && slot_of_rows_ == node.result) bound_rows_by(*node.result);
  }
  tell_what_comes();
  return map_scratch();
}

void Compiler::tell_what_comes() {
  constexpr size_t kSoon = 2;  // attention is between two products
  std::vector<Stage>& stages = program_.stages;
  for (size_t i = 0; i < stages.size(); ++i) {
    const size_t end = std::min(stages.size(), i + 1 + kSoon);
    const auto next =
        std::find_if(stages.begin() + i + 1, stages.begin() + end, [](const Stage& p) { return !!p.reads; });
    if (next != stages.begin() + end) stages[i].next_reads = next->reads;
  }
}

Result<void> Compiler::check_communicator() const {
  if (graph_.ranks == 1) return ok();
  if (communicator_ != nullptr && communicator_->size() == graph_.ranks && communicator_->rank() == graph_.rank) {
    return ok();
  }
  const std::string found = communicator_ == nullptr ? std::string("no communicator")
                                                     : fmt::format("rank {} of a communicator of {}",
                                                                   communicator_->rank(), communicator_->size());
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[runtime/backends/cpu] cannot compile {}: found {}, expected rank {} of {}", graph_.name,
                           found, graph_.rank, graph_.ranks)};
}

Result<void> Compiler::map_workspace() {
  LOCKSTEP_TRY(program_.workspace, Mapping::create(buffers_.bytes, Pages::kHuge, "the workspace"));
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    const std::vector<float>& contents = graph_.values[i].constant;
    if (contents.empty()) continue;
    std::memcpy(program_.workspace.data() + buffers_.values[i].offset, contents.data(),
                contents.size() * sizeof(float));
  }
  return ok();
}

Result<void> Compiler::map_scratch() {
  Scratch& scratch = program_.scratch;
  const auto to_pages = [](int64_t bytes) { return (bytes + 4095) / 4096 * 4096; };
  scratch.shared_bytes = to_pages(scratch.shared_bytes);
  scratch.private_bytes = to_pages(scratch.private_bytes);
  const int64_t bytes = scratch.shared_bytes + workers_ * scratch.private_bytes;
  LOCKSTEP_TRY(program_.scratch_mapping, Mapping::create(bytes, Pages::kHuge, "the scratch of a step"));
  scratch.shared_memory = program_.scratch_mapping.data();
  scratch.private_memory = scratch.shared_memory + scratch.shared_bytes;
  return ok();
}

Result<Tensor> Compiler::place(ValueId id) const {
  const Value& value = graph_.value(id);
  const Placement& placement = buffers_.values[id.value];
  const std::vector<int64_t>& dims = value.type.shape.dims();
  Tensor tensor;
  tensor.dtype = value.type.dtype;
  tensor.columns = dims.empty() ? 1 : dims.back();
  tensor.rows = dims.size() < 2 ? 1 : dims[dims.size() - 2];
  for (size_t i = 0; i + 2 < dims.size(); ++i) tensor.planes *= dims[i];
  tensor.stride = tensor.columns * tensor.element_size();
  tensor.rows_in_use = placement.is_token_rows ? &program_.scratch.rows_in_use : nullptr;
  tensor.packs_planes = placement.packs_planes;
  if (placement.is_workspace) {
    tensor.data = program_.workspace.data() + placement.offset;
  } else if (placement.is_view) {
    const Tensor& base = tensors_[placement.base.value];
    tensor.data = base.at(0, placement.first_column);
    tensor.stride = base.stride;
  } else if (value.kind == ValueKind::kState) {
    tensor.data = store_.dense_state(value.name);
    if (tensor.data == nullptr && store_.cache(value.name) == nullptr) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[runtime/backends/cpu] cannot compile {}: found state {} that the store does not have, "
                               "expected a store made for this graph",
                               graph_.name, value.name)};
    }
  } else if (value.kind == ValueKind::kWeight) {
    tensor.data = const_cast<std::byte*>(store_.rows(value.name));  // only read
  }
  return tensor;
}

Result<void> Compiler::place_values() {
  tensors_.resize(graph_.values.size());
  for (const bool places_views : {false, true}) {  // a view's base is not a view, but may follow it
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (buffers_.values[i].is_view != places_views) continue;
      LOCKSTEP_TRY(tensors_[i], place(ValueId(static_cast<int32_t>(i))));
    }
  }
  return ok();
}

void Compiler::bind_inputs_and_outputs() {
  for (ValueId input : graph_.values_of(ValueKind::kInput)) {
    program_.inputs.push_back({graph_.value(input).type, graph_.value(input).name, tensor(input).data});
  }
  for (const graph::Output& output : graph_.outputs) program_.outputs.emplace(output.name, tensor(output.value));
}

const CacheLayout& Compiler::cache_of(const Node& node, size_t operand) const {
  const CacheLayout* cache = store_.cache(graph_.value(node.operands[operand]).name);
  LOCKSTEP_CHECK(cache != nullptr, graph_.value(node.operands[operand]).name);
  return *cache;
}

Result<void> Compiler::lower(const Node& node) {
  if (fusion_.stage_of(index_of(node)) != index_of(node)) return ok();  // lowered with the node of that stage
  switch (node.op) {
    case Op::kEmbedding: return lower_embedding(node);
    case Op::kLinear: return lower_linear(node);
    case Op::kLinearBlocks: return lower_linear_blocks(node);
    case Op::kHeadLinear: return lower_head_linear(node);
    case Op::kJoinHeads: lower_join_heads(node); break;
    case Op::kAllReduce: lower_all_reduce(node); break;
    case Op::kAllGather: lower_all_gather(node); break;
    case Op::kLookup: lower_lookup(node); break;
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kScale:
    case Op::kScaleRows:
    case Op::kScaleByPosition:
    case Op::kWeightedSum:
    case Op::kSoftCap:
    case Op::kActivation:
    case Op::kGatedActivation: lower_columnwise(node); break;
    case Op::kJoinPartials: lower_join_partials(node); break;
    case Op::kCutOff:
    case Op::kMatchMagnitude:
    case Op::kFakeQuantise:
    case Op::kTakeColumns:
    case Op::kRmsNorm:
    case Op::kLayerNorm: lower_rowwise(node); break;
    case Op::kRope: lower_rope(node); break;
    case Op::kClampPositions: lower_clamp_positions(node); break;
    case Op::kKvAppend: lower_kv_append(node); break;
    case Op::kAttention: lower_attention(node); break;
    case Op::kCausalConv: return lower_causal_conv(node);
    case Op::kGatedDeltaRule: return lower_gated_delta_rule(node);
    case Op::kMoeRoute: lower_moe_route(node); break;
    case Op::kMoeExperts: return lower_moe_experts(node);
    case Op::kColumns: lower_columns(node); break;
    case Op::kSelectRows: lower_select_rows(node); break;
    case Op::kFirstRows: lower_first_rows(node); break;
    case Op::kRunningSlots: lower_running_slots(node); break;
    case Op::kOwnSlots: lower_own_slots(node); break;
    case Op::kRowsOfOwners: lower_rows_of_owners(node); break;
    case Op::kMarkSeen: lower_mark_seen(node); break;
    case Op::kAdvance: lower_advance(node); break;
    case Op::kAgree: lower_agree(node); break;
    case Op::kSample: lower_sample(node); break;
    case Op::kAccept: lower_accept(node); break;
    case Op::kScore: lower_score(node); break;
  }
  return ok();
}

void Compiler::bound_rows_by(ValueId value) {
  const int32_t* slot = tensor(value).as<int32_t>();
  add_alone([slot, rows = graph_.rows, scratch = &program_.scratch]() -> Result<void> {
    int64_t used = rows;
    while (used > 0 && slot[used - 1] < 0) --used;
    scratch->rows_in_use = used;
    return ok();
  });
}

}  // namespace lockstep::cpu
