// Requirements of a model on its backend.
#pragma once

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "shards/partition/options.h"

namespace lockstep::model {

/// Fails with `kUnsupported` where a model needs operations that the backend lacks, naming them.
Result<void> require_operations(const checkpoint::ModelSpec& spec, const device::Capabilities& backend);

/// Fails with `kUnsupported` where k and v, whose rows a rank computes together with gathered keys and values (`gqa`),
/// round their inputs differently.
Result<void> require_gathered_rounding(const checkpoint::ModelSpec& spec, partition::GqaMode gqa);

}  // namespace lockstep::model
