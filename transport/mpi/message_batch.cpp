#include "transport/mpi/message_batch.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace lockstep::transport::mpi {
namespace {

constexpr size_t kLongestMessage = 1u << 30;  // MPI counts in int

}  // namespace

MessageBatch::MessageBatch(Channel channel, const WaitOptions& wait, const WaitStages& stages)
    : channel_(std::move(channel)), patience_(wait, stages), requests_(channel_.library->new_requests()) {
  posts_.reserve(4 * channel_.members.size());
}

void MessageBatch::receive(int peer, std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kLongestMessage) {
    const auto part = bytes.subspan(at, std::min(bytes.size() - at, kLongestMessage));
    posts_.push_back({.peer = peer, .data = part.data(), .size = part.size(), .is_receive = true});
  }
}

void MessageBatch::send(int peer, std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kLongestMessage) {
    const auto part = bytes.subspan(at, std::min(bytes.size() - at, kLongestMessage));
    posts_.push_back({.peer = peer, .data = const_cast<std::byte*>(part.data()), .size = part.size()});  // only read
  }
}

void MessageBatch::begin(const device::OperationMark& operation) {
  operation_ = operation;
  is_posted_ = false;
  patience_.begin_wait();
}

bool MessageBatch::poll() {
  const Result<bool> looked = look();
  if (looked.has_value()) return looked.value();
  error_ = looked.error();
  requests_->give_up();
  return true;
}

void MessageBatch::abandon() { requests_->give_up(); }

Result<void> MessageBatch::take_result() {
  if (error_) return *error_;
  requests_->clear();
  posts_.clear();
  return ok();
}

Result<void> MessageBatch::post_all() {
  is_posted_ = true;
  for (const Post& post : posts_) {
    const Envelope envelope{
        .comm = channel_.comm, .peer = channel_.members[static_cast<size_t>(post.peer)], .tag = channel_.tag};
    const std::span bytes(post.data, post.size);
    const Code code = post.is_receive ? requests_->receive(envelope, bytes) : requests_->send(envelope, bytes);
    LOCKSTEP_TRY_VOID(check(*channel_.library, code, own_rank(), operation_.operation));
  }
  return ok();
}

Result<bool> MessageBatch::look() {
  if (!is_posted_) LOCKSTEP_TRY_VOID(post_all());
  const Requests::Look found = requests_->test();
  LOCKSTEP_TRY_VOID(check(*channel_.library, found.code, own_rank(), operation_.operation));
  if (found.is_over) return true;
  if (!found.done.empty()) {
    LOCKSTEP_TRY_VOID(check_received(found.done));
    patience_.begin_wait();
    return false;
  }
  switch (patience_.after_failed_look()) {
    case Patience::Verdict::kLookAgain: return false;
    case Patience::Verdict::kSleep: sched_yield(); return false;  // MPI makes progress only inside calls
    case Patience::Verdict::kAborted: return patience_.abort_reason();
    case Patience::Verdict::kExpired: break;
  }
  return expired();
}

Result<void> MessageBatch::check_received(std::span<const Requests::Done> done) const {
  for (const auto& [request, bytes] : done) {
    const Post& post = posts_[static_cast<size_t>(request)];
    if (!post.is_receive || static_cast<size_t>(bytes) == post.size) continue;
    const int peer = channel_.name_of(post.peer);
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format("[transport/mpi] rank {}: the ranks disagree on {} (operation {}): found {} bytes from rank "
                    "{}, expected {}; every rank must run the same steps",
                    own_rank(), operation_.operation, operation_.sequence, bytes, peer, post.size),
        peer};
  }
  return ok();
}

Error MessageBatch::expired() {
  has_expired_ = true;
  for (size_t i = 0; i < posts_.size(); ++i) {
    if (requests_->is_pending(static_cast<int>(i))) missing_.push_back(posts_[i].peer);
  }
  std::sort(missing_.begin(), missing_.end());
  missing_.erase(std::unique(missing_.begin(), missing_.end()), missing_.end());
  std::vector<int> names;
  for (const int peer : missing_) names.push_back(channel_.name_of(peer));
  return expired_error({.component = "transport/mpi",
                        .rank = own_rank(),
                        .operation = operation_,
                        .missing = names,
                        .deadline = patience_.deadline()});
}

std::optional<std::span<const int>> MessageBatch::missing() const {
  if (!has_expired_) return std::nullopt;
  return std::span<const int>(missing_);
}

}  // namespace lockstep::transport::mpi
