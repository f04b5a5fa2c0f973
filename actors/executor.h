// The loop of a rank's main thread: takes a schedule, runs its steps on the engine, reports.
//
//   pop ─► close, open slots ─► prefill … ─► score … ─► decode … ─► confirm ─► done ─► pop
//                                  │            │           │
//                                  ├── followed by the host's decision, if a slot that it chooses for got logits
//                                  └── a step's tokens are released when the ranks have agreed in the next step, or in
//                                      confirm, and are delivered with those of a few more steps: a wake-up is costly
//
// Between two steps it checks the abort flag and, on rank 0, calls the choosers. No rank waits for an actor inside a
// schedule.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/activity_record.h"
#include "actors/phase.h"
#include "actors/schedule.h"
#include "actors/schedule_queue.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/field_list.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// The last activity of an executor, for exit records and reports.
struct ExecutorStatus {
  Phase phase = Phase::kIdle;
  int32_t schedule = -1;  // −1: none yet
  int32_t step = 0;
  int64_t schedules = 0;  // ended
  int64_t prefill_steps = 0;
  int64_t decode_steps = 0;
  int64_t score_steps = 0;

  friend bool operator==(const ExecutorStatus&, const ExecutorStatus&) = default;
};

/// "decode, schedule 3, step 5".
std::string to_string(const ExecutorStatus& status);

/// A completed schedule of one rank. The coordinator compares the steps between ranks.
struct ScheduleDone {
  int32_t schedule = 0;
  int32_t steps = 0;     // executed; fewer than planned when every slot finished
  int64_t resident = 0;  // bytes of memory of the rank's process; 0: not measured

  friend bool operator==(const ScheduleDone&, const ScheduleDone&) = default;
};
LOCKSTEP_FIELDS(ScheduleDone, schedule, steps, resident);

/// Callbacks of an executor, on its thread. Empty functions are not called.
struct ExecutorHooks {
  /// Fills in a decision that initially leaves every slot unchanged; the host may choose for the slots marked in
  /// `with_logits` [slots].
  using Decide = std::function<std::vector<HostChoice>(const Schedule&, std::span<const uint8_t> with_logits,
                                                       const shards::StepOutput&, shards::Decision&)>;

  std::function<void(std::vector<StepResult>)> released;  // rank 0: tokens that may be shown, of one or more steps
  std::function<void(const ScheduleDone&)> done;          // after every schedule, its results released before
  std::function<void(const ExecutorStatus&)> step;        // before every step: for tests and traces
  std::function<void(const EndedStep&)> stepped;          // after every step
  Decide decide;                                          // rank 0, where requests have choosers
};

/// Drives one engine. Used by one thread, except `status`.
class Executor {
 public:
  /// Borrows the engine, the queue and the flag. Released tokens of several steps are delivered together, but at once
  /// if they are a sequence's first, if `hand_on_period` has passed since the last delivery, and at a schedule's end or
  /// an error.
  Executor(RankId rank, shards::StepEngine& engine, ScheduleQueue& queue, const AbortFlag& abort, ExecutorHooks hooks,
           IdleWait wait = {}, Duration hand_on_period = Duration::zero());

  /// Runs schedules until the last one, or until the first error: the abort flag's reason if it is raised, else the
  /// engine's own (with this rank as its origin when it names none, and with phase, schedule and step in its message).
  /// A failed check of ours ends here as `kInternal`.
  /// @blocking
  Result<void> run();

  /// May be called from any thread.
  ExecutorStatus status() const;

 private:
  /// The host's view of a slot. The same on every rank, because it follows from schedules and decisions.
  enum class HostSlot : uint8_t { kNot, kWaiting, kRunning, kFinished };

  Result<void> run_schedules();
  Result<void> run_schedule(const Schedule& schedule);
  Result<void> update_slots(const Schedule& schedule);
  Result<void> run_prefills(const Schedule& schedule);
  Result<void> run_scores(const Schedule& schedule);
  Result<void> run_decodes(const Schedule& schedule);
  Result<void> confirm(const Schedule& schedule);
  Result<void> begin_step(Phase phase);
  void note_step(int64_t rows, TimePoint now) const;
  void watch_host_slots(const Schedule& schedule);
  void note_logits_of(const shards::PrefillRows& rows);
  void note_logits_of_running();
  Result<void> end_step(const Schedule& schedule, const shards::StepOutput& output, int64_t rows);
  std::vector<int32_t> graph_tokens(std::span<const int32_t> tokens) const;
  Result<std::vector<HostChoice>> decide(const Schedule& schedule, const shards::StepOutput& output);
  void release();
  void hand_on_if_due(const Schedule& schedule, TimePoint now);
  void hand_on();
  Error explain(Error error) const;

  const RankId rank_;
  shards::StepEngine& engine_;
  ScheduleQueue& queue_;
  const AbortFlag& abort_;
  const ExecutorHooks hooks_;
  const IdleWait wait_;
  const Duration hand_on_period_;
  std::optional<StepResult> pending_;      // not yet agreed on by the ranks
  std::vector<StepResult> released_;       // agreed on, not yet delivered
  std::optional<TimePoint> last_hand_on_;  // empty: none yet
  int32_t next_step_ = 0;                  // of the current schedule
  int32_t confirmed_ = 0;                  // steps of the current schedule that the ranks have agreed on explicitly
  TimePoint step_begin_;                   // of the current step
  std::vector<HostSlot> host_slots_;       // [slots]
  std::vector<uint8_t> with_logits_;       // [slots] host-chosen slots with logits from the step

  // Read by `status`.
  std::atomic<Phase> phase_ = Phase::kIdle;
  std::atomic<int32_t> schedule_ = -1;
  std::atomic<int32_t> step_ = 0;
  std::atomic<int64_t> schedules_ = 0;
  std::atomic<int64_t> prefill_steps_ = 0;
  std::atomic<int64_t> decode_steps_ = 0;
  std::atomic<int64_t> score_steps_ = 0;
};

}  // namespace lockstep::actors
