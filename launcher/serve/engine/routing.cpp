#include "launcher/serve/engine/routing.h"

#include <algorithm>
#include <limits>

namespace lockstep::serve {
namespace {

constexpr size_t kBlock = 32;          // ids
constexpr size_t kIdsOfSequence = 64;  // prefilling that many ids costs about what one more sequence beside costs
constexpr size_t kWait = 1u << 30;     // more than any prompt
constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;

/// A number for each whole block, of its ids and all before them. The last id is never reused: its logits are needed.
std::vector<uint64_t> blocks_of(std::span<const int32_t> ids) {
  std::vector<uint64_t> blocks;
  uint64_t hash = kMix;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    hash = (hash ^ static_cast<uint32_t>(ids[i])) * kMix;
    hash ^= hash >> 29;
    if ((i + 1) % kBlock == 0) blocks.push_back(hash);
  }
  return blocks;
}

}  // namespace

void Routing::Blocks::note(uint64_t block, size_t most) {
  if (const auto at = places.find(block); at != places.end()) {
    by_use.splice(by_use.begin(), by_use, at->second);
    return;
  }
  by_use.push_front(block);
  places[block] = by_use.begin();
  for (; by_use.size() > most; by_use.pop_back()) places.erase(by_use.back());
}

size_t Routing::choose(std::span<const int32_t> ids, std::span<const ReplicaLoad> loads) {
  if (replicas_.size() < loads.size()) replicas_.resize(loads.size());
  const std::vector<uint64_t> blocks = blocks_of(ids);
  size_t best = 0, least = std::numeric_limits<size_t>::max();
  for (size_t replica = 0; replica < loads.size(); ++replica) {
    const ReplicaLoad& load = loads[replica];
    if (!load.serves) continue;
    const auto had =
        std::ranges::find_if_not(blocks, [&](uint64_t block) { return replicas_[replica].places.contains(block); });
    const size_t known = static_cast<size_t>(had - blocks.begin()) * kBlock;
    const size_t waiting = load.sequences < load.slots ? 0 : load.sequences - load.slots + 1;
    const size_t cost = ids.size() - known + kIdsOfSequence * load.sequences + kWait / load.slots * waiting;
    if (cost >= least) continue;
    best = replica;
    least = cost;
  }
  const size_t most = std::max<size_t>(1, loads[best].cache_tokens / kBlock);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    replicas_[best].note(*block, most);  // ends go first
  return best;
}

void Routing::forget(size_t replica) {
  if (replica < replicas_.size()) replicas_[replica] = {};
}

}  // namespace lockstep::serve
