// The coordinator actor: gathers the shards, plans and sends schedules, passes results to the sinks, ends the session.
// One per session, in rank 0's process. Private to this folder.
//
//   gathering ──all ranks said hello──► running ──last schedule done everywhere──► closing ──all closed──► over
//       └──────────── too late, a failure, a lost rank, cancelled ──────────────────►┘
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/active_requests.h"
#include "actors/activity_record.h"
#include "actors/completion_event.h"
#include "actors/host_choosers.h"
#include "actors/planner.h"
#include "actors/protocol.h"
#include "actors/session.h"
#include "actors/step_times.h"
#include "actors/unexpected_messages.h"

namespace lockstep::actors {

/// The coordinator's environment. Pointers are borrowed and outlive the actor; functions are thread-safe.
struct CoordinatorPorts {
  int32_t size = 1;
  int32_t in_flight = 2;                      // schedules sent ahead of the slowest rank
  std::optional<Duration> chunk_budget = {};  // as in SessionOptions
  Duration hello_deadline = std::chrono::seconds(60);
  PeerDetection detection = PeerDetection::kOn;
  HostChoosers* choosers = nullptr;                         // called by rank 0's executor
  CompletionEvent* over = nullptr;                          // set when every shard has closed or is lost
  ActivityRecord* activity = nullptr;                       // null: none is kept
  std::function<void(SlotId)> request_stop;                 // to rank 0's engine
  std::function<void(const std::string&)> on_refused = {};  // gets lines for a log
  std::function<std::string()> operation;                   // current operation of rank 0's executor, for messages
};

/// The coordinator's state and message handlers.
class Coordinator {
 public:
  using Self = LocalCoordinator::stateful_pointer<Coordinator>;

  void start(Self self, CoordinatorPorts ports);

  void hello(int32_t rank, int32_t size, const ShardHandle& shard);
  void done(int32_t rank, const ScheduleDone& done);
  void closed(int32_t rank);
  void down(const caf::actor_addr& who);
  void late();

  void begin(const PlannerLimits& limits);
  void submit(const Submission& submission);
  void stop(RequestId request);
  /// The request's deadline has passed.
  void expire(RequestId request);
  void finish();
  void take(std::span<const StepResult> results);

  /// Ends the session; every rank and every open request receives `error`. Later calls have no effect.
  void close(const std::optional<Error>& error);
  void quit();
  /// A message without effect; `found` describes it.
  void drop(const std::string& found);

 private:
  enum class Phase { kGathering, kRunning, kClosing, kOver };

  struct Peer {
    ShardHandle shard;
    bool said_hello = false;
    bool is_gone = false;  // closed or lost
    bool is_lost = false;
    int64_t resident = 0;  // bytes
    int32_t schedules_done = 0;
  };

  bool is_open() const { return phase_ == Phase::kGathering || phase_ == Phase::kRunning; }
  bool may_plan() const { return phase_ == Phase::kRunning && planner_ && !last_; }
  int32_t slowest() const;
  bool is_known(int32_t rank);
  Closing closing() const;
  void accept(const Request& request, Sink& sink);
  void admit(const Request& request);
  void take(const StepResult& result);
  void pump();
  void plan();
  void bound_schedules();
  void send(const Schedule& schedule);
  void compare_steps(int32_t rank, const ScheduleDone& done);
  void stop_slots(RequestId request);
  void end_if_all_gone();
  void note_slots() const;
  void note_ranks() const;

  Self self_ = nullptr;
  CoordinatorPorts ports_;
  std::optional<RefusedMessages> refused_;
  Phase phase_ = Phase::kGathering;
  std::vector<Peer> peers_;
  std::optional<Error> error_;      // why the session closed
  std::optional<Planner> planner_;  // from `begin` on
  PlannerLimits limits_;
  std::optional<ScheduleTiming> timing_;  // with a chunk budget
  int64_t steps_seen_ = 0;                // of rank 0, by `timing_`
  std::vector<Request> early_;            // submitted before `begin`
  ActiveRequests book_;
  std::map<int32_t, int32_t> steps_;  // by unfinished schedule: the steps that the first rank reported
  int32_t sent_ = 0;                  // schedules
  bool no_more_requests_ = false;
  std::optional<int32_t> last_;  // the number of the last schedule, once sent
};

LocalCoordinator::behavior_type coordinator_actor(Coordinator::Self self, CoordinatorPorts ports);

}  // namespace lockstep::actors
