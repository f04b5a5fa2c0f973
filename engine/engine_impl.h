// What is behind an Engine: the threads of this process's ranks, from the plan to the last step.
//
//   open ──► a thread per local rank: plan ─ connect ─ load ─ session ─┬─ steps until rank 0 closes ─ report
//                                                                      └─► open returns
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/group/rank_threads.h"
#include "engine/model/load.h"
#include "engine/model/plan.h"
#include "engine/observe/observation.h"
#include "engine/requests/submissions.h"
#include "engine/session.h"
#include "lockstep/engine.h"

namespace lockstep {

class Engine::Impl {
 public:
  Impl(group::State& group, Model model, EngineOptions options);
  ~Impl();

  /// Starts the ranks; returns when all of this process are ready. @collective @blocking
  Result<void> start();
  Result<std::vector<RequestHandle>> submit(std::vector<Request> requests);
  Result<std::vector<std::vector<TokenScore>>> score(std::span<const std::vector<int32_t>> texts, int64_t top);
  /// Waits for the end of the ranks. @collective @blocking
  Result<void> join();
  void finish() { session_.session().finish(); }

  const Model& model() const { return model_; }
  bool leads() const { return group_.first_rank() == 0; }
  const EngineFacts& facts() const { return facts_; }
  EngineCounters counters() const;

 private:
  Result<void> run_rank(group::Member& member);
  Result<void> open_requests(group::Member& member, const model::Plan& plan, observe::Observation& observation);
  Result<void> report(group::Member& member, const model::LoadedModel& loaded, observe::Observation& observation);
  void note_facts(group::Member& member, const model::Plan& plan, const model::LoadedModel& loaded,
                  const device::Communicator* communicator, const device::BackendDriver& driver);
  void rank_is_ready();

  group::State& group_;
  const Model model_;
  const EngineOptions options_;
  ProcessSession session_;
  std::unique_ptr<requests::Submissions> submissions_;  // on rank 0's process
  EngineFacts facts_;                                   // likewise
  EngineCounters drafts_;                               // of drafts, at the end
  mutable std::mutex mutex_;                            // of the three below
  std::condition_variable changed_;
  int ready_ = 0;
  bool has_ended_ = false;
  std::optional<Result<void>> end_;
  std::unique_ptr<group::RankThreads> threads_;  // use those above
};

}  // namespace lockstep
