// The state of the stand-in runtime in one process: life cycle, cores, loaded models. The C interface is a thin layer
// over the one object of this type.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "tests/neuron_stand_in/nrt/core_claims.h"
#include "tests/neuron_stand_in/nrt/model.h"

namespace lockstep::stand_in {

class Process {
 public:
  /// The settings of the environment, also before the runtime starts; null if they cannot be read (reported on stderr).
  const Settings* settings();

  nrt::NRT_STATUS start();
  void close();

  /// One call of the interface: NRT_UNINITIALIZED and NRT_CLOSED outside the runtime's life, else the fault planted for
  /// `call`, else NRT_SUCCESS; noted in the log. May never return, or end the process.
  nrt::NRT_STATUS enter(const char* call);

  nrt::NRT_STATUS load(const LoadRequest& request, nrt::nrt_model_t** model);
  nrt::NRT_STATUS unload(nrt::nrt_model_t* model);
  nrt::NRT_STATUS execute(nrt::nrt_model_t* model, const void* inputs, const void* outputs);

  /// The model behind a handle; null for one that is none.
  nrt::nrt_model_t* find(nrt::nrt_model_t* model);
  CoreMemory& memory() { return *memory_; }

  /// Held by calls that touch tensors, sets and models; a load or an execution holds it only to find them.
  std::mutex& mutex() { return mutex_; }

 private:
  enum class Phase { kNew, kStarted, kClosed };

  nrt::NRT_STATUS act(const PlantedFault& fault, const char* call);
  nrt::NRT_STATUS meet(const LoadRequest& request);
  void note(const char* call);

  std::mutex mutex_;
  std::optional<Settings> settings_;
  Phase phase_ = Phase::kNew;
  std::optional<FaultPlan> faults_;
  CoreClaims claims_;
  std::unique_ptr<CoreMemory> memory_;
  std::unique_ptr<Meeting> meeting_;  // after the first load of several ranks
  std::map<const nrt::nrt_model_t*, std::unique_ptr<nrt::nrt_model_t>> models_;
};

}  // namespace lockstep::stand_in
