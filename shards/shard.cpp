#include "shards/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/hash.h"
#include "runtime/device/agreement.h"

namespace lockstep::shards {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}

Error invalid(std::string message) { return {ErrorKind::kInvalidArgument, "[shards] " + std::move(message)}; }

Result<void> require_positive(std::string_view name, int64_t value) {
  if (value >= 1) return ok();
  return invalid(fmt::format("cannot size a shard: found {} {}, expected at least 1", name, value));
}

}  // namespace

Result<void> ShardOptions::validate() const {
  LOCKSTEP_TRY_VOID(require_positive("slots", slots));
  LOCKSTEP_TRY_VOID(require_positive("chunk", chunk));
  LOCKSTEP_TRY_VOID(require_positive("capacity", capacity));
  if (!is_float(dtype))
    return invalid(fmt::format("cannot compute in {}; use a floating-point type", to_string(dtype)));
  return ok();
}

Result<ShardGraphs> build_graphs(const checkpoint::ModelSpec& spec, const partition::Partition& partition, int rank,
                                 const ShardOptions& options, const std::vector<graph::Pass>& passes) {
  LOCKSTEP_TRY_VOID(options.validate());
  LOCKSTEP_TRY(const families::BuildStep build, families::find_family(spec));
  families::StepShape shape{.phase = families::Phase::kPrefill,
                            .rank = rank,
                            .slots = options.slots,
                            .chunk = options.chunk,
                            .capacity = options.capacity,
                            .dtype = options.dtype,
                            .logits = options.logits};
  LOCKSTEP_TRY(families::Step prefill, build(spec, partition, shape));
  shape.phase = families::Phase::kDecode;
  LOCKSTEP_TRY(families::Step decode, build(spec, partition, shape));
  LOCKSTEP_TRY(graph::Graph prefill_graph, graph::run_passes(prefill.graph, passes));
  LOCKSTEP_TRY(graph::Graph decode_graph, graph::run_passes(decode.graph, passes));
  return ShardGraphs{std::move(prefill_graph), std::move(decode_graph), std::move(prefill.tensors)};
}

std::string collective_list(const ShardGraphs& graphs) {
  std::string text;
  for (const graph::Graph* graph : graphs.all()) {
    for (const graph::Node& node : graph->nodes) {
      const Shape& operand = graph->value(node.operands.front()).type.shape;
      if (node.op == graph::Op::kAllReduce) {
        text += fmt::format("{} all_reduce {}x{} blocks {}\n", graph->name, operand[1], operand[2],
                            fmt::join(node.integers("blocks"), ","));
      } else if (node.op == graph::Op::kAllGather) {
        text += fmt::format("{} all_gather {} rows, columns {}\n", graph->name, operand[0],
                            fmt::join(node.integers("parts"), ","));
      } else if (node.op == graph::Op::kAgree) {
        text += fmt::format("{} agree {} slots\n", graph->name, graph->slots);
      }
    }
  }
  return text;
}

Shard::Shard(ShardGraphs graphs, const ShardOptions& options, device::Communicator* communicator)
    : graphs_(std::move(graphs)),
      options_(options),
      communicator_(communicator),
      ids_(static_cast<size_t>(options.chunk)),
      slot_(ids_.size()),
      position_(ids_.size()),
      logit_rows_(static_cast<size_t>(options.slots)),
      stop_requests_(logit_rows_.size()),
      stop_scratch_(logit_rows_.size()),
      own_payload_(static_cast<size_t>(device::agreement_payload_bytes(options.slots))),
      payloads_(own_payload_.size() * static_cast<size_t>(communicator == nullptr ? 1 : communicator->size())) {
  const TensorType rows{DType::kInt32, {options.chunk}};
  for (const std::vector<int32_t>* input : {&ids_, &slot_, &position_}) {
    prefill_inputs_.push_back({rows, bytes_of(std::span(*input))});
  }
  prefill_inputs_.push_back({{DType::kInt32, {options.slots}}, bytes_of(std::span<const int32_t>(logit_rows_))});
}

Result<std::unique_ptr<Shard>> Shard::create(ShardGraphs graphs, const ShardOptions& options, device::Backend& backend,
                                             device::Communicator* communicator, const WeightSource& source) {
  LOCKSTEP_TRY_VOID(options.validate());
  std::unique_ptr<Shard> shard(new Shard(std::move(graphs), options, communicator));
  LOCKSTEP_TRY(shard->store_, backend.make_store(shard->graphs_.all()));
  LOCKSTEP_TRY(shard->replicated_, load_weights(shard->graphs_.decode, shard->graphs_.tensors, source, *shard->store_));
  const device::CompileOptions compile{.communicator = communicator};
  LOCKSTEP_TRY(shard->prefill_, backend.compile(shard->graphs_.prefill, *shard->store_, compile));
  LOCKSTEP_TRY(shard->decode_, backend.compile(shard->graphs_.decode, *shard->store_, compile));
  shard->rows_of_one_slot_ = backend.capabilities().rows_of_one_slot;
  LOCKSTEP_TRY_VOID(shard->find_states());
  return shard;
}

Result<void> Shard::find_states() {
  const std::pair<const char*, device::StateId*> wanted[] = {
      {"length", &states_.length},
      {"active", &states_.active},
      {"finished", &states_.finished},
      {"last_id", &states_.last_id},
      {"output_index", &states_.output_index},
      {"parameter_hash", &states_.parameter_hash},
      {"stop_request", &states_.stop_request},
      {"step", &states_.step},
      {"seen", &states_.seen},
      {"temperature", &states_.temperature},
      {"top_p", &states_.top_p},
      {"min_p", &states_.min_p},
      {"repetition_penalty", &states_.repetition_penalty},
      {"top_k", &states_.top_k},
      {"do_sample", &states_.do_sample},
      {"max_new_tokens", &states_.max_new_tokens},
      {"pad_id", &states_.pad_id},
      {"seed", &states_.seed},
      {"eos", &states_.eos},
  };
  for (const auto& [name, state] : wanted) {
    const auto found = store_->find_state(name);
    LOCKSTEP_CHECK(found.has_value(), name);
    *state = *found;
  }
  const auto seen = graphs_.decode.find("seen");
  LOCKSTEP_CHECK(seen.has_value());
  no_ids_seen_.assign(static_cast<size_t>(graphs_.decode.value(*seen).type.shape[1]), 0);
  return ok();
}

template <typename T>
Result<void> Shard::write(device::StateId state, int64_t index, std::span<const T> values) {
  return store_->write_state(state, index * static_cast<int64_t>(sizeof(T)), bytes_of(values));
}

template <typename T>
Result<void> Shard::write_one(device::StateId state, int64_t index, T value) {
  return write(state, index, std::span<const T>(&value, 1));
}

Result<void> Shard::check_slot(SlotId slot, const char* operation) const {
  if (slot.value >= 0 && slot.value < options_.slots) return ok();
  return invalid(fmt::format("cannot {} a slot: found slot {}, expected 0 to {}", operation, slot, options_.slots - 1));
}

Result<void> Shard::open_slot(SlotId slot, const SlotParameters& parameters) {
  LOCKSTEP_TRY_VOID(check_slot(slot, "open"));
  if (parameters.eos_ids.size() > sampling::kMaxEosIds || parameters.max_new_tokens < 1) {
    return invalid(
        fmt::format("cannot open slot {}: found {} eos ids and {} new tokens, expected at most {} and at "
                    "least 1",
                    slot, parameters.eos_ids.size(), parameters.max_new_tokens, sampling::kMaxEosIds));
  }
  const int64_t s = slot.value;
  const sampling::Parameters& draw = parameters.sampling;
  stop_requests_[static_cast<size_t>(s)].store(0, std::memory_order_relaxed);
  for (const device::StateId state : {states_.length, states_.active, states_.finished, states_.last_id,
                                      states_.output_index, states_.stop_request}) {
    LOCKSTEP_TRY_VOID(write_one<int32_t>(state, s, 0));
  }
  LOCKSTEP_TRY_VOID(write<uint8_t>(states_.seen, s * static_cast<int64_t>(no_ids_seen_.size()), no_ids_seen_));
  LOCKSTEP_TRY_VOID(write_one(states_.temperature, s, draw.temperature));
  LOCKSTEP_TRY_VOID(write_one(states_.top_p, s, draw.top_p));
  LOCKSTEP_TRY_VOID(write_one(states_.min_p, s, draw.min_p));
  LOCKSTEP_TRY_VOID(write_one(states_.repetition_penalty, s, draw.repetition_penalty));
  LOCKSTEP_TRY_VOID(write_one(states_.top_k, s, draw.top_k));
  LOCKSTEP_TRY_VOID(write_one<int32_t>(states_.do_sample, s, draw.do_sample ? 1 : 0));
  LOCKSTEP_TRY_VOID(write_one(states_.max_new_tokens, s, parameters.max_new_tokens));
  LOCKSTEP_TRY_VOID(write_one(states_.pad_id, s, parameters.pad_id));
  const int32_t seed[2] = {static_cast<int32_t>(draw.seed & 0xffffffffu), static_cast<int32_t>(draw.seed >> 32)};
  LOCKSTEP_TRY_VOID(write<int32_t>(states_.seed, 2 * s, seed));
  std::array<int32_t, sampling::kMaxEosIds> eos;
  eos.fill(-1);
  std::copy(parameters.eos_ids.begin(), parameters.eos_ids.end(), eos.begin());
  LOCKSTEP_TRY_VOID(write<int32_t>(states_.eos, sampling::kMaxEosIds * s, eos));
  const uint64_t hash = Fingerprint()
                            .add(sampling::fingerprint(draw))
                            .add_bytes(bytes_of<int32_t>(eos))
                            .add(parameters.max_new_tokens)
                            .add(parameters.pad_id)
                            .value();
  return write_one(states_.parameter_hash, s, static_cast<int32_t>(hash));
}

Result<void> Shard::close_slot(SlotId slot) {
  LOCKSTEP_TRY_VOID(check_slot(slot, "close"));
  for (const device::StateId state : {states_.length, states_.active, states_.finished}) {
    LOCKSTEP_TRY_VOID(write_one<int32_t>(state, slot.value, 0));
  }
  return ok();
}

Result<void> Shard::check_rows(const PrefillRows& rows) const {
  const size_t count = rows.ids.size();
  if (count > ids_.size() || rows.slot.size() != count || rows.position.size() != count ||
      rows.logit_rows.size() != logit_rows_.size()) {
    return invalid(fmt::format(
        "cannot prefill: found {} ids, {} slots, {} positions and {} logit rows, expected at most "
        "{} of each of the first three and {} logit rows",
        count, rows.slot.size(), rows.position.size(), rows.logit_rows.size(), ids_.size(), logit_rows_.size()));
  }
  const auto vocabulary = static_cast<int32_t>(no_ids_seen_.size());
  for (size_t row = 0; row < count; ++row) {
    const bool fits = rows.ids[row] >= 0 && rows.ids[row] < vocabulary && rows.slot[row] >= 0 &&
                      rows.slot[row] < options_.slots && rows.position[row] >= 0 &&
                      rows.position[row] < options_.capacity;
    if (!fits) {
      return invalid(fmt::format("cannot prefill row {}: found id {}, slot {}, position {}, expected below {}, {}, {}",
                                 row, rows.ids[row], rows.slot[row], rows.position[row], vocabulary, options_.slots,
                                 options_.capacity));
    }
  }
  return ok();
}

Result<void> Shard::write_step(StepTag tag) {
  const int32_t step[2] = {tag.schedule, tag.step};
  LOCKSTEP_TRY_VOID(write<int32_t>(states_.step, 0, step));
  for (size_t slot = 0; slot < stop_requests_.size(); ++slot) {
    stop_scratch_[slot] = stop_requests_[slot].load(std::memory_order_relaxed);
  }
  return write<int32_t>(states_.stop_request, 0, stop_scratch_);
}

Result<StepOutput> Shard::run(device::Executable& executable, std::span<const device::HostTensor> inputs) {
  LOCKSTEP_TRY_VOID(executable.run(inputs));
  const std::span<const std::byte> tokens = executable.output("tokens"), logits = executable.output("logits");
  return StepOutput{{reinterpret_cast<const int32_t*>(tokens.data()), tokens.size() / sizeof(int32_t)},
                    {reinterpret_cast<const float*>(logits.data()), logits.size() / sizeof(float)}};
}

Result<StepOutput> Shard::prefill(const PrefillRows& rows, StepTag tag) {
  LOCKSTEP_TRY_VOID(check_rows(rows));
  std::copy(rows.ids.begin(), rows.ids.end(), ids_.begin());
  std::copy(rows.slot.begin(), rows.slot.end(), slot_.begin());
  std::copy(rows.position.begin(), rows.position.end(), position_.begin());
  std::copy(rows.logit_rows.begin(), rows.logit_rows.end(), logit_rows_.begin());
  const auto used = static_cast<std::ptrdiff_t>(rows.ids.size());
  std::fill(ids_.begin() + used, ids_.end(), 0);
  std::fill(slot_.begin() + used, slot_.end(), -1);
  std::fill(position_.begin() + used, position_.end(), 0);
  for (size_t slot = 0; slot < logit_rows_.size(); ++slot) {
    if (logit_rows_[slot] >= 0) LOCKSTEP_TRY_VOID(write_one<int32_t>(states_.active, static_cast<int64_t>(slot), 1));
  }
  LOCKSTEP_TRY_VOID(write_step(tag));
  return run(*prefill_, prefill_inputs_);
}

Result<StepOutput> Shard::decode(StepTag tag) {
  LOCKSTEP_TRY_VOID(write_step(tag));
  return run(*decode_, {});
}

bool Shard::all_finished() const {
  for (int64_t slot = 0; slot < options_.slots; ++slot) {
    int32_t active = 0, finished = 0;
    const auto offset = slot * static_cast<int64_t>(sizeof(int32_t));
    const auto read = [&](device::StateId state, int32_t& value) {
      LOCKSTEP_CHECK(store_->read_state(state, offset, std::as_writable_bytes(std::span(&value, 1))).has_value());
    };
    read(states_.active, active);
    read(states_.finished, finished);
    if (active != 0 && finished == 0) return false;
  }
  return true;
}

Result<void> Shard::confirm(StepTag tag) {
  if (communicator_ == nullptr) return ok();
  const auto read = [&](device::StateId state) -> Result<std::vector<int32_t>> {
    std::vector<int32_t> values(logit_rows_.size());
    LOCKSTEP_TRY_VOID(store_->read_state(state, 0, std::as_writable_bytes(std::span(values))));
    return values;
  };
  LOCKSTEP_TRY(const std::vector<int32_t> last_id, read(states_.last_id));
  LOCKSTEP_TRY(const std::vector<int32_t> length, read(states_.length));
  LOCKSTEP_TRY(const std::vector<int32_t> output_index, read(states_.output_index));
  LOCKSTEP_TRY(const std::vector<int32_t> parameter_hash, read(states_.parameter_hash));
  const int32_t step[2] = {tag.schedule, tag.step};
  const uint64_t checksum = device::agreement_checksum({.step = step,
                                                        .last_id = last_id,
                                                        .length = length,
                                                        .output_index = output_index,
                                                        .parameter_hash = parameter_hash});
  device::write_agreement_payload(checksum, stop_scratch_, own_payload_);
  const std::vector<int64_t> counts(static_cast<size_t>(communicator_->size()),
                                    static_cast<int64_t>(own_payload_.size()));
  LOCKSTEP_TRY_VOID(communicator_->all_gather(own_payload_, counts, payloads_, device::Stream::host()));
  if (device::payloads_agree(payloads_, communicator_->size(), options_.slots)) return ok();
  return device::disagreement_error("shards", step, payloads_, communicator_->size(), options_.slots);
}

void Shard::request_stop(SlotId slot) {
  LOCKSTEP_CHECK(slot.value >= 0 && slot.value < options_.slots, slot.value, options_.slots);
  stop_requests_[static_cast<size_t>(slot.value)].store(1, std::memory_order_relaxed);
}

}  // namespace lockstep::shards
