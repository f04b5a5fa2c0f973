// The memory of a rank: what its store holds, and the most that its process ever held.
#pragma once

#include <string>

#include "engine/model/load.h"
#include "lockstep/engine.h"
#include "runtime/device/backend.h"

namespace lockstep::observe {

/// Of a loaded model, now.
RankMemory memory_of(const device::Store& store, const model::LoadingCost& loading);

/// As one line of text, and back: ranks exchange them.
std::string to_text(const RankMemory& memory);
RankMemory parse_memory(const std::string& text);

}  // namespace lockstep::observe
