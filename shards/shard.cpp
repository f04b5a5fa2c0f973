#include "shards/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/check.h"
#include "runtime/device/agreement.h"
#include "runtime/device/slot_transfer.h"
#include "shards/buckets.h"
#include "shards/step_checks.h"

namespace lockstep::shards {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 40;  // tokens: more than any cache has

/// The tokens kept by the caches of a graph: a ring of R rows holds the last R positions, of which a window of W needs
/// W − 1. What recurrent layers carry allows a few positions back.
KeptTokens kept_tokens_of(const graph::Graph& graph) {
  KeptTokens kept{.whole = kNoLimit, .rewind = kNoLimit};
  for (const graph::Node& node : graph.nodes) {
    if (node.op == graph::Op::kCausalConv) {  // a ring of R inputs, of which W taps need W − 1
      const int64_t rows = graph.value(node.operands[2]).type.shape[1];
      kept.whole = std::min(kept.whole, rows);
      kept.rewind = std::min(kept.rewind, rows - (graph.value(node.operands[1]).type.shape[1] - 1));
    }
    if (node.op == graph::Op::kGatedDeltaRule) {  // the last two blocks
      const int64_t block = graph.value(node.operands[4]).type.shape[3];
      kept.whole = std::min(kept.whole, 2 * block);
      kept.rewind = std::min(kept.rewind, block);
    }
    if (node.op != graph::Op::kAttention || !node.has("window")) continue;
    const int64_t rows = graph.value(node.operands[1]).type.shape[2];
    const int64_t pinned = node.integer_or("pinned", 0);
    kept.whole = std::min(kept.whole, rows);
    kept.rewind = std::min(kept.rewind, std::max<int64_t>(rows - pinned - (node.integer("window") - 1), 0));
  }
  return kept;
}

/// The compiled sizes. Where steps cost their rows in use, parts of the one size too; but if sums depend on a step's
/// rows, all chunks have one size, so that answers do not depend on the chosen sizes.
std::vector<int64_t> sizes_of_chunks(const ShardOptions& options, const device::Capabilities& backend) {
  if (!backend.invariant_sums) return {options.chunk};
  if (!options.context_buckets.empty()) return options.context_buckets;
  return backend.bounded_attention ? parts_of_chunk(options.chunk) : std::vector<int64_t>{options.chunk};
}

}  // namespace

Shard::Shard(ShardGraphs graphs, const ShardOptions& options, device::Communicator* communicator)
    : graphs_(std::move(graphs)),
      options_(options),
      communicator_(communicator),
      prefill_sizes_(options.prefill_sizes()),
      stop_requests_(static_cast<size_t>(options.slots)),
      stop_scratch_(stop_requests_.size()),
      decision_payload_(3 * stop_requests_.size()),
      own_payload_(static_cast<size_t>(device::agreement_payload_bytes(options.slots))),
      payloads_(own_payload_.size() * static_cast<size_t>(communicator == nullptr ? 1 : communicator->size())) {
  prefill_inputs_.reserve(graphs_.prefill.size());  // the tensors are views of these vectors
  for (const graph::Graph& graph : graphs_.prefill) prefill_inputs_.emplace_back(graph);
  verify_inputs_.reserve(1);
  if (!graphs_.verify.empty()) verify_inputs_.emplace_back(graphs_.verify.front());
  score_inputs_.reserve(1);
  if (!graphs_.score.empty()) score_inputs_.emplace_back(graphs_.score.front());
}

Result<std::unique_ptr<Shard>> Shard::create(ShardGraphs graphs, const ShardOptions& options, device::Backend& backend,
                                             device::Communicator* communicator, const WeightSource& source,
                                             PartSums* sums) {
  LOCKSTEP_TRY_VOID(options.validate());
  std::unique_ptr<Shard> shard(new Shard(std::move(graphs), options, communicator));
  LOCKSTEP_TRY(shard->store_, backend.make_store(shard->graphs_.steps()));
  LOCKSTEP_TRY_VOID(load_weights(shard->graphs_.decode.front(), shard->graphs_.tensors, source, *shard->store_, sums));
  LOCKSTEP_TRY_VOID(shard->compile(backend));
  shard->states_ = std::make_unique<SlotStates>(*shard->store_, options.slots, shard->graphs_.vocabulary());
  return shard;
}

Result<void> Shard::compile(device::Backend& backend) {
  for (const device::StepGraph& step : graphs_.steps()) {
    LOCKSTEP_TRY(executables_.emplace_back(), backend.compile(step, *store_, {.communicator = communicator_}));
    replays_.push_back(0);
  }
  rows_of_one_slot_ = backend.capabilities().rows_of_one_slot;
  // If sums depend on neighbouring rows, a kept prefix would not have the bits of a new prefill.
  if (backend.capabilities().invariant_sums) kept_ = kept_tokens_of(graphs_.decode.front());
  chunk_sizes_ = sizes_of_chunks(options_, backend.capabilities());
  return ok();
}

int64_t Shard::embedding_size() const { return prefill_inputs_.front().embedding_size(); }

StepBounds Shard::bounds() const {
  return {.slots = options_.slots,
          .chunk = options_.chunk,
          .score_rows = options_.score_rows,
          .capacity = options_.capacity,
          .vocabulary = states_->vocabulary(),
          .embedding_size = embedding_size()};
}

Result<void> Shard::open_slot(SlotId slot, const SlotParameters& parameters) {
  LOCKSTEP_TRY_VOID(check_slot(slot, options_.slots, "open"));
  stop_requests_[static_cast<size_t>(slot.value)].store(0, std::memory_order_relaxed);
  return states_->open(slot, parameters);
}

Result<void> Shard::close_slot(SlotId slot) {
  LOCKSTEP_TRY_VOID(check_slot(slot, options_.slots, "close"));
  return states_->close(slot);
}

Result<void> Shard::save_slot(SlotCopy copy, int64_t tokens) {
  LOCKSTEP_TRY_VOID(check_slot(copy.src, options_.slots, "save"));
  LOCKSTEP_TRY_VOID(check_slot(copy.dst, options_.slots, "save to"));
  return copy_cache(copy, tokens);
}

Result<void> Shard::begin_with(SlotId slot, const KeptPrefix& prefix) {
  LOCKSTEP_TRY_VOID(check_slot(slot, options_.slots, "go on in"));
  LOCKSTEP_TRY_VOID(check_slot(prefix.source, options_.slots, "go on from"));
  LOCKSTEP_CHECK(std::ssize(prefix.ids) <= options_.capacity, prefix.ids.size());
  if (prefix.source != slot) LOCKSTEP_TRY_VOID(copy_cache({prefix.source, slot}, std::ssize(prefix.ids)));
  return states_->begin_with(slot, prefix.ids);
}

Result<void> Shard::copy_slot(const SlotCopy& copy) {
  LOCKSTEP_TRY_VOID(check_slot(copy.src, options_.slots, "copy"));
  LOCKSTEP_TRY_VOID(check_slot(copy.dst, options_.slots, "copy to"));
  LOCKSTEP_TRY(const SlotProgress progress, states_->progress(copy.src));
  LOCKSTEP_TRY_VOID(copy_cache(copy, progress.length));
  return states_->copy(copy.src, copy.dst);
}

Result<void> Shard::copy_cache(const SlotCopy& copy, int64_t tokens) {
  const int64_t each = graphs_.cache_slots();
  if (each == options_.slots) return store_->copy_slot(copy.src.value, copy.dst.value, tokens);
  const int64_t rank = communicator_->rank(), from = copy.src.value / each, to = copy.dst.value / each;
  const int64_t src = copy.src.value % each, dst = copy.dst.value % each;
  if (from == to) return rank == from ? store_->copy_slot(src, dst, tokens) : Result<void>(ok());
  auto* const carrier = dynamic_cast<device::SlotTransfer*>(store_.get());
  if (carrier == nullptr) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[shards] cannot copy slot {} of rank {} to slot {} of rank {}: found a backend whose slots "
                    "stay on their rank, expected one that hands them over; take another mode of --gqa",
                    copy.src, from, copy.dst, to)};
  }
  carried_.resize(static_cast<size_t>(carrier->slot_bytes(tokens)));
  if (rank == from) LOCKSTEP_TRY_VOID(carrier->take_slot(src, tokens, carried_));
  LOCKSTEP_TRY_VOID(communicator_->broadcast(carried_, static_cast<int>(from), device::Stream::host()));
  return rank == to ? carrier->put_slot(dst, tokens, carried_) : Result<void>(ok());
}

Result<void> Shard::write_step(StepTag tag) {
  for (size_t slot = 0; slot < stop_requests_.size(); ++slot) {
    stop_scratch_[slot] = stop_requests_[slot].load(std::memory_order_relaxed);
  }
  return states_->write_step(tag, stop_scratch_);
}

void Shard::note_rows(std::span<const int32_t> ids, std::span<const int32_t> slots,
                      std::span<const int32_t> positions) {
  for (size_t row = 0; row < ids.size(); ++row) {
    if (slots[row] < 0) continue;
    states_->note(SlotId(slots[row]),
                  static_cast<uint32_t>(ids[row]) | uint64_t{static_cast<uint32_t>(positions[row])} << 32);
  }
}

void Shard::time_device() {
  for (const auto& executable : executables_) executable->time_device();
}

device::DeviceTime Shard::device_time() const {
  device::DeviceTime time;
  for (const auto& executable : executables_) time += executable->device_time();
  return time;
}

Result<StepOutput> Shard::run(size_t executable, std::span<const device::HostTensor> inputs) {
  device::Executable& replayed = *executables_[executable];
  LOCKSTEP_TRY_VOID(replayed.run(inputs));
  ++replays_[executable];
  const std::span<const std::byte> tokens = replayed.output("tokens"), logits = replayed.output("logits");
  return StepOutput{{reinterpret_cast<const int32_t*>(tokens.data()), tokens.size() / sizeof(int32_t)},
                    {reinterpret_cast<const float*>(logits.data()), logits.size() / sizeof(float)}};
}

Result<StepOutput> Shard::prefill(const PrefillRows& rows, StepTag tag) {
  LOCKSTEP_TRY_VOID(check_prefill(rows, bounds()));
  for (const SlotCopy& copy : rows.copies) LOCKSTEP_TRY_VOID(copy_slot(copy));
  const int64_t last = rows.position.empty() ? 0 : std::ranges::max(rows.position);
  const size_t chosen = smallest_prefill(prefill_sizes_, {.rows = std::ssize(rows.ids), .bound = last + 1});
  RowInputs& inputs = prefill_inputs_[chosen];
  inputs.set(rows.ids, rows.slot, rows.position);
  std::ranges::copy(rows.logit_rows, inputs.logit_rows.begin());
  inputs.set_embeddings(rows);
  note_rows(rows.ids, rows.slot, rows.position);
  if (!rows.embeddings.empty()) {
    const auto bytes = std::as_bytes(std::span(rows.embeddings));
    states_->note(SlotId(rows.slot.front()), sum_of_rows(bytes, std::ssize(bytes), {}).mixed);
  }
  for (size_t slot = 0; slot < rows.logit_rows.size(); ++slot) {
    if (rows.logit_rows[slot] >= 0) LOCKSTEP_TRY_VOID(states_->activate(SlotId(static_cast<int32_t>(slot))));
  }
  LOCKSTEP_TRY_VOID(write_step(tag));
  return run(chosen, inputs.tensors);
}

Result<ScoreOutput> Shard::score(const ScoreRows& rows, StepTag tag) {
  LOCKSTEP_CHECK(!graphs_.score.empty());
  LOCKSTEP_TRY_VOID(check_score(rows, bounds()));
  RowInputs& inputs = score_inputs_.front();
  inputs.set(rows.ids, rows.slot, rows.position);
  std::ranges::copy(rows.targets, inputs.targets.begin());
  for (size_t row = 0; row < rows.slot.size(); ++row) {  // compared between ranks: a slot's last row
    inputs.logit_rows[static_cast<size_t>(rows.slot[row])] = static_cast<int32_t>(row);
  }
  note_rows(rows.ids, rows.slot, rows.position);
  note_rows(rows.targets, rows.slot, rows.position);
  LOCKSTEP_TRY_VOID(write_step(tag));
  const int64_t last = rows.position.empty() ? 0 : std::ranges::max(rows.position);
  const size_t chosen = graphs_.score.size() > 1 ? smallest_bucket(options_.token_buckets, last + 1) : 0;
  const size_t executable = executables_.size() - graphs_.score.size() + chosen;
  LOCKSTEP_TRY(const StepOutput output, run(executable, inputs.tensors));
  const std::span<const std::byte> scores = executables_[executable]->output("scores");
  const int64_t columns = 1 + 2 * options_.score_top;
  return ScoreOutput{
      std::span(reinterpret_cast<const float*>(scores.data()), scores.size() / sizeof(float))
          .first(rows.ids.size() * static_cast<size_t>(columns)),
      columns,
      output.logits.first(output.logits.empty() ? 0 : rows.ids.size() * static_cast<size_t>(states_->vocabulary()))};
}

/// The smallest decode graph for all running slots and their next positions.
Result<size_t> Shard::decode_graph() const {
  if (graphs_.decode.size() == 1) return size_t{0};
  int64_t longest = 0, batch = 0;
  for (int32_t slot = 0; slot < options_.slots; ++slot) {
    LOCKSTEP_TRY(const bool runs, states_->runs(SlotId(slot)));
    if (!runs) continue;
    LOCKSTEP_TRY(const SlotProgress progress, states_->progress(SlotId(slot)));
    longest = std::max<int64_t>(longest, progress.length + 1);
    batch = slot + 1;
  }
  const size_t lengths = std::max<size_t>(1, options_.token_buckets.size());
  return smallest_bucket(options_.batch_sizes, batch) * lengths + smallest_bucket(options_.token_buckets, longest);
}

Result<StepOutput> Shard::decode(StepTag tag) {
  LOCKSTEP_TRY(const size_t chosen, decode_graph());
  LOCKSTEP_TRY_VOID(write_step(tag));
  return run(graphs_.prefill.size() + chosen, {});
}

Result<StepOutput> Shard::verify(std::span<const int32_t> drafted, StepTag tag) {
  LOCKSTEP_CHECK(!graphs_.verify.empty() && std::ssize(drafted) == options_.slots * options_.drafts, drafted.size());
  const int64_t width = 1 + options_.drafts;
  RowInputs& inputs = verify_inputs_.front();
  inputs.clear();
  int64_t longest = 0;
  for (int32_t slot = 0; slot < options_.slots; ++slot) {
    LOCKSTEP_TRY(const SlotProgress progress, states_->progress(SlotId(slot)));
    if (!progress.runs()) continue;
    inputs.logit_rows[static_cast<size_t>(slot)] = static_cast<int32_t>(slot * width);
    longest = std::max(longest, std::min(progress.length + width, options_.capacity));
    int32_t id = progress.last_id;
    for (int64_t i = 0; i < width && id >= 0 && progress.length + i < options_.capacity; ++i) {
      const auto row = static_cast<size_t>(slot * width + i);
      inputs.ids[row] = id;
      inputs.slot[row] = slot;
      inputs.position[row] = progress.length + static_cast<int32_t>(i);
      if (i + 1 < width) id = drafted[static_cast<size_t>(slot * options_.drafts + i)];
    }
  }
  note_rows(inputs.ids, inputs.slot, inputs.position);
  LOCKSTEP_TRY_VOID(write_step(tag));
  const bool is_bucketed = graphs_.verify.size() > 1;
  const size_t chosen = is_bucketed ? smallest_bucket(options_.token_buckets, longest) : 0;
  return run(graphs_.prefill.size() + graphs_.decode.size() + chosen, inputs.tensors);
}

Result<void> Shard::follow(SlotId slot, const Shard& other) {
  LOCKSTEP_TRY(const SlotProgress progress, other.progress(slot));
  LOCKSTEP_TRY_VOID(states_->set_progress(slot, progress));
  return states_->copy_seen(*other.states_, slot);
}

Result<void> Shard::share(Decision& decision) {
  const auto part = [&](size_t index) {
    return decision_payload_.begin() + static_cast<std::ptrdiff_t>(index * stop_requests_.size());
  };
  const auto parts = {&decision.tokens, &decision.sources, &decision.finished};
  if (communicator_ == nullptr || communicator_->rank() == 0) {
    LOCKSTEP_TRY_VOID(check_decision(decision, bounds()));
    size_t index = 0;
    for (const std::vector<int32_t>* values : parts) std::ranges::copy(*values, part(index++));
  }
  if (communicator_ == nullptr) return ok();
  LOCKSTEP_TRY_VOID(communicator_->broadcast(std::as_writable_bytes(std::span(decision_payload_)), /*root=*/0,
                                             device::Stream::host()));
  size_t index = 0;
  for (std::vector<int32_t>* values : parts) {
    values->assign(part(index), part(index + 1));
    ++index;
  }
  return ok();
}

Result<void> Shard::decide(Decision& decision) {
  LOCKSTEP_TRY_VOID(share(decision));
  const auto slots = static_cast<int32_t>(options_.slots);
  for (int32_t slot = 0; slot < slots; ++slot) {
    const int32_t source = decision.sources[static_cast<size_t>(slot)];
    if (source != slot) LOCKSTEP_TRY_VOID(copy_slot({SlotId(source), SlotId(slot)}));
  }
  for (int32_t slot = 0; slot < slots; ++slot) {
    const int32_t token = decision.tokens[static_cast<size_t>(slot)];
    const bool finishes = decision.finished[static_cast<size_t>(slot)] != 0;
    if (token < 0 && !finishes) continue;
    LOCKSTEP_TRY(SlotProgress progress, states_->progress(SlotId(slot)));
    if (token >= 0) progress.last_id = token;
    if (finishes) progress.finished = 1;
    LOCKSTEP_TRY_VOID(states_->set_progress(SlotId(slot), progress));
  }
  return ok();
}

bool Shard::all_finished() const {
  for (int32_t slot = 0; slot < options_.slots; ++slot) {
    const Result<bool> runs = states_->runs(SlotId(slot));
    LOCKSTEP_CHECK(runs.has_value());
    if (runs.value()) return false;
  }
  return true;
}

Result<void> Shard::confirm(StepTag tag) {
  if (communicator_ == nullptr) return ok();
  LOCKSTEP_TRY(const uint64_t checksum, states_->checksum(tag));
  device::write_agreement_payload(checksum, stop_scratch_, own_payload_);
  const std::vector<int64_t> counts(static_cast<size_t>(communicator_->size()),
                                    static_cast<int64_t>(own_payload_.size()));
  LOCKSTEP_TRY_VOID(communicator_->all_gather(own_payload_, counts, payloads_, device::Stream::host()));
  if (device::payloads_agree(payloads_, communicator_->size(), options_.slots)) return ok();
  const int32_t step[2] = {tag.schedule, tag.step};
  return device::disagreement_error("shards", step, payloads_, communicator_->size(), options_.slots);
}

void Shard::request_stop(SlotId slot) {
  LOCKSTEP_CHECK(slot.value >= 0 && slot.value < options_.slots, slot.value, options_.slots);
  stop_requests_[static_cast<size_t>(slot.value)].store(1, std::memory_order_relaxed);
}

}  // namespace lockstep::shards
