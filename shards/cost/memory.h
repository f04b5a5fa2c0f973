// What a rank keeps in memory, from its graphs. A backend adds its own rounding: it pads weights for its kernels, keeps
// caches in tiles and maps whole pages.
#pragma once

#include "runtime/core/ids.h"
#include "shards/shard_graphs.h"

namespace lockstep::cost {

/// Bytes of one rank.
struct RankMemory {
  Bytes weights;  // all that it holds
  Bytes cache;    // keys and values of all slots at full capacity; of layers with a window, as much as the window needs
  Bytes slots;    // the other states: lengths, parameters and histories of the slots
  Bytes workspace;  // results that live at the same time, each graph by itself

  Bytes states() const { return cache + slots; }
  Bytes total() const { return weights + cache + slots + workspace; }
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// Of the rank whose graphs these are. A weight or state that several graphs name is there once.
RankMemory memory_of(const shards::ShardGraphs& graphs);

}  // namespace lockstep::cost
