// What the bits of an answer depend on, besides the request: never the number of ranks.
#pragma once

#include <string>

#include "lockstep/model.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"
#include "runtime/device/backend_driver.h"

namespace lockstep::model {

/// Equal for engines that give a request the same bits: hashes the architecture as it is served, the weights, types,
/// orders of sums and what the backend's kernels depend on. Takes checked options. Fails as `Model::hash_of_weights`.
Result<std::string> identity_of(const Model& model, const EngineOptions& options, const device::BackendDriver& driver);

}  // namespace lockstep::model
