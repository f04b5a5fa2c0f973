// The backend for CPUs: packed weights, own SIMD kernels, a team of threads, KV memory that grows as tokens arrive.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backends/cpu/isa.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/device/backend_driver.h"
#include "runtime/graph/graph.h"

namespace lockstep::cpu {

/// How the program starts it.
const device::BackendDriver& driver();

/// What a backend of this folder offers with the kernels of `isa`.
device::Capabilities capabilities(Isa isa);

struct Options {
  int threads = 1;         // workers of a step; the thread that runs the executables is worker 0
  std::vector<int> cores;  // of the workers: all but worker 0, the caller's thread, are bound to theirs; empty: none is
  std::optional<Isa> isa = std::nullopt;  // default: the best of the build that the machine has

  /// Fails with `kInvalidArgument` for a count below 1 or cores that are not one per thread.
  Result<void> validate() const;
};

/// Fails with `kUnsupported`, naming the CMake option, when the build has no kernels for `isa`.
Result<void> check_is_built(Isa isa);

/// Results are the same to the bit for every number of rows, threads, ranks and chunks, within one instruction set
/// (and for one choice of `block` in linear_blocks).
///
/// KV memory: a tile holds 64 tokens of one slot, of all layers whose caches are equally long, and is touched when its
/// first token arrives. Resident bytes of the caches ≤ Σ over slots and lengths of min(ceil(tokens / 64), tiles of the
/// cache) · tile bytes, where tile bytes is 64 · Σ over caches of heads · head_dim · size of an element, head_dim
/// rounded up to 16, and the whole to 4096. A cache of C rows has ceil(C / 64) tiles; a ring with P pinned rows has
/// ceil(P / 64) + ceil((C − P + 63) / 64), and a record of 4 bytes per row.
///
/// Fails with `kUnsupported` when the machine or the build lacks `options.isa`, with `kUnavailable` when a core cannot
/// be bound.
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

/// Which nodes of a graph run together, for people: a headline, then a line for each node that joins another one's
/// stage ("%12 rms_norm → rows of %13 linear"). Needs neither weights nor threads.
std::string explain(const graph::Graph& graph);

}  // namespace lockstep::cpu
