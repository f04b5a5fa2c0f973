// The probes of a GPU's limits run on the GPU, over all bytes and products that they count.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/backends/cuda/backend.h"
#include "runtime/backends/cuda/kernels/probe_parameters.h"
#include "runtime/device/backend.h"
#include "tests/cuda_stand_in/driver_under_test.h"
#include "tests/cuda_stand_in/libcuda.h"

namespace lockstep::conformance {
namespace {

using testing::HasSubstr;

constexpr Bytes kBytes(int64_t{1} << 20);

/// Kernels that have run; 0 for a driver that does not count.
int64_t launches() {
  void* library = dlopen(cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA).c_str(), RTLD_NOW);
  using Counts = cu::StandInCounts (*)();
  const auto counts = reinterpret_cast<Counts>(dlsym(library, "lockstep_stand_in_cuda_counts"));
  return counts == nullptr ? 0 : counts().launches;
}

class CudaLimits : public testing::Test {
 protected:
  std::unique_ptr<device::LimitsProbe> probe_of(const device::ProbedWork& work) {
    return backend_->make_limits_probe(work).value();
  }

  const std::unique_ptr<device::Backend> backend_ =
      cuda::make_backend({.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA)}).value();
};

TEST_F(CudaLimits, ReadEveryByteOfDeviceMemoryInOneLaunch) {
  // Of whole tiles: what is left over is not read, and not counted.
  const auto probe = probe_of({.bytes = kBytes + Bytes(1000)});
  ASSERT_EQ(probe->readers().size(), 9u);
  EXPECT_THAT(probe->readers()[4], HasSubstr("8 x 16 bytes a thread, 4 blocks a multiprocessor"));
  for (size_t reader = 0; reader < probe->readers().size(); ++reader) {
    const int64_t before = launches();
    const Result<device::ProbePass> pass = probe->read(reader);  // fails where the sum of the words is wrong
    ASSERT_TRUE(pass.has_value()) << pass.error().message;
    EXPECT_EQ(pass.value().amount, static_cast<double>(kBytes.value)) << probe->readers()[reader];
    EXPECT_GT(pass.value().time, Duration::zero());
    EXPECT_EQ(launches() - before, before > 0 ? 1 : 0);
  }
}

TEST_F(CudaLimits, CountTheOperationsOfEveryWarp) {
  struct Kind {
    device::ProbedWork work;
    const char* precision;
    double of_warp;  // operations of a warp each time
  };
  for (const Kind& kind : {Kind{{.dtype = DType::kBFloat16, .bytes = kBytes}, "bfloat16", 8 * 2.0 * 16 * 8 * 16},
                           Kind{{.dtype = DType::kFloat16, .bytes = kBytes}, "float16", 8 * 2.0 * 16 * 8 * 16},
                           Kind{{.dtype = DType::kFloat32, .bytes = kBytes}, "float32", 16 * 2.0 * 32},
                           Kind{{.has_int8_weights = true, .bytes = kBytes}, "int8", 16 * 8.0 * 32}}) {
    const auto probe = probe_of(kind.work);
    EXPECT_EQ(probe->precision(), kind.precision);
    ASSERT_GE(probe->multipliers().size(), 3u);
    const device::ProbePass one = probe->multiply(0).value(), four = probe->multiply(2).value();
    EXPECT_EQ(four.amount, 4 * one.amount);          // four blocks a multiprocessor instead of one
    const double times = one.amount / kind.of_warp;  // of all warps of all multiprocessors
    EXPECT_EQ(times, static_cast<double>(static_cast<int64_t>(times))) << kind.precision;
    EXPECT_GE(times, cuda::kProbeThreads / 32.0);
    if (probe->multipliers().size() == 3) continue;
    EXPECT_THAT(probe->multipliers()[3], HasSubstr("wgmma"));  // four products of 64 x 128 x 16 for four warps
    const double of_groups = probe->multiply(3).value().amount / (4 * 2.0 * 64 * 128 * 16 / 4);
    EXPECT_EQ(of_groups, static_cast<double>(static_cast<int64_t>(of_groups)));
    EXPECT_GE(of_groups, cuda::kProbeThreads / 32.0);
  }
}

TEST_F(CudaLimits, AreNotMeasuredOverMoreMemoryThanThereIs) {
  const Result<std::unique_ptr<device::LimitsProbe>> too_large =
      backend_->make_limits_probe({.bytes = Bytes(int64_t{1} << 50)});
  ASSERT_FALSE(too_large.has_value());
  EXPECT_EQ(too_large.error().kind, ErrorKind::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::conformance
