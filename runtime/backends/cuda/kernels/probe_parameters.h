// Parameters of the kernels that measure a GPU's limits.
#pragma once

#include <cstdint>

namespace lockstep::cuda {

constexpr int kProbeThreads = 256;

// Word i of the memory that is read is i · factor + offset, so its sum is known.
constexpr uint32_t kProbeFactor = 2654435761u;
constexpr uint32_t kProbeOffset = 12345u;

/// probe_fill: writes the words, four by four.
struct ProbeFillParameters {
  void* words;
  int64_t fours;
};

/// probe_read_N: each thread reads tiles of N times 16 bytes.
struct ProbeReadParameters {
  const void* words;
  uint32_t* sums;  // of the words of each warp: [blocks, warps]
  int64_t tiles;
};
constexpr int64_t probe_tile_bytes(int loads) { return int64_t{kProbeThreads} * loads * 16; }

/// probe_multiply_T: sums of products of small whole numbers; they are exact, and grow by the same amount each time.
struct ProbeMultiplyParameters {
  uint32_t* sums;  // as whole numbers, of each warp: [blocks, warps]
  int32_t times;
};

constexpr int kProbeTiles = 8;   // sums of 16 × 8 that a warp has under way
constexpr int kProbeGroups = 4;  // products of 64 × 128 that a warpgroup makes before it looks for older ones
constexpr int kProbeGroupsSharedBytes = (64 + 128) * 16 * 2;
constexpr int kProbeLanes = 16;  // sums that a thread has under way, without tensor cores

}  // namespace lockstep::cuda
