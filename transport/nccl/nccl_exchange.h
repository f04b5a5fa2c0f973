// One rank's endpoint of a communicator of NCCL.
//
//   calls │ in progress … polled until they are in the stream │ the device executes them │ check: errors that come late
//
// The communicator does not block, so every wait is ours: it ends with the abort flag and the deadline.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/device/device_exchange.h"
#include "transport/nccl/library.h"
#include "transport/waiting.h"

namespace lockstep::transport::nccl {

/// The ranks of an exchange, as one of them sees it.
struct Members {
  std::vector<int> ranks;  // of the group
  int own = 0;             // index in `ranks`
};

class NcclExchange final : public device::DeviceExchange {
 public:
  /// Meets the other members, which have the same id. @collective @blocking
  static Result<std::unique_ptr<NcclExchange>> start(std::shared_ptr<const Library> library, const ncclUniqueId& id,
                                                     Members members, const WaitOptions& wait);
  /// Ends the communicator without its members' help: no work of theirs may need this one.
  ~NcclExchange() override { abort(); }

  Result<void> all_gather(const void* src, std::span<const int64_t> counts, void* dst, device::Stream stream) override;
  Result<void> check() override;
  void abort() override;

 private:
  NcclExchange(std::shared_ptr<const Library> library, Members members, const WaitOptions& wait)
      : library_(std::move(library)), members_(std::move(members)), wait_(wait) {}

  const Functions& call() const { return library_->functions(); }
  Result<void> send_parts(const void* src, std::span<const int64_t> counts, void* dst, CUstream_st* stream);
  /// Waits until a call that returned `result` has ended. The first failure ends the exchange.
  Result<void> settle(ncclResult_t result, std::string_view operation, Duration deadline);
  Error fail(Error error);
  int own_rank() const { return members_.ranks[static_cast<size_t>(members_.own)]; }
  std::vector<int> others() const;
  Error failure_of(ncclResult_t result, std::string_view operation) const;
  Error expired(std::string_view operation, Duration deadline) const;

  const std::shared_ptr<const Library> library_;
  const Members members_;
  const WaitOptions wait_;
  ncclComm_t communicator_ = nullptr;
  std::optional<Error> failure_;
};

}  // namespace lockstep::transport::nccl
