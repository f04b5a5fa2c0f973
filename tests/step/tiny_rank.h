// One rank of a tiny Llama (2 layers, bfloat16) on the CPU backend.
#pragma once

#include <memory>

#include "runtime/device/backend.h"
#include "shards/shard.h"

namespace lockstep::step {

constexpr int32_t kPromptTokens = 4;
constexpr int32_t kCapacity = 128;

/// Owns the objects that the shard borrows.
struct TinyRank {
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<shards::Shard> shard;
};

/// `communicator` may be null in a group of one. A failure is a failed check.
TinyRank make_tiny_rank(int ranks, int rank, device::Communicator* communicator);

/// The prompt's rows for slot 0.
shards::PrefillRows prompt_rows();

}  // namespace lockstep::step
