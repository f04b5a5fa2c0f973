#include "runtime/backends/cuda/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "runtime/backends/cuda/kernel_set.h"

namespace lockstep::cuda {
namespace {

using graph::Op;
using graph::ValueId;

/// How long kernels may take to notice that they are to give up.
Duration time_to_give_up(Duration deadline) { return std::min<Duration>(std::chrono::seconds(5), 5 * deadline); }

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/cuda] " + std::move(message)};
}

}  // namespace

Result<std::unique_ptr<Executable>> Executable::compile(const graph::Graph& graph, Store& store,
                                                        const RankDevice& device, device::Communicator* communicator) {
  std::unique_ptr<Executable> executable(new Executable(graph, store, device, communicator));
  LOCKSTEP_TRY_VOID(executable->check_communicator());
  LOCKSTEP_TRY_VOID(device.context->make_current());
  LOCKSTEP_TRY_VOID(executable->make_memory());
  LOCKSTEP_TRY_VOID(executable->make_host_operations());
  executable->add_slot_rows();
  LOCKSTEP_TRY_VOID(executable->prepare_matmuls());
  LOCKSTEP_TRY_VOID(executable->capture());
  LOCKSTEP_TRY(executable->timer_, StepTimer::create(*device.context, *device.limit.clock));
  // A kernel that waits for a rank holds up calls of that rank: the driver frees memory once the device has no work,
  // and lets no other thread launch meanwhile. So no rank returns from here before every rank has compiled.
  if (graph.ranks > 1) LOCKSTEP_TRY_VOID(communicator->barrier(device::Stream::host()));
  return executable;
}

Executable::~Executable() { store_.remove_workspace(reported_bytes_); }

Result<void> Executable::check_communicator() const {
  if (graph_.ranks == 1) return ok();
  if (communicator_ != nullptr && communicator_->size() == graph_.ranks && communicator_->rank() == graph_.rank) {
    return ok();
  }
  const std::string found = communicator_ == nullptr ? std::string("no communicator")
                                                     : fmt::format("rank {} of a communicator of {}",
                                                                   communicator_->rank(), communicator_->size());
  return invalid(fmt::format("cannot compile {}: found {}, expected rank {} of {}", graph_.name, found, graph_.rank,
                             graph_.ranks));
}

Result<void> Executable::make_memory() {
  const cu::Context& context = *device_.context;
  bases_.hosts = graph_.ranks > 1 ? *device_.hosts : device::one_host(1);
  LOCKSTEP_TRY(const StepPlan sizes, plan_step(graph_, store_.layout(), bases_, device_.options));
  LOCKSTEP_TRY(workspace_, cu::DeviceMemory::create(context, Bytes(sizes.workspace_bytes), "a step's results"));
  const Bytes table_bytes(std::ssize(sizes.tables));
  LOCKSTEP_TRY(tables_, cu::DeviceMemory::create(context, table_bytes, "a step's tables"));
  LOCKSTEP_TRY(head_device_, cu::DeviceMemory::create(context, Bytes(sizes.head_bytes), "a step's inputs"));
  LOCKSTEP_TRY(head_, cu::PinnedMemory::create(context, Bytes(sizes.head_bytes), "a step's inputs"));
  std::ranges::fill(head_.host(), std::byte{0});  // counts of arrivals stay so
  LOCKSTEP_TRY(tail_, cu::PinnedMemory::create(context, Bytes(sizes.tail_bytes), "a step's outputs"));
  LOCKSTEP_TRY(control_, cu::PinnedMemory::create(context, Bytes(sizeof(Control)), "the end of waits"));
  host_memory_.resize(static_cast<size_t>(sizes.host_bytes));
  bases_ = {.weights = store_.weights().value,
            .caches = store_.caches().value,
            .workspace = workspace_.address().value,
            .tables = tables_.address().value,
            .head = head_device_.address().value,
            .control = control_.device().value,
            .patience = static_cast<uint64_t>(device_.limit.deadline.count()),
            .hosts = bases_.hosts,
            .multiprocessors = context.device().multiprocessors,
            .starts_early = device_.early_launches};
  if (graph_.ranks > 1) {
    LOCKSTEP_TRY(peers_, PeerMemory::map(device_, *communicator_, sizes.half_bytes));
    bases_.areas = peers_.areas();
    bases_.halves = peers_.halves();
    bases_.blocks = peers_.blocks();
    // Blocks that wait early may fill a GPU before those of another rank, for which a kernel waits.
    bases_.starts_early &= !peers_.share_device() && bases_.hosts.count() == 1;
  }
  LOCKSTEP_TRY(plan_, plan_step(graph_, store_.layout(), bases_, device_.options));
  if (table_bytes.value > 0) {
    LOCKSTEP_TRY(const cu::PinnedMemory pinned, cu::PinnedMemory::create(context, table_bytes, "a step's tables"));
    std::ranges::copy(plan_.tables, pinned.host().begin());
    LOCKSTEP_TRY_VOID(device_.stream->copy_to_device(tables_.address(), pinned.host()));
    LOCKSTEP_TRY_VOID(device_.stream->wait(device_.limit));
  }
  plan_.tables = {};
  reported_bytes_ = sizes.workspace_bytes + table_bytes.value + sizes.head_bytes + peers_.bytes();
  store_.add_workspace(reported_bytes_);
  return ok();
}

std::byte* Executable::host_address(ValueId value) const {
  const HostPlace& place = plan_.host[static_cast<size_t>(value.value)];
  switch (place.home) {
    case HostPlace::Home::kHead: return head_.host().data() + place.offset;
    case HostPlace::Home::kTail: return tail_.host().data() + place.offset;
    case HostPlace::Home::kHost: return const_cast<std::byte*>(host_memory_.data()) + place.offset;
    case HostPlace::Home::kState: return store_.dense_state(*store_.layout().state(graph_.value(value).name));
    case HostPlace::Home::kNone: break;
  }
  return nullptr;
}

std::span<const int32_t> Executable::ints(ValueId value, int64_t count) const {
  return {reinterpret_cast<const int32_t*>(host_address(value)), static_cast<size_t>(count)};
}

Result<void> Executable::make_host_operations() {
  inputs_ = graph_.values_of(graph::ValueKind::kInput);
  HostMemory memory{
      .graph = graph_, .at = [this](ValueId value) { return host_address(value); }, .communicator = communicator_};
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (plan_.places[i] == Place::kBody) continue;
    const int64_t sample = plan_.hidden_samples[i];
    memory.hidden_sample = sample < 0 ? nullptr : tail_.host().data() + sample;
    LOCKSTEP_TRY(HostOperation operation, host_operation(graph_.nodes[i], memory));
    (plan_.places[i] == Place::kPrologue ? prologue_ : epilogue_).push_back(std::move(operation));
  }
  return ok();
}

void Executable::add_slot_rows() {
  std::vector<std::tuple<ValueId, ValueId, device::RowLimits>> known;
  const auto add_check = [&](ValueId slot, ValueId position, int64_t rows, const device::RowLimits& limits) {
    if (std::ranges::find(known, std::tuple(slot, position, limits)) != known.end()) return;
    known.emplace_back(slot, position, limits);
    checks_.push_back({slot, position, rows, device::RowCheck("runtime/backends/cuda", limits)});
  };
  for (const graph::Node& node : graph_.nodes) {
    const std::optional<size_t> operand = graph::slot_operand(node.op);
    if (!operand) continue;
    const ValueId slot = node.operands[*operand], position = node.operands[*operand + 1];
    const int64_t rows = graph_.value(slot).type.shape.elements();
    if (graph::is_recurrence(node.op)) {
      for (const ValueId id : graph::sequence_states(node)) {
        const StateLayout* state = store_.layout().state(graph_.value(id).name);
        written_.push_back({state, slot, position, rows});
        add_check(slot, position, rows,
                  {.slots = state->type.shape[0], .positions = std::numeric_limits<int32_t>::max(), .in_runs = true});
      }
      continue;
    }
    const StateLayout* cache = store_.layout().state(graph_.value(node.operands[1]).name);
    if (node.op == Op::kKvAppend) {
      add_check(slot, position, rows, cache->cache->held.of_append());
      written_.push_back({cache, slot, position, rows});
    } else {
      add_check(slot, position, rows,
                cache->cache->held.of_attention(node.integer_or("window", 0), node.integer_or("pinned", 0)));
    }
  }
}

Result<void> Executable::gather_between_hosts(const HostGather& gather) {
  return device_.exchange->all_gather(reinterpret_cast<const void*>(gather.from), gather.bytes,
                                      reinterpret_cast<void*>(gather.to), {device_.stream->native()});
}

Result<void> Executable::enqueue() {
  LOCKSTEP_TRY_VOID(device_.stream->copy_to_device(head_device_.address(), head_.host()));
  size_t matmul = 0;
  auto gather = plan_.gathers.begin();
  for (size_t i = 0; i < plan_.launches.size(); ++i) {
    for (; gather != plan_.gathers.end() && gather->launch == i; ++gather) {
      LOCKSTEP_TRY_VOID(gather_between_hosts(*gather));
    }
    const Launch& one = plan_.launches[i];
    if (one.matmul) {
      LOCKSTEP_TRY_VOID(matmuls_[matmul++]->enqueue(*device_.stream, blas_workspace_.address()));
      continue;
    }
    LOCKSTEP_TRY_VOID(
        cu::launch(*device_.stream, device_.kernels->kernel(one.kernel), one.shape, one.parameters.data()));
  }
  for (const TailCopy& copy : plan_.copies) {
    const std::span<std::byte> dst =
        tail_.host().subspan(static_cast<size_t>(copy.to), static_cast<size_t>(copy.bytes));
    LOCKSTEP_TRY_VOID(device_.stream->copy_to_host(dst, {copy.from}));
  }
  return ok();
}

/// Gathers once what the graph will gather, of no meaning yet: nothing is connected or allocated in a capture.
Result<void> Executable::connect_hosts() {
  Result<void> gathered = ok();
  for (const HostGather& gather : plan_.gathers) {
    if (gathered.has_value()) gathered = gather_between_hosts(gather);
  }
  if (gathered.has_value()) return wait_for_ranks();
  end_waits();
  return gathered;
}

Result<void> Executable::prepare_matmuls() {
  for (const Launch& one : plan_.launches) {
    if (!one.matmul) continue;
    LOCKSTEP_TRY(matmuls_.emplace_back(), cu::Matmul::create(*device_.blas, *one.matmul));
  }
  if (matmuls_.empty()) return ok();
  constexpr Bytes kWorkspace(cu::Matmul::kWorkspaceBytes);
  LOCKSTEP_TRY(blas_workspace_, cu::DeviceMemory::create(*device_.context, kWorkspace, "products of cuBLASLt"));
  reported_bytes_ += kWorkspace.value;
  store_.add_workspace(kWorkspace.value);
  return ok();
}

Result<void> Executable::capture() {
  if (!plan_.gathers.empty()) LOCKSTEP_TRY_VOID(connect_hosts());
  LOCKSTEP_TRY_VOID(device_.stream->begin_capture());
  const Result<void> enqueued = enqueue();
  Result<std::unique_ptr<cu::CapturedGraph>> captured = device_.stream->end_capture();  // also after an error
  LOCKSTEP_TRY_VOID(enqueued);
  LOCKSTEP_TRY(captured_, std::move(captured));
  plan_.launches.clear();
  plan_.gathers.clear();
  return device_.stream->wait(device_.limit);
}

Result<void> Executable::take_inputs(std::span<const device::HostTensor> inputs) {
  if (inputs.size() != inputs_.size()) {
    return invalid(
        fmt::format("cannot run {}: found {} inputs, expected {}", graph_.name, inputs.size(), inputs_.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Value& wanted = graph_.value(inputs_[i]);
    if (inputs[i].type == wanted.type && std::ssize(inputs[i].bytes) == wanted.type.bytes()) continue;
    return invalid(fmt::format(
        "cannot run {}: input {}: found {} ({} bytes), expected {}; shapes are fixed at compilation", graph_.name,
        wanted.name, to_string(inputs[i].type), inputs[i].bytes.size(), to_string(wanted.type)));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].bytes.empty()) std::memcpy(host_address(inputs_[i]), inputs[i].bytes.data(), inputs[i].bytes.size());
  }
  return ok();
}

Result<void> Executable::prepare_rows() {
  int64_t in_use = graph_.rows;
  if (plan_.slot_of_rows) {
    const std::span<const int32_t> slots = ints(*plan_.slot_of_rows, graph_.rows);
    while (in_use > 0 && slots[static_cast<size_t>(in_use - 1)] < 0) --in_use;
  }
  for (Check& check : checks_) {
    LOCKSTEP_TRY_VOID(check.check.run(ints(check.slot, check.rows), ints(check.position, check.rows)));
  }
  for (const WrittenRows& written : written_) {
    LOCKSTEP_TRY_VOID(
        store_.prepare_rows(*written.state, ints(written.slot, written.rows), ints(written.position, written.rows)));
  }
  const HeadWords words{step_++, static_cast<int32_t>(in_use)};
  std::memcpy(head_.host().data(), &words, sizeof words);
  for (size_t i = 0; i < plan_.state_mirrors.size(); ++i) {
    if (plan_.state_mirrors[i] < 0) continue;
    const auto bytes = static_cast<size_t>(graph_.values[i].type.bytes());
    std::memcpy(head_.host().data() + plan_.state_mirrors[i], host_address(ValueId(static_cast<int32_t>(i))), bytes);
  }
  return ok();
}

/// A word of Control, which kernels look at or write meanwhile.
std::atomic_ref<uint32_t> Executable::control_word(size_t offset) const {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(control_.host().data() + offset));
}

/// Ends what waits for other ranks.
void Executable::end_waits() {
  control_word(offsetof(Control, abort)).store(1, std::memory_order_release);
  if (device_.exchange != nullptr) device_.exchange->abort();
  const Duration most = time_to_give_up(device_.limit.deadline);
  (void)device_.stream->wait({.clock = device_.limit.clock, .deadline = most, .abort = nullptr, .check = {}});
}

Error Executable::missing_rank(int rank) const {
  Error error{
      ErrorKind::kDeadlineExceeded,
      fmt::format("[runtime/backends/cuda] rank {}: a sum over ranks of {} did not end: found nothing from rank "
                  "{} for {:.3g} s, expected its part; look at that rank, or raise --deadline-s",
                  graph_.rank, graph_.name, rank, to_seconds(device_.limit.deadline))};
  error.origin_rank = rank;
  return error;
}

Error Executable::missing_hosts() const {
  std::vector<int> others;
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    const auto host = [&](int of) { return device_.hosts->host_of[static_cast<size_t>(of)]; };
    if (host(rank) != host(graph_.rank)) others.push_back(rank);
  }
  Error error{ErrorKind::kDeadlineExceeded,
              fmt::format("[runtime/backends/cuda] rank {}: an exchange between hosts of {} did not end: found nothing "
                          "from other hosts ({}) for {:.3g} s, expected their parts; look at those ranks and at the "
                          "network between the hosts, or raise --deadline-s",
                          graph_.rank, graph_.name, device::rank_list(others), to_seconds(device_.limit.deadline))};
  if (others.size() == 1) error.origin_rank = others.front();
  return error;
}

/// The rank of this host that a kernel found missing, or the other hosts.
Result<void> Executable::check_ranks() const {
  const uint32_t missing = control_word(offsetof(Control, missing)).load(std::memory_order_acquire);
  if (missing != 0) return missing_rank(bases_.hosts.of(graph_.rank).ranks[missing - 1]);
  const bool lacks_others = control_word(offsetof(Control, missing_others)).load(std::memory_order_acquire) != 0;
  return lacks_others ? Result<void>(missing_hosts()) : ok();
}

/// What ends a wait for a step between hosts: without it a rank would wait for hosts that wait for its own host's rank.
Result<void> Executable::check_hosts() const {
  if (device_.exchange != nullptr) LOCKSTEP_TRY_VOID(device_.exchange->check());
  return check_ranks();
}

Result<void> Executable::run_device() {
  if (device_.exchange != nullptr) LOCKSTEP_TRY_VOID(device_.exchange->check());
  LOCKSTEP_TRY_VOID(timer_->begin_device(*device_.stream));
  LOCKSTEP_TRY_VOID(captured_->launch(*device_.stream));
  LOCKSTEP_TRY_VOID(timer_->end_device(*device_.stream));
  return wait_for_ranks();
}

/// Waits for the stream; a wait that fails ends those of the device.
Result<void> Executable::wait_for_ranks() {
  const bool spans_hosts = bases_.hosts.count() > 1;
  cu::WaitLimit limit = device_.limit;
  limit.deadline += time_to_give_up(limit.deadline);  // kernels look at the deadline themselves and say who is missing
  if (spans_hosts) limit.check = [this] { return check_hosts(); };
  const Result<void> done = device_.stream->wait(limit);
  if (done.has_value()) return check_ranks();
  end_waits();
  const bool is_told = limit.abort != nullptr && limit.abort->is_raised();
  const bool is_late = done.error().kind == ErrorKind::kDeadlineExceeded && !done.error().origin_rank;
  return spans_hosts && is_late && !is_told ? missing_hosts() : done.error();
}

Result<void> Executable::run(std::span<const device::HostTensor> inputs) {
  LOCKSTEP_TRY_VOID(store_.require_weights());
  LOCKSTEP_TRY_VOID(take_inputs(inputs));
  LOCKSTEP_TRY_VOID(device_.context->make_current());
  for (const HostOperation& operation : prologue_) LOCKSTEP_TRY_VOID(operation());
  LOCKSTEP_TRY_VOID(prepare_rows());
  LOCKSTEP_TRY_VOID(run_device());
  timer_->begin_epilogue();
  for (const HostOperation& operation : epilogue_) LOCKSTEP_TRY_VOID(operation());
  return timer_->end_step();
}

std::span<const std::byte> Executable::output(std::string_view name) const {
  const auto found = std::ranges::find(graph_.outputs, name, &graph::Output::name);
  if (found == graph_.outputs.end()) return {};
  const std::byte* address = host_address(found->value);
  return {address, address == nullptr ? 0 : static_cast<size_t>(graph_.value(found->value).type.bytes())};
}

}  // namespace lockstep::cuda
