// A loaded model: the program in a NEFF of the stand-in compiler, and how tensor sets are bound to it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tests/neuron_stand_in/interpreter/program.h"
#include "tests/neuron_stand_in/nrt/meeting.h"
#include "tests/neuron_stand_in/nrt/settings.h"
#include "tests/neuron_stand_in/nrt/tensors.h"

/// The object behind the C interface's opaque handle.
struct lockstep::nrt::nrt_model {
  std::string name;
  int vnc = 0;
  std::unique_ptr<lockstep::stand_in::Program> program;
};

namespace lockstep::stand_in {

/// How a model is loaded.
struct LoadRequest {
  std::span<const std::byte> neff;
  int vnc = 0;
  uint32_t rank = 0, ranks = 1;
  bool with_collectives = false;  // by nrt_load_collectives
};

/// Reads and compiles. NRT_UNSUPPORTED_NEFF_VERSION for a file that is not the stand-in compiler's, NRT_INVALID for one
/// that is damaged, or whose collectives do not fit how it is loaded.
nrt::NRT_STATUS load_model(const LoadRequest& request, const Settings& settings,
                           std::unique_ptr<nrt::nrt_model_t>& model);

/// All ranks must load the same module: NRT_FAILURE otherwise, NRT_TIMEOUT when one is missing. @collective
nrt::NRT_STATUS agree_on_module(const LoadRequest& request, Meeting& meeting);

/// Runs `model` once. NRT_INVALID unless the sets hold the required tensors in the required sizes. `meeting` may be
/// null. @collective @blocking
nrt::NRT_STATUS execute_model(nrt::nrt_model_t& model, const TensorSet& inputs, const TensorSet& outputs,
                              Meeting* meeting);

/// The result of nrt_get_model_tensor_info; `free_description` frees it.
nrt::nrt_tensor_info_array_t* describe_tensors(const nrt::nrt_model_t& model);
void free_description(nrt::nrt_tensor_info_array_t* description);

}  // namespace lockstep::stand_in
