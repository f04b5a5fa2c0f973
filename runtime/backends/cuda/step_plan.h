// A step as launches: what the device does between one copy in and the copies out, with every address. Pure: the same
// graph, layout and bases give the same plan. With bases of zero it says how much memory the step needs, and is what
// `explain` prints.
//
//   head   │ step, rows in use │ inputs │ results of the prologue │ states │      pinned on the host, copied in at once
//   body   launch, launch, …
//   tail   │ logits │ … │                                                      pinned on the host, copied out
//
// Memory that peers see holds flags and two halves; exchange number i of a step uses half i mod 2. Between hosts an
// exchange counts twice: half 0 shows the host's parts, half 1 what came from all hosts (lower_hosts.cpp).
// On one host a sum in slices is two exchanges: of roots, and of slices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/node_split.h"
#include "runtime/backends/cuda/store_layout.h"
#include "runtime/cuda/blas.h"
#include "runtime/cuda/module.h"
#include "runtime/device/hosts.h"
#include "runtime/graph/graph.h"

namespace lockstep::cuda {

/// Where memory begins, as device addresses.
struct Bases {
  uint64_t weights = 0;
  uint64_t caches = 0;
  uint64_t workspace = 0;
  uint64_t tables = 0;
  uint64_t head = 0;
  uint64_t control = 0;                      // Control
  std::array<uint64_t, kMostRanks> areas{};  // of each rank, in memory that peers see
  std::array<int64_t, kMostRanks> halves{};  // bytes of a half, of each rank
  uint64_t patience = 0;                     // nanoseconds that a kernel waits for a peer
  int blocks = kMostBlocks;                  // of a kernel that waits for peers, at most
  device::Hosts hosts;                       // of the group's ranks; empty: all on one
  int multiprocessors = 132;                 // as H100 and H200 have; how many blocks walk a launch's units
  bool starts_early = false;                 // launches may start before the one ahead has ended
};

/// How a step is planned; the same on every rank.
struct StepOptions {
  /// Sums over ranks of more bytes than this are finished in slices: each rank reads less, and meets twice.
  int64_t most_one_shot_bytes = int64_t{256} << 10;
  /// Products of many rows may be cuBLASLt's, from weights that are kept a second time, row by row.
  bool uses_blas = false;
};

/// Words in pinned memory that kernels which wait look at.
struct Control {
  uint32_t abort = 0;
  uint32_t missing = 0;         // 1 + number on the host of the rank that did not come
  uint32_t missing_others = 0;  // the same of one that did not come with the other hosts' parts
};

/// The first bytes of the head.
struct HeadWords {
  uint32_t step = 0;
  int32_t rows_in_use = 0;
};

/// A launch of a kernel with the bytes of its parameters, or a product of cuBLASLt.
struct Launch {
  std::string kernel;
  cu::LaunchShape shape;
  std::vector<std::byte> parameters;
  size_t node = 0;
  std::optional<cu::MatmulShape> matmul = {};
};

/// Where host operations find a value.
struct HostPlace {
  enum class Home { kNone, kHead, kTail, kHost, kState };
  Home home = Home::kNone;
  int64_t offset = 0;  // not of states
};

/// What the rank's rail brings from all hosts, ahead of a launch.
struct HostGather {
  size_t launch = 0;
  uint64_t from = 0;
  std::vector<int64_t> bytes;  // of each host
  uint64_t to = 0;
};

/// A copy to the tail after the last launch.
struct TailCopy {
  uint64_t from = 0;
  int64_t bytes = 0;
  int64_t to = 0;
};

struct StepPlan {
  std::vector<Place> places;  // by node
  std::vector<Launch> launches;
  std::vector<HostGather> gathers;  // in order
  std::vector<TailCopy> copies;
  std::vector<HostPlace> host;         // by value
  std::vector<int64_t> state_mirrors;  // by value: offset in the head of a state that kernels read, or −1
  std::vector<int64_t>
      hidden_samples;             // by node: offset in the tail of the rows' first bytes that `agree` reads, or −1
  std::vector<std::byte> tables;  // constants
  std::optional<graph::ValueId> slot_of_rows;  // says how many rows are in use; empty: all
  int64_t workspace_bytes = 0;
  int64_t head_bytes = 0;
  int64_t tail_bytes = 0;
  int64_t host_bytes = 0;  // results of the epilogue
  int64_t half_bytes = 0;
  uint32_t exchanges = 0;  // an even number
};

/// Bytes of the flags of an area, ahead of its halves.
int64_t flag_bytes(int ranks);

/// Fails with `kInvalidArgument` where the layout lacks a value of the graph, with `kUnsupported` where the graph needs
/// what kernels cannot do.
Result<StepPlan> plan_step(const graph::Graph& graph, const StoreLayout& layout, const Bases& bases,
                           const StepOptions& options = {});

}  // namespace lockstep::cuda
