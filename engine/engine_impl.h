// The threads of an engine's local ranks, from the plan to the last step.
//
//   open ──► a thread per local rank: plan ─ connect ─ load ─ session ─┬─ steps until rank 0 closes ─ report
//                                                                      └─► open returns
//
//   resume: the same again on another group; open requests on rank 0 (Submissions) stay
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/group/rank_threads.h"
#include "engine/model/load.h"
#include "engine/model/plan.h"
#include "engine/observe/counted_work.h"
#include "engine/observe/observation.h"
#include "engine/requests/submissions.h"
#include "engine/session.h"
#include "lockstep/engine.h"
#include "runtime/process/core_watch.h"

namespace lockstep {

class Engine::Impl {
 public:
  Impl(group::State& group, Model model, EngineOptions options);
  ~Impl();

  /// Starts the ranks; returns when all ranks of this process are ready. @collective @blocking
  Result<void> start();
  Result<std::vector<RequestHandle>> submit(std::vector<Request> requests);
  Result<std::vector<ScoreHandle>> submit_texts(std::span<const std::vector<int32_t>> texts, int64_t top);
  /// Waits for the end of the ranks. @collective @blocking
  Result<void> join();
  void finish() { session_.session().finish(); }

  Result<void> suspend();
  Result<void> resume(group::State& group);
  bool is_suspended() const { return submissions_ != nullptr && submissions_->has_suspended(); }
  Result<std::string> suspended() const;
  Result<std::vector<RequestHandle>> restore(std::string_view suspended);

  const Model& model() const { return model_; }
  bool leads() const { return leads_; }
  const EngineFacts& facts() const { return facts_; }
  EngineCounters counters() const;
  trace::Activity activity(size_t most_steps) const;

 private:
  Result<void> run_rank(group::Member& member);
  Result<void> open_requests(group::Member& member, const model::Plan& plan, observe::Observation& observation);
  Result<void> report(group::Member& member, const model::LoadedModel& loaded, const process::CoreWatch& core_watch,
                      observe::Observation& observation);
  actors::Sink& watched_requests(observe::Observation& observation);
  void note_facts(group::Member& member, const model::Plan& plan, const model::LoadedModel& loaded,
                  const device::Communicator* communicator, const device::BackendDriver& driver,
                  std::vector<RankMemory> memory);
  void rank_is_ready();

  Result<void> check_works() const;
  std::vector<RequestHandle> handles_of(std::vector<std::shared_ptr<requests::RequestState>> states) const;

  group::State* group_;  // may be destroyed once the ranks have ended
  bool leads_;
  const SteadyClock clock_;
  const Model model_;
  const EngineOptions options_;
  ProcessSession session_;
  std::unique_ptr<requests::Submissions> submissions_;          // in rank 0's process
  std::unique_ptr<observe::CountedRequests> counted_requests_;  // in rank 0's process, where progress is reported
  EngineFacts facts_;                                           // complete in rank 0's process
  mutable std::mutex mutex_;                                    // guards the four below
  std::condition_variable changed_;
  shards::DraftStatistics drafts_;  // of all sessions that have ended
  int ready_ = 0;
  bool has_ended_ = false;
  std::optional<Result<void>> end_;
  std::unique_ptr<group::RankThreads> threads_;  // use the fields above
};

}  // namespace lockstep
