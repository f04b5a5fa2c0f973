// Drafts with what followed the last tokens the last time that they came up in the same sequence
// (runtime/generation/prompt_lookup.h): no model, no device.
#pragma once

#include <memory>

#include "runtime/generation/prompt_lookup.h"
#include "shards/drafter.h"

namespace lockstep::shards {

/// Drafts at most the target's number of drafts.
std::unique_ptr<Drafter> make_lookup_drafter(const Shard& target, const generation::PromptLookup& lookup);

}  // namespace lockstep::shards
