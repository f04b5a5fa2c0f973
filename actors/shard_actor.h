// The shard actor of a rank: passes schedules to the executor and reports to the coordinator. It raises the rank's
// abort flag when the session fails or the coordinator is lost. Private to this folder.
#pragma once

#include "actors/completion_event.h"
#include "actors/protocol.h"
#include "actors/schedule_queue.h"
#include "actors/session.h"
#include "runtime/core/abort_flag.h"

namespace lockstep::actors {

/// Objects shared by a shard actor and its rank's executor; thread-safe, and outlive the actor.
struct ShardPorts {
  int32_t rank = 0;
  int32_t size = 1;
  ScheduleQueue* queue = nullptr;
  AbortFlag* abort = nullptr;
  CompletionEvent* gate = nullptr;  // set when the session has closed for this rank
  PeerDetection detection = PeerDetection::kOn;
  std::function<void(RankId, const Schedule&)> trace;
  std::function<void(const std::string&)> on_refused = {};  // gets lines for a log
};

/// Sends hello to `coordinator` when it is spawned.
LocalShard::behavior_type shard_actor(LocalShard::pointer self, ShardPorts ports, CoordinatorHandle coordinator);

}  // namespace lockstep::actors
