// Requirements of a model on its backend.
#pragma once

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"

namespace lockstep::model {

/// Fails with `kUnsupported` where a model needs operations that the backend lacks, naming them.
Result<void> require_operations(const checkpoint::ModelSpec& spec, const device::Capabilities& backend);

}  // namespace lockstep::model
