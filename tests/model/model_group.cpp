#include "tests/model/model_group.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "actors/session.h"
#include "engine/drivers.h"
#include "runtime/backends/cpu/cpu.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/conformance/communicator/test_hosts.h"
#include "transport/loopback/loopback.h"
#include "transport/nccl/nccl.h"
#include "transport/shm/shm.h"

namespace lockstep::model {
namespace {

class CollectingSink final : public actors::Sink {
 public:
  explicit CollectingSink(size_t rows) : answers_(rows) {}

  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override {
    RowAnswer& answer = answers_.at(static_cast<size_t>(request.value));
    answer.tokens.push_back(token.id);
    answer.logits.insert(answer.logits.end(), token.logits.begin(), token.logits.end());
    return actors::Verdict::kContinue;
  }
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override {
    answers_.at(static_cast<size_t>(request.value)).reason = reason;
    if (error && !error_) error_ = error;
  }

  std::vector<RowAnswer>& answers() { return answers_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::vector<RowAnswer> answers_;
  std::optional<Error> error_;
};

/// Another backend, whose compilations are counted.
class CountingBackend final : public device::Backend {
 public:
  explicit CountingBackend(std::unique_ptr<device::Backend> backend) : backend_(std::move(backend)) {}

  std::string_view name() const override { return backend_->name(); }
  device::Capabilities capabilities() const override { return backend_->capabilities(); }
  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    return backend_->make_store(steps);
  }
  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    ++compiled_;
    return backend_->compile(step, store, options);
  }

  int compiled() const { return compiled_; }

 private:
  std::unique_ptr<device::Backend> backend_;
  int compiled_ = 0;
};

/// The state shared by all ranks of a run.
struct Run {
  const std::filesystem::path& model;
  const GroupOptions& options;
  std::shared_ptr<transport::loopback::Group> group;
  const conformance::ThreadHosts* hosts;  // or null
  transport::WaitOptions wait;
  actors::Session& session;
};

/// Random weights with NaN for the embedding of token 0: its bytes are all ones, in every type.
class PoisonedWeights final : public shards::WeightSource {
 public:
  Result<void> read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override {
    LOCKSTEP_TRY_VOID(weights_.read(tensor, whole, ranges, dtype, dst));
    if (tensor != "model.embed_tokens.weight" || ranges[0].begin > 0) return ok();
    const size_t row_bytes = static_cast<size_t>(ranges[1].size()) * size_of(dtype);
    std::fill_n(dst.begin(), row_bytes, std::byte{0xff});
    return ok();
  }

 private:
  const shards::RandomWeights weights_;
};

struct Source {
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;  // the source of `weights`, if it reads files
  std::unique_ptr<shards::WeightSource> weights;
};

Result<Source> open_weights(const Run& run, const checkpoint::ModelSpec& spec) {
  Source source;
  if (run.options.weights == Weights::kRandom) source.weights = std::make_unique<shards::RandomWeights>();
  if (run.options.weights == Weights::kRandomNanOfToken0) source.weights = std::make_unique<PoisonedWeights>();
  if (source.weights) return source;
  LOCKSTEP_TRY(source.checkpoint, checkpoint::open_model_checkpoint(run.model, spec));
  source.weights = std::make_unique<shards::CheckpointWeights>(*source.checkpoint);
  return source;
}

/// All ranks use the first device.
Result<std::unique_ptr<device::Backend>> make_backend(const Run& run, int rank) {
  const GroupOptions& options = run.options;
  LOCKSTEP_TRY(const device::BackendDriver* driver, engine::find_driver(options.backend));
  device::OptionValues values = options.backend_options;
  if (options.isa) values["instruction-set"] = to_string(*options.isa);
  const std::vector<int> one_host(static_cast<size_t>(options.ranks), 0);
  const auto places = conformance::places_on(options.hosts.empty() ? one_host : options.hosts);
  const device::DevicePlan plan{.ordinals = std::vector<int>(places.size(), 0)};
  return driver->make({.places = places,
                       .rank = rank,
                       .form = device::RankForm::kThreads,
                       .threads = options.threads,
                       .step_deadline = run.wait.deadline,
                       .connect_devices = transport::nccl::connect_devices(run.wait),
                       .abort = run.wait.abort},
                      plan, values);
}

/// Null in a group of one. @collective @blocking
Result<std::unique_ptr<device::Communicator>> connect(const Run& run, int rank) {
  std::unique_ptr<device::Communicator> communicator;
  if (run.options.ranks == 1) return communicator;
  if (run.hosts != nullptr) return run.hosts->make_communicator(rank, run.wait);
  if (run.options.wire == Wire::kLoopback) {
    communicator = transport::loopback::make_communicator(run.group, rank, run.wait);
    return communicator;
  }
  const auto bootstrap = transport::loopback::make_bootstrap(run.group, rank, run.wait);
  LOCKSTEP_TRY(communicator,
               transport::shm::make_communicator(*bootstrap, run.wait, {.crowding = transport::Crowding::kCrowded}));
  return communicator;
}

/// Takes part until the session ends; the number of graphs that were compiled.
Result<int> run_rank(const Run& run, int rank) {
  LOCKSTEP_TRY(checkpoint::ModelSpec spec, checkpoint::read_spec(run.model / "config.json"));
  if (run.options.coded == CodedMatrices::kDecoded) spec.formats = {};
  if (run.options.served) spec.formats = checkpoint::served_formats(*run.options.served);
  spec.cache_type = run.options.cache;
  LOCKSTEP_TRY(
      const partition::Partition partition,
      partition::make_partition(spec, run.options.ranks, run.options.experts, run.options.numerics, run.options.gqa));
  const shards::ShardOptions shard_options{.slots = run.options.slots,
                                           .chunk = run.options.chunk,
                                           .capacity = run.options.capacity,
                                           .batch_sizes = run.options.batch_sizes,
                                           .context_buckets = run.options.context_buckets,
                                           .token_buckets = run.options.token_buckets,
                                           .dtype = run.options.dtype,
                                           .logits = run.options.logits == actors::Logits::kWanted
                                                         ? families::StepShape::Logits::kOutput
                                                         : families::StepShape::Logits::kDropped};
  const auto passes = run.options.passes == Passes::kDefault ? graph::default_passes() : std::vector<graph::Pass>();
  LOCKSTEP_TRY(auto graphs, shards::build_graphs(spec, partition, rank, shard_options, passes));
  LOCKSTEP_TRY(const Source source, open_weights(run, spec));
  LOCKSTEP_TRY(auto made, make_backend(run, rank));
  CountingBackend backend(std::move(made));
  LOCKSTEP_TRY(const auto communicator, connect(run, rank));
  LOCKSTEP_TRY(const auto shard,
               shards::Shard::create(std::move(graphs), shard_options, backend, communicator.get(), *source.weights));
  LOCKSTEP_TRY_VOID(run.session.run_executor(RankId(rank), *shard));
  return backend.compiled();
}

}  // namespace

Result<GroupAnswer> run_rows(const std::filesystem::path& model, const GroupOptions& options,
                             const std::vector<Row>& rows) {
  const SteadyClock clock;
  AbortFlag abort;
  actors::SessionOptions session_options{.size = options.ranks};
  for (int rank = 0; rank < options.ranks; ++rank) session_options.ranks.push_back({RankId(rank), &abort});
  LOCKSTEP_TRY(const auto session, actors::Session::host(session_options));
  CollectingSink sink(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    session->submit({RequestId(static_cast<int64_t>(row)), rows[row].ids, rows[row].parameters, options.logits}, sink);
  }
  session->finish();

  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(60)};
  std::optional<conformance::ThreadHosts> hosts;
  if (!options.hosts.empty()) hosts.emplace(options.hosts);
  // Tests run side by side: ranks that spin would take cores from each other.
  const auto group = transport::loopback::make_group(options.ranks, 1 << 20, transport::Crowding::kCrowded);
  const Run run{model, options, group, hosts ? &*hosts : nullptr, wait, *session};
  std::vector<std::optional<Error>> errors(static_cast<size_t>(options.ranks));
  int graphs = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Result<int> result = run_rank(run, rank);
      if (result.has_value() && rank == 0) graphs = result.value();
      if (result.has_value()) return;
      errors[static_cast<size_t>(rank)] = result.error();
      abort.raise(result.error());
      session->cancel();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) return *error;
  }
  if (sink.error()) return *sink.error();
  return GroupAnswer{std::move(sink.answers()), graphs};
}

}  // namespace lockstep::model
