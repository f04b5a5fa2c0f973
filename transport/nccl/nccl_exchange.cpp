#include "transport/nccl/nccl_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "transport/nccl/nccl_status.h"

namespace lockstep::transport::nccl {
namespace {

bool has_failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

}  // namespace

Result<std::unique_ptr<NcclExchange>> NcclExchange::start(std::shared_ptr<const Library> library,
                                                          const ncclUniqueId& id, Members members,
                                                          const WaitOptions& wait) {
  std::unique_ptr<NcclExchange> exchange(new NcclExchange(std::move(library), std::move(members), wait));
  ncclConfig_t config{.size = sizeof config, .magic = kConfigMagic, .version = kConfigVersion, .blocking = 0};
  const int size = static_cast<int>(exchange->members_.ranks.size());
  const ncclResult_t result =
      exchange->call().CommInitRankConfig(&exchange->communicator_, size, id, exchange->members_.own, &config);
  // Half of the deadline: a rank that has failed waits for the others' outcome as long as it may.
  LOCKSTEP_TRY_VOID(exchange->settle(result, "connect the GPUs of several hosts", wait.deadline / 2));
  return exchange;
}

Result<void> NcclExchange::all_gather(const void* src, std::span<const int64_t> counts, void* dst,
                                      device::Stream stream) {
  if (failure_) return *failure_;
  LOCKSTEP_CHECK(counts.size() == members_.ranks.size(), counts.size(), members_.ranks.size());
  const bool is_even = std::ranges::all_of(counts, [&](int64_t count) { return count == counts.front(); });
  if (is_even && counts.front() == 0) return ok();
  auto* const queue = static_cast<CUstream_st*>(stream.native);
  if (!is_even) return send_parts(src, counts, dst, queue);
  const auto each = static_cast<size_t>(counts.front());
  return settle(call().AllGather(src, dst, each, ncclUint8, communicator_, queue), "gather between hosts",
                wait_.deadline);
}

Result<void> NcclExchange::send_parts(const void* src, std::span<const int64_t> counts, void* dst,
                                      CUstream_st* stream) {
  const auto own = static_cast<size_t>(counts[static_cast<size_t>(members_.own)]);
  ncclResult_t first = call().GroupStart();
  const auto note = [&](ncclResult_t result) {
    if (!has_failed(first)) first = result;
  };
  auto* to = static_cast<std::byte*>(dst);
  for (size_t member = 0; member < counts.size(); ++member) {
    const auto count = static_cast<size_t>(counts[member]);
    const auto peer = static_cast<int>(member);
    if (own > 0) note(call().Send(src, own, ncclUint8, peer, communicator_, stream));
    if (count > 0) note(call().Recv(to, count, ncclUint8, peer, communicator_, stream));
    to += count;
  }
  note(call().GroupEnd());
  return settle(first, "send to other hosts", wait_.deadline);
}

Result<void> NcclExchange::settle(ncclResult_t result, std::string_view operation, Duration deadline) {
  if (has_failed(result)) return fail(failure_of(result, operation));
  WaitOptions wait = wait_;
  wait.deadline = deadline;
  Patience patience(wait, wait_stages(/*crowded=*/true));
  while (true) {
    ncclResult_t state = ncclSuccess;
    result = call().CommGetAsyncError(communicator_, &state);
    if (has_failed(result)) return fail(failure_of(result, operation));
    if (has_failed(state)) return fail(failure_of(state, operation));
    if (state == ncclSuccess) return ok();
    switch (patience.after_failed_look()) {
      case Patience::Verdict::kLookAgain: break;
      case Patience::Verdict::kSleep: std::this_thread::sleep_for(patience.sleep()); break;
      case Patience::Verdict::kAborted: return fail(patience.abort_reason());
      case Patience::Verdict::kExpired: return fail(expired(operation, deadline));
    }
  }
}

Result<void> NcclExchange::check() {
  if (failure_) return *failure_;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = call().CommGetAsyncError(communicator_, &state);
  const ncclResult_t worse = has_failed(result) ? result : state;
  return has_failed(worse) ? Result<void>(fail(failure_of(worse, "exchange with other hosts"))) : ok();
}

void NcclExchange::abort() {
  if (communicator_ == nullptr) return;
  call().CommAbort(std::exchange(communicator_, nullptr));
  if (!failure_) failure_ = Error{ErrorKind::kCancelled, "[transport/nccl] the exchange between hosts was ended"};
}

Error NcclExchange::fail(Error error) {
  failure_ = error;
  abort();
  return error;
}

std::vector<int> NcclExchange::others() const {
  std::vector<int> ranks = members_.ranks;
  ranks.erase(ranks.begin() + members_.own);
  return ranks;
}

Error NcclExchange::failure_of(ncclResult_t result, std::string_view operation) const {
  const char* const last = communicator_ == nullptr ? "" : call().GetLastError(communicator_);
  Error error = error_of(result, fmt::format("{} on rank {}", operation, own_rank()), last == nullptr ? "" : last);
  if (result == ncclRemoteError && members_.ranks.size() == 2) error.origin_rank = others().front();
  return error;
}

Error NcclExchange::expired(std::string_view operation, Duration deadline) const {
  const std::vector<int> others = this->others();
  Error error{
      ErrorKind::kDeadlineExceeded,
      fmt::format("[transport/nccl] rank {}: cannot {}: found nothing from {} after {:.3g} s, expected {}; look "
                  "at the other hosts' ranks, choose the network between the hosts with NCCL_SOCKET_IFNAME, or "
                  "raise --deadline-s",
                  own_rank(), operation, others.size() == 1 ? rank_list(others) : "one or more of " + rank_list(others),
                  to_seconds(deadline), others.size() == 1 ? "its part" : "all of them")};
  if (others.size() == 1) error.origin_rank = others.front();
  return error;
}

}  // namespace lockstep::transport::nccl
