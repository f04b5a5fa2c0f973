// The memory of a rank: its store, and the peak of its process.
#pragma once

#include <string>

#include "engine/model/load.h"
#include "lockstep/engine.h"
#include "runtime/device/backend.h"

namespace lockstep::observe {

/// The current memory of a loaded model.
RankMemory memory_of(const device::Store& store, const model::LoadingCost& loading);

/// Conversion to one line of text and back; ranks exchange such lines.
std::string to_text(const RankMemory& memory);
RankMemory parse_memory(const std::string& text);

}  // namespace lockstep::observe
