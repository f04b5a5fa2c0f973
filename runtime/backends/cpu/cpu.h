// The CPU backend: packed weights, SIMD kernels, a thread team, KV memory grown on demand.
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

/// The driver of this backend.
const device::BackendDriver& driver();

/// The capabilities of a backend with the kernels of `isa`.
device::Capabilities capabilities(Isa isa);

struct Options {
  int threads = 1;         // workers of a step; worker 0 is the thread that runs the executables
  std::vector<int> cores;  // one per worker; all workers except worker 0 are bound to theirs; empty: none is bound
  std::optional<Isa> isa = std::nullopt;  // default: the best one that the build and the machine have

  /// Fails with `kInvalidArgument` for a count below 1, or unless there is one core per thread.
  Result<void> validate() const;
};

/// Fails with `kUnsupported`, naming the CMake option, when the build has no kernels for `isa`.
Result<void> check_is_built(Isa isa);

/// Results are the same to the bit for every number of rows, threads, ranks and chunks, within one instruction set
/// (and for one choice of `block` in linear_blocks).
///
/// KV memory: a tile holds 64 tokens of one slot, for all layers with equally long caches, and is touched when its
/// first token arrives. Resident bytes of the caches ≤ Σ over slots and lengths of min(ceil(tokens / 64), tiles of the
/// cache) · tile bytes, where tile bytes is 64 · Σ over caches of heads · head_dim · size of an element, with head_dim
/// rounded up to 16, and the product to 4096. A cache of C rows has ceil(C / 64) tiles. A ring with P pinned rows has
/// ceil(P / 64) + ceil((C − P + 63) / 64), and a record of 4 bytes per row.
///
/// Fails with `kUnsupported` when the machine or the build lacks `options.isa`, with `kUnavailable` when a core cannot
/// be bound.
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

/// The fusion plan of a graph as text: a headline, then a line for each node that runs in another one's stage ("%12
/// rms_norm → rows of %13 linear"). Needs neither weights nor threads.
std::string explain(const graph::Graph& graph);

}  // namespace lockstep::cpu
