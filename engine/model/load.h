// A rank's loaded model: its weights and compiled graphs.
#pragma once

#include <memory>

#include "engine/group/member.h"
#include "engine/model/plan.h"
#include "engine/model/weight_watch.h"
#include "runtime/device/backend.h"
#include "runtime/device/communicator.h"
#include "runtime/device/graph_register.h"
#include "shards/shard.h"
#include "shards/speculative_engine.h"
#include "shards/step_engine.h"

namespace lockstep::model {

/// The cost of loading a rank's weights.
struct LoadingCost {
  Bytes peak;   // peak resident memory of the process until the model was loaded
  Bytes read;   // from the weight files, headers included
  Bytes files;  // size of the weight files; zero for random weights
  Bytes ahead;  // read by this process into the page cache before loading (checkpoint::ReadAhead)
};

/// The owner of a loaded model; each member uses the members before it.
struct LoadedModel {
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<device::GraphRegister> graphs;
  std::unique_ptr<shards::StepEngine> engine;        // the shard, or a speculative engine around it
  shards::Shard* shard = nullptr;                    // inside `engine`
  shards::SpeculativeEngine* speculative = nullptr;  // equals `engine` if tokens are drafted
  size_t graphs_expected = 0;                        // of the model and of its draft model
  LoadingCost loading;
};

/// Fails on every rank if it fails on one. `communicator` outlives the result. @collective @blocking
Result<LoadedModel> load(group::Member& member, const Plan& plan, const EngineOptions& options,
                         const device::BackendDriver& driver, device::Communicator* communicator);

/// Checks the loaded weights while the model runs, and ends the group where one changes. Null if that is switched off.
/// `loaded` and `member` outlive it.
std::unique_ptr<WeightWatch> watch_weights(group::Member& member, const LoadedModel& loaded,
                                           const EngineOptions& options);

/// Peak resident memory of this process (VmHWM of /proc/self/status, proc(5)); zero if unknown.
Bytes peak_resident();

}  // namespace lockstep::model
