// Collectives over shared memory: the algorithm of `loopback` (threads) and `shm` (processes).
//
// Every operation consists of rounds. In a round each rank copies its piece into its own buffer, raises its flag, waits
// for the flags of all others, and reads their buffers:
//
//   rank 0   write even │ flag 1 │ wait │ read even │ write odd │ flag 2 │ wait │ read odd │ write even …
//   rank 1     write even  │ flag 1 │ wait │ read even │ write odd │ flag 2 │ …
//
// Data that is already in the own buffer is not copied: `place_for_roots` lends it to the producer of a sum's roots.
//
// With two alternating buffers one flag per round is enough: a rank that writes an even buffer again has seen all flags
// of the odd round between, so all ranks have finished reading the even buffer. A large sum takes two rounds per piece:
// each rank finishes a slice of it, then they gather the slices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/operation_log.h"
#include "transport/parts.h"
#include "transport/region/copy_out.h"
#include "transport/region/region.h"
#include "transport/tree_finisher.h"
#include "transport/waiting.h"

namespace lockstep::transport::region {

/// Settings of a region communicator.
struct Member {
  std::string name;  // "loopback", "shm"
  int rank = 0;
  bool crowded = false;         // ranks share cores; the same on every rank
  bool past_cache = false;      // copies out by stores that bypass the cache (copy_out.h)
  std::vector<int> names;       // [ranks]: their numbers in errors; empty: their own
  std::shared_ptr<void> owner;  // shared: keeps the memory mapped, which may be one group's for all its ranks
};

class RegionCommunicator final : public HostCommunicator {
 public:
  /// Each rank of `view` makes one, over memory in which no round has taken place.
  RegionCommunicator(View view, Member member, const WaitOptions& wait);

  int rank() const override { return member_.rank; }
  int size() const override { return view_.layout().ranks; }
  std::string name() const override { return member_.name; }

  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override;
  /// The own buffer of the next round, for sums of one round.
  std::span<float> place_for_roots(const device::TreeSum& sum, size_t elements) override;
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override;
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override;
  Result<void> barrier(device::Stream stream) override;
  Result<void> finish_sum(const TreeFinish& plan, std::span<const float> roots, std::span<float> dst) override;
  Result<void> reduce_slices(const SliceSums& wanted, std::span<const float> roots, size_t width,
                             std::span<float> dst) override;
  std::optional<std::span<const int>> missing() const override;
  device::OperationMark last_operation() const override { return log_.last(); }

 private:
  struct Operation;  // must be the same on all ranks

  // These return success; `failure_` has the error. (A `Result` at every level would cost as much as a flag.)
  bool enter(const Operation& operation, uint64_t own_bytes);
  bool meet();
  bool wait_for(int peer);
  bool reduce_piece(const TreeFinish& plan, std::span<const float> roots, std::span<float> dst, Range piece);
  /// Columns `piece` of own roots, f32 [rows, width], into the own buffer; then the next round.
  bool show_roots(int rows, std::span<const float> roots, size_t width, Range piece);
  /// The addresses of all roots from column `begin` of `piece` on, after `show_roots`.
  void set_sources(const TreeFinish& plan, std::span<const float> roots, size_t width, Range piece, int64_t begin);
  bool gather_slices(std::span<float> dst, Range piece);
  bool fail(Error error);

  std::byte* own_buffer() const { return view_.buffer(member_.rank, round_); }
  const std::byte* met_buffer(int rank) const { return view_.buffer(rank, round_ - 1); }
  Arrival arrival_of(int peer) const {
    return Arrival::unpack(view_.line(peer).arrival.load(std::memory_order_acquire));
  }
  int name_of(int peer) const { return member_.names.empty() ? peer : member_.names[static_cast<size_t>(peer)]; }
  Error disagreement(int peer) const;
  /// Lists the ranks that have not entered the current round.
  void note_missing();
  Error expired();

  View view_;
  Member member_;
  const CopyOut copy_out_;  // to the own buffer
  Patience patience_;
  TreeFinisher finisher_;
  OperationLog log_;
  uint32_t round_ = 0;      // rounds entered
  uint64_t operation_ = 0;  // the current operation, packed
  uint32_t digest_ = 0;     // of the operation
  double round_bytes_;      // cost of a round, in bytes read from a peer
  std::vector<int> missing_;
  bool expired_ = false;
  std::optional<Error> failure_;  // the first failure, after which the communicator is unusable
};

}  // namespace lockstep::transport::region
