// A model loaded on the ranks of a group. This header is all that a program includes.
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
// Blocking calls:  generate, score, wait, close       Streaming:  submit with on_token
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
#include "runtime/trace/rank_report.h"

namespace lockstep {

/// Memory of one rank, in bytes; ranks that are threads of one process share what is said of the process.
struct RankMemory {
  Bytes weights;          // resident, as packed
  Bytes states_reserved;  // address space of keys, values and the slots' states
  Bytes states_resident;  // of it, physically there
  Bytes workspace;        // activations
  Bytes peak_loading;     // most resident in the process until the model was loaded
  Bytes read_loading;     // read from the files of weights
  Bytes files;            // size of those files; zero where weights are pseudo-random
  Bytes read_ahead;       // read into the page cache before they were loaded (GroupOptions::read_ahead)
  Bytes peak;             // most resident in the process until now

  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};
LOCKSTEP_FIELDS(RankMemory, weights, states_reserved, states_resident, workspace, peak_loading, read_loading, files,
                read_ahead, peak);

/// What there is to say of an engine: sizes, graphs, memory. A regular value, complete when the engine has closed.
struct EngineFacts {
  int ranks = 1;
  int threads = 1;  // of a rank
  std::string backend, communicator, dtype;
  std::string weights;  // "dtype" or "int8:64"
  int64_t slots = 0, prefill_chunk = 0, capacity = 0;
  int64_t drafts = 0;  // tokens of a sequence that a step verifies beside its own
  std::vector<int64_t> batch_sizes, context_buckets, token_buckets;  // one each at least
  std::vector<std::pair<std::string, double>> startup;               // seconds by phase, rank 0
  size_t graphs_expected = 0;                                        // the closed set of the start
  std::vector<std::string> graphs, graphs_after_start;               // as compiled
  std::vector<RankMemory> memory;                                    // by rank
  std::optional<trace::GroupReport> report;  // where every rank's time went, where it is observed
};

/// How much an engine has done. Any thread may ask while it works.
struct EngineCounters {
  int64_t submitted = 0, finished = 0;                 // requests
  int64_t running = 0, queued = 0;                     // requests now
  int64_t prompt_tokens = 0, new_tokens = 0;           // of all requests
  int64_t reused_tokens = 0;                           // of prompts, that a slot held already
  int64_t draft_steps = 0, drafted = 0, accepted = 0;  // of drafts

  friend bool operator==(const EngineCounters&, const EngineCounters&) = default;
};

/// What must be the same on every rank of `options`, one a line, for `Group::agree`: rank 0's count, so that a
/// difference would go unnoticed. Fails with `kInvalidArgument` for options of the backend that make no sense.
Result<std::string> statement_of(const EngineOptions& options);

/// The backends of this build, by name; those that were left out say so when they are chosen.
std::vector<std::string> backend_names();

/// Sizes an engine for requests that are known before it is opened. A regular value.
class Sizing {
 public:
  /// `options` as far as they are given: slots, capacity and drafts are filled in. `model` is borrowed.
  explicit Sizing(const Model& model, EngineOptions options = {}) : model_(&model), options_(std::move(options)) {}

  /// Counts one request. One that no slot of the model can hold does not count: it is refused when it is submitted.
  /// Fails with `kInvalidArgument` for drafts beside options that the host has to apply.
  Result<void> add(const Prompt& prompt, const GenerationConfig& config);

  /// Capacity for the longest request and slots for all, 8 at most or as many as one request needs. Fails with
  /// `kInvalidArgument` where the given slots are too few for a request.
  Result<EngineOptions> options() const;

 private:
  const Model* model_;
  EngineOptions options_;
  int64_t capacity_ = 1;           // that the longest request wants
  int64_t rows_ = 0, widest_ = 1;  // of all requests and of one, in slots
};

/// Sizes an engine for `prompts` under one `config`.
Result<EngineOptions> sized_for(const Model& model, std::span<const Prompt> prompts, const GenerationConfig& config,
                                EngineOptions options = {});

/// Fails with `kUnsupported` where `model` cannot be divided between so many ranks as `options` say.
Result<void> check_ranks(const Model& model, const EngineOptions& options, int ranks);

/// Whether the host has to choose tokens under `config`, or to read logits: then an engine needs Choosers::kAllowed.
bool needs_choosers(const GenerationConfig& config);

/// Whether an engine with these options, slots and capacity given, will take the request: fails as `Engine::submit`,
/// before weights are read.
Result<void> check_request(const Model& model, const EngineOptions& options, const Request& request);

/// The same of texts that are scored: fails as `Engine::score`.
Result<void> check_texts(const Model& model, const EngineOptions& options, std::span<const std::vector<int32_t>> texts,
                         int64_t top = 0);

/// Neither copied nor moved. Thread-safe, except `close` and `serve`.
class Engine {
 public:
  /// Reads this process's part of the weights and compiles all graphs. `group` outlives it. Fails alike on every rank,
  /// with the error of the first rank that failed. @collective @blocking
  static Result<std::unique_ptr<Engine>> open(Group& group, const Model& model, const EngineOptions& options = {});

  /// Without `close`, open and suspended requests end with `kCancelled` and the other ranks are told.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request; it joins those under way at the next schedule. Rank 0, any thread. Fails with `kInvalidArgument`
  /// for a request that no slot can hold, naming the field.
  Result<RequestHandle> submit(Request request);
  /// The same for all or none of several, of which as many start together as there are slots.
  Result<std::vector<RequestHandle>> submit(std::vector<Request> requests);

  /// One answer. `overrides` are put on top of Model::generation(). Rank 0. @blocking
  Result<Answer> generate(std::string_view prompt, const Overrides& overrides = {}, OnToken on_token = {});
  Result<Answer> generate(std::span<const int32_t> ids, const Overrides& overrides = {}, OnToken on_token = {});

  /// How likely each token of `ids` is after those before it, with the `top` likeliest in its place. Texts are batched
  /// with each other and with all that runs. Rank 0, any thread. Fails with `kUnsupported` for an engine that was not
  /// opened with Scoring::kOn, with `kInvalidArgument` for a text that no slot can hold or a `top` above
  /// EngineOptions::scored_top. @blocking
  Result<std::vector<TokenScore>> score(std::span<const int32_t> ids, int64_t top = 0);
  /// The same for all or none of several texts, in their order.
  Result<std::vector<std::vector<TokenScore>>> score(std::span<const std::vector<int32_t>> texts, int64_t top = 0);

  /// Runs this rank's steps until rank 0 closes. Every other rank. @collective @blocking
  Result<void> serve();

  /// Ends when every request has its answer. Rank 0. @collective @blocking
  Result<void> close();

  /// Ends the ranks' work at once; open requests keep their tokens and wait for `resume`. Texts that are being scored
  /// fail with `kUnavailable`. Rank 0; `serve` returns elsewhere, and the group is as it was. @collective @blocking
  Result<void> suspend();

  /// Goes on after `suspend`, or after a loss under OnLoss::kSuspend, over `group`: the same or another one, of any
  /// size that the model can be divided between; a process that had no part in it opens an engine instead. Tokens that
  /// were delivered are replayed as prompt, or made again where the host chooses, so that each answer is what it would
  /// have been, to the bit (partition::Numerics::kInvariant). Every rank; rank 0 is the process that holds the
  /// requests. The old group may be gone. Fails as `open`. @collective @blocking
  Result<void> resume(Group& group);

  /// Whether requests wait for `resume`: `RequestHandle::wait` returns why meanwhile.
  bool is_suspended() const;

  /// Suspended requests as text, for another process or another day. Rank 0. Fails with `kUnsupported` where one has
  /// code of its caller's.
  Result<std::string> suspended() const;

  /// Submits them. Their answers have all tokens, delivered ones included; `on_token` is not called for them. Rank 0.
  /// Fails with `kInvalidArgument` for text that `suspended` did not make, with `kFailedPrecondition` for another
  /// model.
  Result<std::vector<RequestHandle>> restore(std::string_view suspended);

  const EngineFacts& facts() const;
  EngineCounters counters() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
