#include "transport/mpi/messages.h"

#include <fmt/format.h>

namespace lockstep::transport::mpi {

Messages::Messages(Channel channel, FunneledQueue* queue, const WaitOptions& wait, const WaitStages& stages)
    : batch_(std::make_shared<MessageBatch>(std::move(channel), wait, stages)), queue_(queue), wait_(wait) {}

Result<void> Messages::finish_all(const device::OperationMark& operation) {
  batch_->begin(operation);
  if (queue_ != nullptr) {
    LOCKSTEP_TRY_VOID(hand_to_owner(operation));
  } else {
    while (!batch_->poll()) {
    }
  }
  return batch_->take_result();
}

Result<void> Messages::hand_to_owner(const device::OperationMark& operation) {
  const FunneledQueue::Ran ran = queue_->run(batch_, wait_);
  if (ran == FunneledQueue::Ran::kOver) return ok();
  if (ran == FunneledQueue::Ran::kAborted) return patience().abort_reason();
  const int rank = batch_->channel().name_of(batch_->channel().rank);
  return Error{ErrorKind::kDeadlineExceeded,
               fmt::format("[transport/mpi] rank {}: {} (operation {}) was given up: found MPI with one thread (level "
                           "funneled or single) that lent none of its time for {:.3g} s, expected it in a wait of this "
                           "library; wait for results on the thread that adopted the communicator, or initialise MPI "
                           "with MPI_THREAD_SERIALIZED",
                           rank, operation.operation, operation.sequence, to_seconds(wait_.deadline)),
               rank};
}

}  // namespace lockstep::transport::mpi
