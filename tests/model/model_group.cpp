#include "tests/model/model_group.h"

#include <memory>
#include <optional>
#include <thread>

#include "actors/session.h"
#include "launcher/ranks/wiring.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/conformance/communicator/test_hosts.h"
#include "transport/loopback/loopback.h"

namespace lockstep::model {
namespace {

class CollectingSink final : public actors::Sink {
 public:
  explicit CollectingSink(size_t rows) : answers_(rows) {}

  actors::Verdict on_token(RequestId request, int32_t token, std::span<const float> logits) override {
    RowAnswer& answer = answers_.at(static_cast<size_t>(request.value));
    answer.tokens.push_back(token);
    answer.logits.insert(answer.logits.end(), logits.begin(), logits.end());
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
  Result<std::unique_ptr<device::Store>> make_store(std::span<const graph::Graph* const> graphs) override {
    return backend_->make_store(graphs);
  }
  Result<std::unique_ptr<device::Executable>> compile(const graph::Graph& graph, device::Store& store,
                                                      const device::CompileOptions& options) override {
    ++compiled_;
    return backend_->compile(graph, store, options);
  }

  int compiled() const { return compiled_; }

 private:
  std::unique_ptr<device::Backend> backend_;
  int compiled_ = 0;
};

/// What all ranks of a run share.
struct Run {
  const std::filesystem::path& model;
  const GroupOptions& options;
  std::shared_ptr<transport::loopback::Group> group;
  const conformance::ThreadHosts* hosts;  // or null
  transport::WaitOptions wait;
  actors::Session& session;
};

/// Takes part until the session ends; the number of graphs that were compiled.
Result<int> run_rank(const Run& run, int rank) {
  LOCKSTEP_TRY(checkpoint::ModelSpec spec, checkpoint::read_spec(run.model / "config.json"));
  spec.int8_group = run.options.int8_group;
  LOCKSTEP_TRY(const partition::Partition partition,
               partition::make_partition(spec, run.options.ranks, run.options.experts));
  const shards::ShardOptions shard_options{.slots = run.options.slots,
                                           .chunk = run.options.chunk,
                                           .capacity = run.options.capacity,
                                           .dtype = run.options.dtype,
                                           .logits = run.options.logits == actors::Logits::kWanted
                                                         ? families::StepShape::Logits::kOutput
                                                         : families::StepShape::Logits::kDropped};
  LOCKSTEP_TRY(auto graphs, shards::build_graphs(spec, partition, rank, shard_options, graph::default_passes()));
  LOCKSTEP_TRY(const auto checkpoint, checkpoint::open_model_checkpoint(run.model, spec));
  LOCKSTEP_TRY(auto made, launcher::make_backend(run.options.backend, run.options.threads));
  CountingBackend backend(std::move(made));
  std::unique_ptr<device::Communicator> communicator;
  if (run.options.ranks > 1) communicator = transport::loopback::make_communicator(run.group, rank, run.wait);
  if (run.hosts != nullptr) communicator = run.hosts->make_communicator(rank, run.wait);
  const shards::CheckpointWeights weights(*checkpoint);
  LOCKSTEP_TRY(const auto shard,
               shards::Shard::create(std::move(graphs), shard_options, backend, communicator.get(), weights));
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
  const Run run{model, options, transport::loopback::make_group(options.ranks), hosts ? &*hosts : nullptr,
                wait,  *session};
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
