// Memory of a rank, counted from its graphs. Backends add their own rounding: padded weights, caches in tiles, whole
// pages.
#pragma once

#include "runtime/core/ids.h"
#include "shards/shard_graphs.h"

namespace lockstep::cost {

/// Bytes of one rank.
struct RankMemory {
  Bytes weights;  // all held weights
  Bytes cache;    // keys and values of all slots at full capacity; of layers with a window, as much as the window needs
  Bytes slots;    // the other states: lengths, parameters and histories of the slots
  Bytes workspace;         // results that are live at the same time, per graph
  Bytes recurrences = {};  // of `cache`: what recurrent layers carry, the same for any length

  Bytes states() const { return cache + slots; }
  Bytes total() const { return weights + cache + slots + workspace; }
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// The memory of the rank with these graphs. A weight or state named in several graphs counts once.
RankMemory memory_of(const shards::ShardGraphs& graphs);

}  // namespace lockstep::cost
