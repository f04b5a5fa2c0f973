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
  /// Over `channel`. `queue` is that of MPI's one thread, null where any thread may call MPI; borrowed.
  Messages(Channel channel, FunneledQueue* queue, const WaitOptions& wait, const WaitStages& stages);

  /// The place among the members and their number.
  int rank() const { return batch_->channel().rank; }
  int size() const { return static_cast<int>(batch_->channel().members.size()); }
  Patience& patience() { return batch_->patience(); }

  /// Memory stays untouched until `finish_all`. No bytes: no message.
  void receive(int peer, std::span<std::byte> bytes) { batch_->receive(peer, bytes); }
  void send(int peer, std::span<const std::byte> bytes) { batch_->send(peer, bytes); }

  /// The members that were waited for when a deadline passed; nothing if none passed.
  std::optional<std::span<const int>> missing() const { return batch_->missing(); }

  /// Waits until everything that was posted is done. `operation` is named in errors. After an error only the destructor
  /// may be called.
  /// @blocking
  Result<void> finish_all(const device::OperationMark& operation);

 private:
  Result<void> hand_to_owner(const device::OperationMark& operation);

  std::shared_ptr<MessageBatch> batch_;  // shared with the queue while MPI's thread has it
  FunneledQueue* queue_;
  WaitOptions wait_;
};

}  // namespace lockstep::transport::mpi
