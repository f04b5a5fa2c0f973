// A rank's part of a model: weights read, graphs compiled, agreed with the other ranks.
#pragma once

#include <memory>

#include "engine/group/member.h"
#include "engine/model/plan.h"
#include "runtime/device/backend.h"
#include "runtime/device/communicator.h"
#include "runtime/device/graph_register.h"
#include "shards/shard.h"
#include "shards/speculative_engine.h"
#include "shards/step_engine.h"

namespace lockstep::model {

/// What it took to load the weights of a rank.
struct LoadingCost {
  Bytes peak;   // resident in the process until the model was loaded, at most
  Bytes read;   // from the files of weights, headers included
  Bytes files;  // size of those files; zero where weights are random
  Bytes ahead;  // read by this process into the page cache before they were loaded (checkpoint::ReadAhead)
};

/// What keeps a loaded model alive; each member uses those before it.
struct LoadedModel {
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<device::GraphRegister> graphs;
  std::unique_ptr<shards::StepEngine> engine;        // the shard, or a speculative engine around it
  shards::Shard* shard = nullptr;                    // in the engine
  shards::SpeculativeEngine* speculative = nullptr;  // the engine, where tokens are drafted
  size_t graphs_expected = 0;                        // of the model and of its draft model
  LoadingCost loading;
};

/// Fails alike on every rank. `communicator` outlives what is loaded. @collective @blocking
Result<LoadedModel> load(group::Member& member, const Plan& plan, const EngineOptions& options,
                         const device::BackendDriver& driver, device::Communicator* communicator);

/// The most memory that was ever resident in this process (VmHWM of /proc/self/status, proc(5)); zero if unknown.
Bytes peak_resident();

}  // namespace lockstep::model
