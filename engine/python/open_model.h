// A model that is open for the requests of all Python threads, on ranks that are threads of this process or those of
// mpirun, or closed: then it is files alone, with a tokenizer and options.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "engine/python/callbacks.h"
#include "engine/python/pending.h"
#include "engine/python/ranks.h"
#include "lockstep/engine.h"

namespace lockstep::python {

/// One prompt of a call.
struct PromptRow {
  std::vector<int32_t> ids;
  std::vector<float> embeddings;  // Prompt::embeddings
  std::vector<int32_t> negative;
  int64_t masked_inside = 0;
  std::optional<size_t>
      number;  // of the row in its job, where the call has a part of it; its random numbers depend on it
};

/// How the requests of a call are delivered.
struct CallOptions {
  bool streams = false;
  bool special_text = false;  // whether texts contain special tokens
};

/// Its methods are called with the GIL and release it while they work.
class OpenModel {
 public:
  /// The files of a model, closed. Raises the error of a directory that is none.
  OpenModel(const std::string& directory, const ModelOptions& model_options);
  /// Open on `ranks` threads. `log(rank, level, line)` receives the engine's log lines, on any thread. Raises the error
  /// of a failed start.
  OpenModel(const std::string& directory, int ranks, const ModelOptions& model_options, EngineOptions options,
            nb::object log);
  /// Open on `ranks`, which outlive it, on rank 0; the other ranks `serve`. @collective
  OpenModel(const std::string& directory, Ranks& ranks, const ModelOptions& model_options, EngineOptions options);
  ~OpenModel();
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;

  const Model& model() const { return model_; }
  bool is_open() const;
  EngineFacts facts() const;
  EngineCounters counters() const;
  /// With the slots and the capacity of the open engine.
  const EngineOptions& options() const { return options_; }
  /// The last steps, slots and ranks; of a closed model none.
  trace::Activity activity() const;

  /// Submits all rows or none. An error names the row.
  std::unique_ptr<PendingRequests> submit(std::vector<PromptRow> rows, const GenerationConfig& config,
                                          const CallOptions& options, const Callbacks& callbacks);
  /// Submits all texts or none. An error names the text.
  std::unique_ptr<PendingTexts> submit_texts(const std::vector<std::vector<int32_t>>& texts, int64_t top);

  /// Cancels open requests and ends the ranks. No effect on a closed model.
  void close();
  /// Gives the engine up without a destructor, in a forked child, which does not have its threads.
  void disown();

 private:
  Result<void> open(Group& group);
  Result<void> end();
  void give_up();
  Result<std::unique_ptr<PendingRequests>> submit_all(std::vector<Request> requests,
                                                      const std::shared_ptr<CallState>& state);

  const Model model_;
  EngineOptions options_;
  nb::object log_;
  const std::shared_ptr<ModelState> state_ = std::make_shared<ModelState>();  // calls may outlive the model
  mutable std::shared_mutex mutex_;  // guards the engine against its end; not awaited with the GIL
  std::unique_ptr<Group> group_;     // of threads
  std::unique_ptr<Engine> engine_;   // null: closed
  EngineFacts last_facts_;           // of the closed engine
  EngineCounters last_counters_;
};

}  // namespace lockstep::python
