#include "transport/mpi/messages.h"

#include <algorithm>
#include <numeric>

#include "runtime/core/check.h"
#include "transport/mpi/mpi_status.h"

namespace lockstep::transport::mpi {
namespace {

constexpr int kTag = 0;                       // order between two ranks is kept, so one is enough
constexpr size_t kLongestMessage = 1u << 30;  // MPI counts in int

bool is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

}  // namespace

Messages::Messages(const WaitOptions& wait, bool crowded, std::vector<int> members)
    : patience_(wait, wait_stages(crowded)), members_(std::move(members)) {}

Result<std::unique_ptr<Messages>> Messages::open(const WaitOptions& wait, bool crowded, std::vector<int> members) {
  std::unique_ptr<Messages> messages(new Messages(wait, crowded, std::move(members)));
  LOCKSTEP_TRY_VOID(messages->duplicate_world());
  return messages;
}

void Messages::find_own_place() {
  int world_rank = 0, world_size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (members_.empty()) {
    members_.resize(static_cast<size_t>(world_size));
    std::iota(members_.begin(), members_.end(), 0);
  }
  const auto own = std::find(members_.begin(), members_.end(), world_rank);
  LOCKSTEP_CHECK(own != members_.end(), world_rank);
  rank_ = static_cast<int>(own - members_.begin());
}

Result<void> Messages::duplicate_world() {
  const device::OperationMark opening{.operation = "opening a communicator"};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // a failing exchange must not end the process
  find_own_place();
  requests_.reserve(4 * members_.size());
  pending_.reserve(4 * members_.size());
  MPI_Comm duplicate = MPI_COMM_NULL;
  requests_.push_back(MPI_REQUEST_NULL);
  pending_.push_back({.peer = rank_});
  status_ = MPI_Comm_idup(MPI_COMM_WORLD, &duplicate, requests_.data());
  patience_.begin_operation();
  LOCKSTEP_TRY_VOID(finish_all(opening));
  comm_ = duplicate;
  return check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), members_[rank_], opening.operation);
}

Messages::~Messages() {
  if (is_finalized()) return;
  // The communicator itself stays: freeing it is collective. MPI_Finalize takes it.
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (pending_[i].receive_bytes >= 0) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
}

void Messages::receive(int peer, std::span<std::byte> bytes) {
  while (!bytes.empty() && status_ == MPI_SUCCESS) {
    const auto part = bytes.first(std::min(bytes.size(), kLongestMessage));
    const int count = static_cast<int>(part.size());
    requests_.push_back(MPI_REQUEST_NULL);
    pending_.push_back({.peer = peer, .receive_bytes = count});
    status_ = MPI_Irecv(part.data(), count, MPI_BYTE, members_[peer], kTag, comm_, &requests_.back());
    bytes = bytes.subspan(part.size());
  }
}

void Messages::send(int peer, std::span<const std::byte> bytes) {
  while (!bytes.empty() && status_ == MPI_SUCCESS) {
    const auto part = bytes.first(std::min(bytes.size(), kLongestMessage));
    requests_.push_back(MPI_REQUEST_NULL);
    pending_.push_back({.peer = peer});
    status_ =
        MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, members_[peer], kTag, comm_, &requests_.back());
    bytes = bytes.subspan(part.size());
  }
}

Result<void> Messages::finish_all(const device::OperationMark& operation) {
  LOCKSTEP_CHECK(std::this_thread::get_id() == thread_);  // FUNNELED: one thread owns MPI
  LOCKSTEP_TRY_VOID(check(status_, members_[rank_], operation.operation));
  LOCKSTEP_TRY_VOID(drive(operation));
  requests_.clear();
  pending_.clear();
  return ok();
}

Result<void> Messages::drive(const device::OperationMark& operation) {
  const auto posted = static_cast<int>(requests_.size());
  statuses_.resize(requests_.size());
  completed_.resize(requests_.size());
  patience_.begin_wait();
  while (true) {
    int done = 0;
    const int status = MPI_Testsome(posted, requests_.data(), &done, completed_.data(), statuses_.data());
    if (done == MPI_UNDEFINED) return ok();  // nothing is active any more
    if (status == MPI_ERR_IN_STATUS) {
      for (int i = 0; i < done; ++i)
        LOCKSTEP_TRY_VOID(check(statuses_[i].MPI_ERROR, members_[rank_], operation.operation));
    }
    LOCKSTEP_TRY_VOID(check(status, members_[rank_], operation.operation));
    if (done > 0) {
      LOCKSTEP_TRY_VOID(check_received(operation, done));
      patience_.begin_wait();
      continue;
    }
    const Patience::Verdict verdict = patience_.after_failed_look();
    if (verdict == Patience::Verdict::kAborted || verdict == Patience::Verdict::kExpired) {
      return gave_up(verdict, operation);
    }
    if (verdict == Patience::Verdict::kSleep) std::this_thread::yield();  // MPI moves on only while it is called
  }
}

Result<void> Messages::check_received(const device::OperationMark& operation, int completed) {
  for (int i = 0; i < completed; ++i) {
    const Pending& pending = pending_[completed_[i]];
    int received = 0;
    if (pending.receive_bytes < 0) continue;
    MPI_Get_count(&statuses_[i], MPI_BYTE, &received);
    if (received == pending.receive_bytes) continue;
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format("[transport/mpi] rank {}: the ranks disagree on {} (operation {}): found {} bytes from rank "
                    "{}, expected {}; every rank must run the same steps",
                    members_[rank_], operation.operation, operation.sequence, received, members_[pending.peer],
                    pending.receive_bytes),
        members_[pending.peer]};
  }
  return ok();
}

Error Messages::gave_up(Patience::Verdict verdict, const device::OperationMark& operation) {
  if (verdict == Patience::Verdict::kAborted) return patience_.abort_reason();
  expired_ = true;
  missing_.clear();
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL && pending_[i].peer != rank_) missing_.push_back(pending_[i].peer);
  }
  std::sort(missing_.begin(), missing_.end());
  missing_.erase(std::unique(missing_.begin(), missing_.end()), missing_.end());
  std::vector<int> names;
  for (const int peer : missing_) names.push_back(members_[peer]);
  return expired_error({.component = "transport/mpi",
                        .rank = members_[rank_],
                        .operation = operation,
                        .missing = names,
                        .deadline = patience_.deadline()});
}

std::optional<std::span<const int>> Messages::missing() const {
  if (!expired_) return std::nullopt;
  return std::span<const int>(missing_);
}

}  // namespace lockstep::transport::mpi
