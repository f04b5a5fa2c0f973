// Drafts with a smaller model that shares the target's tokenizer. It decodes one step more than it drafts, so that its
// cache holds every draft even when all come true; afterwards it is set back to where the target stands. It draws with
// the target's parameters, seeds and output indices, so that it agrees as often as its distribution does.
#pragma once

#include <memory>

#include "shards/drafter.h"

namespace lockstep::shards {

/// `shard` has the target's slots and chunk, and room for the drafts beyond the target's capacity. Fails with
/// `kInvalidArgument` when it does not fit the target: other slots, chunk or vocabulary, too small a capacity.
Result<std::unique_ptr<Drafter>> make_draft_model(std::unique_ptr<Shard> shard, const Shard& target);

}  // namespace lockstep::shards
