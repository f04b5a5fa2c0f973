// The implementation of two_level.h: the ranks of each part, and the data between the parts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/host_levels.h"
#include "transport/operation_log.h"
#include "transport/two_level/two_level.h"

namespace lockstep::transport::two_level {

class TwoLevelCommunicator final : public device::Communicator {
 public:
  TwoLevelCommunicator(Hosts hosts, int rank, Parts parts, const WaitOptions& wait, const Options& options);

  int rank() const override { return rank_; }
  int size() const override { return hosts_.ranks(); }
  std::string name() const override;

  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override;
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override;
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override;
  Result<void> barrier(device::Stream stream) override;
  device::OperationMark last_operation() const override { return log_.last(); }

 private:
  /// The stage of an operation, which determines the ranks that may be missing.
  enum class Stage { kCollect, kBetween, kSpread };

  struct PlannedSum {
    BlockSplit split;
    device::HostLevels levels;
  };

  bool on_rail(int rails) const { return local_ < rails; }
  /// The number of rails for a message of this many bytes.
  int rails_for(int64_t bytes) const;
  const device::HostLevels& levels_of(const device::TreeSum& sum);
  Result<void> reduce_piece(const device::HostLevels& levels, std::span<const float> roots, std::span<float> dst,
                            Range piece);
  /// Parts of the host's ranks that this rail carries, one after the other, in `carried_`.
  Result<void> collect_parts(std::span<const std::byte> src, std::span<const int64_t> counts, int rails);
  /// The gathered data of every rail, in `spread_` or directly in its place.
  Result<void> spread_parts(std::span<const int64_t> counts, int rails, std::span<std::byte> dst);
  int64_t bytes_on_rail(std::span<const int64_t> counts, const Host& host, int rail, int rails) const;

  Result<void> enter(const char* operation, uint64_t own_bytes);
  /// Keeps the first failure of a part, in the words of this communicator if a deadline passed.
  Result<void> after(Stage stage, Result<void> done);
  Error expired(Stage stage, const PartCommunicator& part) const;

  const Hosts hosts_;
  const int rank_;
  const int local_;            // this rank's number on its host
  const bool hosts_in_order_;  // ranks are numbered host by host
  const Parts parts_;
  const WaitOptions wait_;
  const Options options_;
  OperationLog log_;
  std::vector<PlannedSum> sums_;
  std::vector<Range> slices_;            // [ranks of the host]
  std::vector<int64_t> within_counts_;   // [ranks of the host]
  std::vector<int64_t> between_counts_;  // [hosts]
  std::vector<float> brought_;           // the host's roots of a slice
  std::vector<std::byte> collected_, carried_, received_, spread_;
  std::optional<Error> failure_;  // the first failure, after which the communicator is unusable
};

}  // namespace lockstep::transport::two_level
