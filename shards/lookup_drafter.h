// A drafter by prompt lookup: proposes the tokens after the last earlier occurrence of the sequence's last tokens
// (runtime/generation/prompt_lookup.h). It needs no model and no device.
#pragma once

#include <memory>

#include "runtime/generation/prompt_lookup.h"
#include "shards/drafter.h"

namespace lockstep::shards {

/// Proposes at most the target's number of drafts.
std::unique_ptr<Drafter> make_lookup_drafter(const Shard& target, const generation::PromptLookup& lookup);

}  // namespace lockstep::shards
