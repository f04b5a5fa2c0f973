// The backend for GPUs with its ranks on pretended hosts of this machine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/backends/cuda/backend.h"
#include "runtime/core/clock.h"
#include "tests/conformance/communicator/test_hosts.h"
#include "tests/cuda_stand_in/driver_under_test.h"
#include "transport/nccl/nccl.h"

namespace lockstep::conformance {

/// The host of each rank in a group of so many.
using HostsOfRanks = std::function<std::vector<int>(int ranks)>;

inline std::vector<int> alternating(int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank % 2);
  return hosts;
}
/// A host has twice as many ranks as the last one.
inline std::vector<int> uneven(int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(3 * rank < 2 * ranks ? 0 : 1);
  return hosts;
}
inline std::vector<int> one_each(int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank);
  return hosts;
}

/// Makes the backend when the size of its group is known.
class OnPretendedHosts final : public device::Backend {
 public:
  OnPretendedHosts(cuda::Options options, HostsOfRanks hosts, Duration deadline = std::chrono::seconds(20))
      : options_(std::move(options)),
        hosts_(std::move(hosts)),
        wait_{.abort = &no_abort_, .clock = &clock_, .deadline = deadline} {
    if (options_.abort != nullptr) wait_.abort = options_.abort;
  }

  std::string_view name() const override { return "cuda"; }
  device::Capabilities capabilities() const override { return cuda::capabilities(); }
  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    const int ranks = steps.front().own.ranks;
    options_.hosts = device::hosts_from(places_on(hosts_(ranks)));
    options_.ranks_of_device = ranks;
    options_.connect = transport::nccl::connect_devices(wait_);
    LOCKSTEP_TRY(backend_, cuda::make_backend(options_));
    return backend_->make_store(steps);
  }
  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    return backend_->compile(step, store, options);
  }

 private:
  cuda::Options options_;
  const HostsOfRanks hosts_;
  const AbortFlag no_abort_;
  const SteadyClock clock_;
  transport::WaitOptions wait_;
  std::unique_ptr<device::Backend> backend_;
};

}  // namespace lockstep::conformance
