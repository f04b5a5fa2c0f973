// A drafter that runs a smaller model with the target's tokenizer.
//
// It decodes one step more than it drafts, so its cache holds every draft even if all are accepted; afterwards it is
// set back to the target's length. It samples with the target's parameters, seeds and output indices, so its drafts are
// accepted as often as its distribution allows.
#pragma once

#include <memory>

#include "shards/drafter.h"

namespace lockstep::shards {

/// `shard` has the target's slots and chunk, and room for the drafts beyond the target's capacity. Fails with
/// `kInvalidArgument` when it does not fit the target: other slots, chunk or vocabulary, too small a capacity.
Result<std::unique_ptr<Drafter>> make_draft_model(std::unique_ptr<Shard> shard, const Shard& target);

}  // namespace lockstep::shards
