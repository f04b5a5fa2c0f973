// The collectives of a `Communicator` as direct exchanges between all pairs of ranks: tensor-parallel groups are small,
// a direct message has the least latency, and an error at the deadline can name the missing ranks.
//
//   small sum    every rank sends its roots to all; each finishes the whole tree
//   large sum    every rank sends slice r of its roots to rank r; each finishes its slice and sends it to all
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/mpi/messages.h"
#include "transport/operation_log.h"
#include "transport/parts.h"
#include "transport/tree_finisher.h"

namespace lockstep::transport::mpi {

class MpiCommunicator final : public PartCommunicator {
 public:
  explicit MpiCommunicator(std::unique_ptr<Messages> messages) : messages_(std::move(messages)) {}

  int rank() const override { return messages_->rank(); }
  int size() const override { return messages_->size(); }
  std::string name() const override { return "mpi"; }

  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override;
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override;
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override;
  Result<void> barrier(device::Stream stream) override;
  Result<void> finish_sum(const TreeFinish& plan, std::span<const float> roots, std::span<float> dst) override;
  std::optional<std::span<const int>> missing() const override { return messages_->missing(); }
  device::OperationMark last_operation() const override { return log_.last(); }

 private:
  Result<void> enter(const char* operation, uint64_t own_bytes);
  /// Waits for all posts; keeps the first failure.
  Result<void> finish();
  Error fail(Error error);
  Result<void> exchange_roots(const TreeFinish& plan, std::span<const float> roots, size_t columns, Range piece);
  Result<void> exchange_slices(const TreeFinish& plan, std::span<const float> roots, size_t columns, Range piece);
  Result<void> gather_slices(std::span<float> dst, Range piece);
  /// Own roots' columns `part`, dense; a copy in `packed_` from `at` on unless they are dense already.
  std::span<const float> pack(const TreeFinish& plan, std::span<const float> roots, size_t columns, Range part,
                              size_t at);

  std::unique_ptr<Messages> messages_;
  TreeFinisher finisher_;
  OperationLog log_;
  std::vector<float> packed_;    // own roots to send
  std::vector<float> received_;  // the peers' roots
  std::vector<std::byte> tokens_;
  std::optional<Error> failure_;  // the first failure, after which the communicator is unusable
};

}  // namespace lockstep::transport::mpi
