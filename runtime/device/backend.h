// The interface of backends: compiling and running graphs. One `Backend` object serves one rank.
//
//   Backend ──make_store(steps)──► Store        weights (immutable) and states, at fixed addresses, shared by the
//      │                             ▲           executables of one rank
//      └──compile(step, store)──► Executable     replays one graph; rejects other shapes
//
// Implementations live in runtime/backends/<name>. A store outlives its executables, a backend outlives its stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/block_tree.h"
#include "runtime/core/column_groups.h"
#include "runtime/core/shape.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device_time.h"
#include "runtime/device/limits_probe.h"
#include "runtime/graph/graph.h"

namespace lockstep::device {

/// The weights in codes that a backend multiplies: none, products of 8-bit integers (runtime/core/int8_groups.h), or
/// all formats.
enum class CodedWeights { kNone, kInt8, kAll };

/// What a backend supports; queried before planning.
struct Capabilities {
  std::vector<DType> dtypes;       // of weights and activations
  bool rows_of_one_slot = false;   // every prefill chunk must hold rows of one slot only
  bool bounded_attention = false;  // the cost of attention grows with the length in use, not the capacity
  bool invariant_sums = false;     // results do not depend on rows, columns or ranks, to the bit
  bool recurrences = false;        // runs layers that carry a state from row to row
  CodedWeights coded_weights = CodedWeights::kNone;
  bool rounded_experts = false;   // rounds what experts multiply (`rounds` of moe_experts)
  bool coded_caches = false;      // keeps keys and values in 8 bits, with a scale for each row
  bool latent_attention = false;  // runs attention whose values are columns of its keys, and products by head
  bool whole_group = false;       // one program serves all ranks; it is compiled from every rank's graph, before passes
  bool host_threads = false;      // computes with host threads, and binds them to the cores that it is given
  std::string host_instructions;  // the host's instruction set that its kernels use; empty: none

  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

/// One step, as passed to a backend. Borrows the graphs.
struct StepGraph {
  const graph::Graph& own;                     // this rank's
  std::span<const graph::Graph> of_all_ranks;  // the same step of every rank, in order; only if `whole_group`

  StepGraph(const graph::Graph& graph, std::span<const graph::Graph> group = {}) : own(graph), of_all_ranks(group) {}
};

/// A tensor in host memory, row-major. Borrows the bytes.
struct HostTensor {
  TensorType type;
  std::span<const std::byte> bytes;
};

/// Memory of one rank, in bytes.
struct MemoryReport {
  Bytes weights;          // resident, in packed form
  Bytes states_reserved;  // address space of all states
  Bytes states_resident;  // physically allocated now
  Bytes workspace;        // activations and buffers of the executables
};

/// The source of a store's weights, read in ranges of rows. Thread-safe.
class WeightReader {
 public:
  virtual ~WeightReader() = default;

  /// Writes rows `rows` of `weight` (a range of dimension 0 of its type; 0:1 of a scalar), row-major, into `dst`, which
  /// has exactly their size; codes are decoded. Each row of a weight is read once. @blocking (disk)
  virtual Result<void> read(const graph::Value& weight, Range rows, std::span<std::byte> dst) const = 0;

  /// Writes rows `rows` of a weight in codes, whose columns are cut into `groups`, into `dst`. A weight that the source
  /// has as elements is quantised. Each row is read once, here or as elements. @blocking (disk)
  virtual Result<void> read_codes(const graph::Value& weight, const ColumnGroups& groups, Range rows,
                                  CodedRows dst) const = 0;

  /// How many neighbouring rows of `weight` to read together, at least 1: many where a file stores it transposed.
  virtual int64_t rows_at_once(const graph::Value& weight) const = 0;

  /// The position of `weight` in its file: weights are best read in ascending order.
  virtual int64_t place_of(const graph::Value& weight) const = 0;

  /// Announces that these rows will be read soon, so prefetching can start. Never waits.
  virtual void expect(const graph::Value& weight, Range rows) const = 0;
};

/// A weight as it lies in host memory, in one of its forms. Borrows both from the store.
struct ResidentWeight {
  std::string_view name;
  std::span<const std::byte> bytes;
};

/// The full range of dimension 0 of a weight.
inline Range rows_of(const graph::Value& weight) {
  return {0, weight.type.shape.rank() == 0 ? 1 : weight.type.shape[0]};
}

/// A state's index in its store; valid as long as the store.
using StateId = StrongId<struct StateTag, int32_t>;

/// Weights and states of one rank. States start at zero; their addresses never change. Used by the executor's thread.
class Store {
 public:
  virtual ~Store() = default;

  /// Fills the weight `name` from row-major host bytes of its graph type (all slices, concatenated along dimension 0);
  /// the backend may repack them. Once per weight, before the first run.
  virtual Result<void> set_weight(std::string_view name, std::span<const std::byte> bytes) = 0;

  /// Fills every weight of `graph` from `reader`. This default reads them one after the other; a backend with threads
  /// reads and repacks in parallel. Fails with the reader's error. Once, before the first run. @blocking (disk)
  virtual Result<void> load(const graph::Graph& graph, const WeightReader& reader);

  /// The state `name`, if the graphs have it.
  virtual std::optional<StateId> find_state(std::string_view name) const = 0;
  /// Overwrites part of a dense state (not a KV cache), starting at byte `offset`. Does not allocate.
  virtual Result<void> write_state(StateId state, int64_t offset, std::span<const std::byte> bytes) = 0;
  /// Reads part of a dense state. Does not allocate.
  virtual Result<void> read_state(StateId state, int64_t offset, std::span<std::byte> bytes) const = 0;

  /// Copies slot `src` of every KV cache to slot `dst`. The first `tokens` positions of `src` have been written; a ring
  /// holds only some of them. Does not allocate.
  virtual Result<void> copy_slot(int64_t src, int64_t dst, int64_t tokens) = 0;

  /// Returns the memory of the KV caches to the system and loses their contents, in backends that commit it as tokens
  /// arrive. Called between steps; every slot is reset before its next use.
  virtual void release_caches() {}

  /// The logical contents of a KV cache [slots, heads, capacity, head_dim], or of what a recurrence carries on, for
  /// tests and tools; may allocate.
  virtual Result<std::vector<std::byte>> read_cache(StateId state) const = 0;
  /// The address of the state's first byte, constant for the life of the store.
  virtual const void* state_address(StateId state) const = 0;

  virtual MemoryReport memory() const = 0;

  /// The loaded weights, whose bytes no longer change; empty in backends whose weights are not in host memory.
  virtual std::vector<ResidentWeight> resident_weights() const { return {}; }
};

/// One compiled graph. Used by the executor's thread.
class Executable {
 public:
  virtual ~Executable() = default;

  virtual const graph::Graph& graph() const = 0;

  /// Runs one step. `inputs` are the graph's inputs in order; a tensor of another type is rejected with
  /// `kInvalidArgument` before anything runs. Does not allocate, and makes no system call except while it waits.
  /// @collective @blocking
  virtual Result<void> run(std::span<const HostTensor> inputs) = 0;

  /// The output `name` of the last run; empty if the graph has none. Valid until the next run.
  virtual std::span<const std::byte> output(std::string_view name) const = 0;

  /// Kernels and copies of a run on a device beside the host; 0: the host computes.
  virtual int64_t launches() const { return 0; }
  /// Measures the time of every run from here on. A run waits no longer for it.
  virtual void time_device() {}
  /// Of the runs since `time_device`.
  virtual DeviceTime device_time() const { return {}; }
};

/// What compilation needs besides the graph. The communicator outlives the executable.
struct CompileOptions {
  Communicator* communicator = nullptr;  // may be null in a group of one
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;

  /// Reserves the weights and states of `steps`. A name used by two graphs is one tensor and must have one type. Fails
  /// with `kResourceExhausted` when there is not enough memory.
  virtual Result<std::unique_ptr<Store>> make_store(std::span<const StepGraph> steps) = 0;

  /// Prepares a step for execution over `store`, which this backend made for a set of steps that includes it.
  virtual Result<std::unique_ptr<Executable>> compile(const StepGraph& step, Store& store,
                                                      const CompileOptions& options) = 0;

  /// A probe of this rank's device, once weights are there; null: the host's limits are the backend's. Fails with
  /// `kResourceExhausted` when there is no memory to read. @blocking
  virtual Result<std::unique_ptr<LimitsProbe>> make_limits_probe(const ProbedWork&) {
    return std::unique_ptr<LimitsProbe>();
  }
};

}  // namespace lockstep::device
