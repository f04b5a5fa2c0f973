// Byte messages between ranks: non-blocking sends and receives, completed together under the abort flag and the
// deadline. A communicator's only use of MPI.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "transport/mpi/message_batch.h"

namespace lockstep::transport::mpi {

/// One rank's endpoint. Between two `finish_all` the ranks post matching sends and receives; messages between two ranks
/// keep their order. Used by one thread at a time. The destructor calls no MPI.
class Messages {
 public:
  /// Over `channel`. `queue`: the queue of MPI's one thread, null if any thread may call MPI; borrowed.
  Messages(Channel channel, FunneledQueue* queue, const WaitOptions& wait, const WaitStages& stages);

  /// This rank's index among the members, and their number.
  int rank() const { return batch_->channel().rank; }
  int size() const { return static_cast<int>(batch_->channel().members.size()); }
  Patience& patience() { return batch_->patience(); }

  /// The caller leaves the memory untouched until `finish_all`. Zero bytes: no message.
  void receive(int peer, std::span<std::byte> bytes) { batch_->receive(peer, bytes); }
  void send(int peer, std::span<const std::byte> bytes) { batch_->send(peer, bytes); }

  /// The missing members at a passed deadline; empty if none passed.
  std::optional<std::span<const int>> missing() const { return batch_->missing(); }

  /// Waits until all posts are complete. Errors name `operation`. After an error only the destructor may be called.
  /// @blocking
  Result<void> finish_all(const device::OperationMark& operation);

 private:
  Result<void> hand_to_owner(const device::OperationMark& operation);

  std::shared_ptr<MessageBatch> batch_;  // shared with the queue of MPI's thread
  FunneledQueue* queue_;
  WaitOptions wait_;
};

}  // namespace lockstep::transport::mpi
