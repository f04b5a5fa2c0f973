// Which of several replicas gets a request: a pure value.
//
//   prompt ── blocks of 32 ids ─► how much of it each replica has had lately ─┐
//                                                 open sequences of each ─────┴─► the one with the least to do
//
// A replica's own cache decides what it really reuses (actors/prefix_tree.h): a wrong guess costs time, no answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace lockstep::serve {

/// What one replica has to do now.
struct ReplicaLoad {
  bool serves = false;
  size_t sequences = 0;  // open
  size_t slots = 1;
  size_t cache_tokens = 1;  // of all its slots
};

class Routing {
 public:
  /// The replica for a prompt, and notes that it gets it. At least one serves.
  ///
  ///   cost = ids to prefill + kIdsOfSequence · open sequences; waiting for a slot costs more than any prompt
  ///
  /// So a prompt that many requests begin with spreads to further replicas once the first ones are busy.
  size_t choose(std::span<const int32_t> ids, std::span<const ReplicaLoad> loads);
  /// The replica's cache is empty: it has started again.
  void forget(size_t replica);

 private:
  /// The blocks that a replica has had, latest first.
  struct Blocks {
    std::list<uint64_t> by_use;
    std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places;

    void note(uint64_t block, size_t most);
  };

  std::vector<Blocks> replicas_;
};

}  // namespace lockstep::serve
