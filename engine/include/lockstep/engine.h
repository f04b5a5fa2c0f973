// A model on the ranks of a group. Programs include this header only.
//
//   Result<void> run(const char* directory) {
//     LOCKSTEP_TRY(const auto group, Group::threads(2));
//     LOCKSTEP_TRY(const Model model, Model::open(directory));
//     LOCKSTEP_TRY(const auto engine, Engine::open(*group, model));
//     LOCKSTEP_TRY(const Answer answer, engine->generate("Once upon a time", {{"max_new_tokens", "24"}}));
//     std::puts(answer.text.c_str());
//     return engine->close();
//   }
//
// Blocking calls:  generate, score, wait, close       Streaming:  submit with on_token, submit_text
// On rank 0:       submit … close                     On others:  serve, which returns when rank 0 has closed
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/group.h"
#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"
#include "runtime/trace/activity.h"
#include "runtime/trace/rank_report.h"

namespace lockstep {

/// Memory of one rank, in bytes. Values per process are shared by ranks that are threads of one process.
struct RankMemory {
  Bytes weights;          // resident, as packed
  Bytes states_reserved;  // address space of the KV cache and the slots' other states
  Bytes states_resident;  // resident part of it
  Bytes workspace;        // activations
  Bytes peak_loading;     // peak resident memory of the process until the model was loaded
  Bytes read_loading;     // read from the weight files
  Bytes files;            // size of the weight files; zero for pseudo-random weights
  Bytes read_ahead;       // read into the page cache before loading (GroupOptions::read_ahead)
  Bytes peak;             // peak resident memory of the process until now

  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};
LOCKSTEP_FIELDS(RankMemory, weights, states_reserved, states_resident, workspace, peak_loading, read_loading, files,
                read_ahead, peak);

/// What other work took from a rank's process within `seconds`, from its start until its end. Zero where the system
/// does not count it.
struct RankCores {
  double seconds = 0.0;
  double waited_s = 0.0;    // of the thread that waited longest for a core although it had work
  int64_t preemptions = 0;  // times that its threads lost a core to others
  double stolen_s = 0.0;    // by the machine's hypervisor, a mean over its cores

  friend bool operator==(const RankCores&, const RankCores&) = default;
};
LOCKSTEP_FIELDS(RankCores, seconds, waited_s, preemptions, stolen_s);

/// "rank 1 waited 48 % of the time for a core (1204 preemptions); other programs use its cores", of the rank that lost
/// most; empty if no rank lost a twentieth.
std::string words_of_losses(const std::vector<RankCores>& ranks);

/// Facts of an engine: sizes, graphs, memory. A regular value, complete when the engine has closed.
struct EngineFacts {
  int ranks = 1;
  int threads = 1;       // per rank
  std::string identity;  // equal for engines that give a request the same bits, whatever their ranks; of rank 0
  std::string backend, backend_settings;  // "cpu", "--instruction-set avx512": the kernels that the bits depend on
  std::string communicator, dtype;
  std::string weights;   // "dtype" or "int8:64"
  std::string kv_dtype;  // "dtype", "int8" or "fp8"
  int64_t slots = 0, prefill_chunk = 0, capacity = 0;
  int64_t drafts = 0;                                                // drafted tokens that a step verifies per sequence
  std::vector<int64_t> batch_sizes, context_buckets, token_buckets;  // at least one each
  std::vector<std::pair<std::string, double>> startup;               // seconds by phase, rank 0
  size_t graphs_expected = 0;                                        // number of graphs that the start compiles
  std::vector<std::string> graphs, graphs_after_start;               // as compiled
  std::vector<RankMemory> memory;                                    // by rank: as started, then as ended
  std::vector<RankCores> cores;                                      // by rank, as ended
  std::optional<trace::GroupReport> report;  // time of every rank, where ObserveOptions::profile is set
};

/// Work that an engine has done. Any thread may read it during the run.
struct EngineCounters {
  int64_t submitted = 0, finished = 0;                 // requests
  int64_t running = 0, queued = 0;                     // requests now
  int64_t prompt_tokens = 0, new_tokens = 0;           // of all requests, until now
  int64_t reused_tokens = 0;                           // prompt tokens that a slot already held
  int64_t draft_steps = 0, drafted = 0, accepted = 0;  // drafted and accepted tokens

  friend bool operator==(const EngineCounters&, const EngineCounters&) = default;
};

/// The `options` that must be the same on every rank, one a line, for `Group::agree`: an engine takes rank 0's options
/// without comparing them. Fails with `kInvalidArgument` for invalid backend options.
Result<std::string> statement_of(const EngineOptions& options);
/// The backend's settings on which an answer's bits depend, on one line: "--instruction-set avx512". Fails as
/// `statement_of`.
Result<std::string> backend_settings_of(const EngineOptions& options);

/// Names of all backends, also of those that this build lacks; choosing one of those fails with the reason.
std::vector<std::string> backend_names();

/// Sizes an engine for requests that are known before it is opened. A regular value.
class Sizing {
 public:
  /// Fills in the slots, capacity and drafts that `options` does not set. `model` is borrowed.
  explicit Sizing(const Model& model, EngineOptions options = {}) : model_(&model), options_(std::move(options)) {}

  /// Counts one request. A request that no slot of the model can hold is not counted; `submit` rejects it.
  /// Fails with `kInvalidArgument` for drafts together with options that the host has to apply.
  Result<void> add(const Prompt& prompt, const GenerationConfig& config);

  /// Capacity for the longest request and slots for all requests: at most 8, or as many as one request needs. Fails
  /// with `kInvalidArgument` when one request needs more slots than `options` set.
  Result<EngineOptions> options() const;

 private:
  const Model* model_;
  EngineOptions options_;
  int64_t capacity_ = 1;           // of the longest request
  int64_t rows_ = 0, widest_ = 1;  // slots of all requests, and of the widest one
};

/// Sizes an engine for `prompts` under one `config`.
Result<EngineOptions> sized_for(const Model& model, std::span<const Prompt> prompts, const GenerationConfig& config,
                                EngineOptions options = {});

/// Fails with `kUnsupported` when `model` cannot be divided between `ranks` ranks under `options`.
Result<void> check_ranks(const Model& model, const EngineOptions& options, int ranks);

/// Whether the host has to choose tokens or read logits under `config`; the engine then needs Choosers::kAllowed.
bool needs_choosers(const GenerationConfig& config);

/// Checks a request against an engine with these options (slots and capacity set) before weights are read. Fails as
/// `Engine::submit`.
Result<void> check_request(const Model& model, const EngineOptions& options, const Request& request);

/// Checks texts to score in the same way. Fails as `Engine::score`.
Result<void> check_texts(const Model& model, const EngineOptions& options, std::span<const std::vector<int32_t>> texts,
                         int64_t top = 0);

/// Neither copied nor moved. Thread-safe, except `close` and `serve`.
class Engine {
 public:
  /// Reads this process's part of the weights and compiles all graphs. `group` lives until `close`, `suspend`,
  /// `resume` or the destructor has returned. Fails on every rank with the error of the first that failed. @collective
  /// @blocking
  static Result<std::unique_ptr<Engine>> open(Group& group, const Model& model, const EngineOptions& options = {});

  /// Without `close`, open and suspended requests end with `kCancelled` and the other ranks end too.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request, which joins the running batch at the next schedule. Rank 0, any thread. Fails with
  /// `kInvalidArgument`, naming the field, for a request that no slot can hold.
  Result<RequestHandle> submit(Request request);
  /// Queues all of several requests or none; as many start together as there are slots.
  Result<std::vector<RequestHandle>> submit(std::vector<Request> requests);

  /// Generates one answer. `overrides` replace fields of Model::generation(). Rank 0. @blocking
  Result<Answer> generate(std::string_view prompt, const Overrides& overrides = {}, OnToken on_token = {});
  Result<Answer> generate(std::span<const int32_t> ids, const Overrides& overrides = {}, OnToken on_token = {});

  /// The log-probability of each token of `ids` given the tokens before it, and the `top` likeliest tokens at its
  /// position. Texts are batched with each other and with running requests. Rank 0, any thread. Fails with
  /// `kUnsupported` for an engine that was opened without scoring, and with `kInvalidArgument` for a text that no
  /// slot can hold or a `top` above EngineOptions::scored_top. @blocking
  Result<std::vector<TokenScore>> score(std::span<const int32_t> ids, int64_t top = 0);
  /// Scores all of several texts or none, in their order.
  Result<std::vector<std::vector<TokenScore>>> score(std::span<const std::vector<int32_t>> texts, int64_t top = 0);

  /// Runs this rank's steps until rank 0 closes the engine. On every rank except rank 0. @collective @blocking
  Result<void> serve();

  /// Queues one text; `score` waits for it. Fails as `score`.
  Result<ScoreHandle> submit_text(std::vector<int32_t> ids, int64_t top = 0);

  /// Waits until every request has its answer, then ends the engine on all ranks. Rank 0. @collective @blocking
  Result<void> close();

  /// Stops all ranks' steps at once. Open requests keep their tokens and wait for `resume`; texts that are being scored
  /// fail with `kUnavailable`. `serve` returns on other ranks. The group stays open. Rank 0. @collective @blocking
  Result<void> suspend();

  /// Continues after `suspend`, or after a lost rank under OnLoss::kSuspend, on `group`: the same or another one, of
  /// any size that the model can be divided between. After `suspend` the old group may be gone. A process that was not
  /// part of it opens an engine. Delivered tokens are replayed as prompt, or generated again where the host chooses: an
  /// answer equals the answer of an uninterrupted run bit for bit (partition::Numerics::kInvariant). Every rank calls
  /// it; rank 0 is the process that holds the requests. Fails as `open`. @collective @blocking
  Result<void> resume(Group& group);

  /// Whether requests wait for `resume`. `RequestHandle::wait` then returns the reason.
  bool is_suspended() const;

  /// Suspended requests as text, for another process or a later run. Rank 0. Fails with `kUnsupported` when a request
  /// has processors, criteria or choosers of its caller.
  Result<std::string> suspended() const;

  /// Submits the requests in the text. Their answers contain all tokens; `on_token` is not called for tokens that were
  /// already delivered. Rank 0. Fails with `kInvalidArgument` for text that `suspended` did not write, and with
  /// `kFailedPrecondition` for that of an engine with another `EngineFacts::identity`.
  Result<std::vector<RequestHandle>> restore(std::string_view suspended);

  const EngineFacts& facts() const;
  EngineCounters counters() const;
  /// The present state of slots, ranks and the last steps, with the numbers of the handles' requests; −1 for a text.
  /// The engine remembers 4096 steps. Rank 0, any thread.
  trace::Activity activity(size_t most_steps = 64) const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
