// The memory of a rank: its store, and the peak of its process.
#pragma once

#include <string>
#include <vector>

#include "engine/group/member.h"
#include "engine/model/load.h"
#include "lockstep/engine.h"

namespace lockstep::observe {

/// The present memory of every rank, by rank, on every rank. @collective @blocking
Result<std::vector<RankMemory>> gather_memory(group::Member& member, const model::LoadedModel& loaded);

/// Conversion to one line of text and back; ranks exchange such lines.
std::string to_text(const RankMemory& memory);
RankMemory parse_memory(const std::string& text);

}  // namespace lockstep::observe
