// runtime/cuda over the stand-in of the driver, eager and lazy, with the real device images.
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/backends/cuda/images.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"
#include "runtime/cuda/paged_memory.h"
#include "runtime/cuda/peer_access.h"
#include "runtime/cuda/status.h"
#include "runtime/cuda/stream.h"
#include "tests/cuda_stand_in/fresh_copy.h"
#include "tests/cuda_stand_in/libcuda.h"

namespace lockstep::cu {
namespace {

using testing::HasSubstr;

std::filesystem::path fresh_stand_in(const char* settings) {
  return fresh_copy(CUDA_STAND_IN, "LOCKSTEP_STAND_IN_CUDA", settings);
}

struct Device {
  std::filesystem::path file;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Context> context;
  std::unique_ptr<Stream> stream;

  explicit Device(const char* settings = "") : file(fresh_stand_in(settings)) {
    driver = std::move(Driver::open(file).value());
    context = std::move(Context::create(*driver, 0).value());
    stream = std::move(Stream::create(*context).value());
    std::filesystem::remove(file);
  }
  StandInCounts counts() const {
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto ask = reinterpret_cast<StandInCounts (*)()>(dlsym(handle, "lockstep_stand_in_cuda_counts"));
    const StandInCounts counts = ask();
    dlclose(handle);
    return counts;
  }
  Result<void> wait(Duration deadline = std::chrono::seconds(20), const AbortFlag* abort = nullptr) {
    return stream->wait({&clock, deadline, abort});
  }
  SteadyClock clock;
};

std::span<const std::byte> image_of(std::string_view name) {
  const auto image = std::find_if(cuda::images().begin(), cuda::images().end(),
                                  [&](const cuda::Image& candidate) { return candidate.name == name; });
  EXPECT_NE(image, cuda::images().end()) << name;
  return image->bytes;
}

class DriverTest : public testing::TestWithParam<const char*> {};

TEST_P(DriverTest, KnowsItsDevices) {
  Device device(GetParam());
  EXPECT_EQ(device.driver->version_text(), "13.0");
  const DeviceFacts& facts = device.context->device();
  EXPECT_EQ(facts.name, "Stand-in GPU 0");
  EXPECT_EQ(facts.uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(facts.bus, "0000:01:00.0");
  EXPECT_EQ(facts.capability(), 90);
  EXPECT_EQ(facts.memory, Bytes(int64_t{1} << 30));
  EXPECT_EQ(facts.multiprocessors, 4);
  EXPECT_EQ(facts.shared_bytes, 227 * 1024);
  EXPECT_EQ(facts.memory_bus_bits, 5120);
  EXPECT_TRUE(facts.has_cooperative_launch && facts.has_virtual_memory);
  EXPECT_EQ(device.driver->facts(1).error().kind, ErrorKind::kFailedPrecondition);
}

TEST_P(DriverTest, CopiesThroughDeviceMemoryAndFreesAll) {
  Device device(GetParam());
  const int64_t before = device.counts().allocations;
  {
    DeviceMemory memory = std::move(DeviceMemory::create(*device.context, Bytes(64), "a test").value());
    PinnedMemory pinned = std::move(PinnedMemory::create(*device.context, Bytes(128), "a test").value());
    EXPECT_EQ(pinned.host()[5], std::byte{0});
    for (int i = 0; i < 64; ++i) pinned.host()[static_cast<size_t>(i)] = static_cast<std::byte>(i);
    ASSERT_TRUE(device.stream->copy_to_device(memory.address(), pinned.host().first(64)).has_value());
    ASSERT_TRUE(device.stream->fill_zero(memory.address(), 8).has_value());
    ASSERT_TRUE(device.stream->copy(memory.address() + 16, memory.address() + 40, 8).has_value());
    ASSERT_TRUE(device.stream->copy_to_host(pinned.host().last(64), memory.address()).has_value());
    ASSERT_TRUE(device.wait().has_value());
    EXPECT_EQ(pinned.host()[64], std::byte{0});
    EXPECT_EQ(pinned.host()[64 + 16], std::byte{40});
    EXPECT_EQ(pinned.host()[64 + 63], std::byte{63});
  }
  EXPECT_EQ(device.counts().allocations, before);
}

TEST_P(DriverTest, ReplaysACapturedKernelWithoutAllocating) {
  Device device(GetParam());
  constexpr int kColumns = 40;
  DeviceMemory memory = std::move(DeviceMemory::create(*device.context, Bytes(3 * 4 * kColumns), "a test").value());
  PinnedMemory pinned = std::move(PinnedMemory::create(*device.context, Bytes(2 * 4 * kColumns), "a test").value());
  auto* values = reinterpret_cast<float*>(pinned.host().data());
  const auto module = Module::load(*device.context, image_of("rms_norm"));
  ASSERT_TRUE(module.has_value()) << module.error().message;
  const auto kernel = module.value()->find("rms_norm_f32", sizeof(cuda::RmsNormParameters), 256);
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  EXPECT_EQ(kernel.value().most_threads, cuda::kNormThreads);
  EXPECT_EQ(kernel.value().local_bytes, 0);
  const auto at = [&](int part) { return reinterpret_cast<float*>((memory.address() + part * 4 * kColumns).value); };
  const cuda::RmsNormParameters parameters{.x = at(0),
                                           .y = at(2),
                                           .x_stride = kColumns,
                                           .y_stride = kColumns,
                                           .norm = {at(1), nullptr, 0.0f, 0.0f, 0},
                                           .rows = {nullptr, 1},
                                           .groups = 1,
                                           .columns = kColumns};
  const LaunchShape shape{.blocks = 1, .threads = 64, .shared_bytes = 256};
  EXPECT_GT(module.value()->blocks_per_multiprocessor(kernel.value(), shape).value(), 1);

  ASSERT_TRUE(device.stream->begin_capture().has_value());
  ASSERT_TRUE(device.stream->copy_to_device(memory.address(), pinned.host()).has_value());
  ASSERT_TRUE(launch(*device.stream, kernel.value(), shape, &parameters).has_value());
  ASSERT_TRUE(
      device.stream->copy_to_host(pinned.host().first(4 * kColumns), memory.address() + 8 * kColumns).has_value());
  const auto graph = device.stream->end_capture();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph.value()->nodes(), 3);
  ASSERT_TRUE(device.wait().has_value());
  EXPECT_EQ(device.counts().launches, 0);

  const int64_t allocating = device.counts().allocating;
  for (int replay = 1; replay <= 3; ++replay) {
    for (int i = 0; i < kColumns; ++i) {
      values[i] = i % 2 == 0 ? 3.0f * static_cast<float>(replay) : -3.0f * static_cast<float>(replay);
      values[kColumns + i] = static_cast<float>(i);
    }
    ASSERT_TRUE(graph.value()->launch(*device.stream).has_value());
    ASSERT_TRUE(device.wait().has_value());
    for (int i = 0; i < kColumns; ++i) ASSERT_EQ(values[i], static_cast<float>(i % 2 == 0 ? i : -i)) << replay;
  }
  EXPECT_EQ(device.counts().launches, 3);
  EXPECT_EQ(device.counts().allocating, allocating);
}

TEST_P(DriverTest, RefusesAllocationsAndWaitsInACapture) {
  Device device(GetParam());
  ASSERT_TRUE(device.stream->begin_capture().has_value());
  EXPECT_THAT(DeviceMemory::create(*device.context, Bytes(8), "a test").error().message,
              HasSubstr("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
  EXPECT_THAT(device.stream->end_capture().error().message, HasSubstr("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
  ASSERT_TRUE(device.stream->begin_capture().has_value());
  EXPECT_FALSE(device.wait().has_value());
  EXPECT_FALSE(device.stream->end_capture().has_value());
  EXPECT_TRUE(device.wait().has_value());
}

TEST_P(DriverTest, CommitsPagesAtConstantAddresses) {
  Device device(GetParam());
  const int64_t before = device.counts().allocations;
  {
    PagePool pool = std::move(PagePool::create(*device.context, 2).value());
    const int64_t page = pool.page().value;
    PagedMemory memory = std::move(PagedMemory::reserve(pool, Bytes(5 * page - 3)).value());
    EXPECT_EQ(memory.reserved(), Bytes(5 * page));
    EXPECT_EQ(memory.committed(), Bytes(0));
    EXPECT_EQ(memory.commit(page - 8, 16, *device.stream).value(), 2);
    EXPECT_EQ(memory.commit(0, 2 * page, *device.stream).value(), 0);
    EXPECT_EQ(memory.commit(4 * page, 1, *device.stream).value(), 1);  // the pool is empty and grows
    EXPECT_EQ(memory.committed(), Bytes(3 * page));
    EXPECT_TRUE(memory.is_committed(0, 2 * page));
    EXPECT_FALSE(memory.is_committed(0, 2 * page + 1));
    ASSERT_TRUE(device.stream->fill_zero(memory.address() + (page - 8), 16).has_value());
    ASSERT_TRUE(device.wait().has_value());
    ASSERT_TRUE(memory.release().has_value());
    EXPECT_EQ(memory.committed(), Bytes(0));
    EXPECT_EQ(pool.spare(), 3);
  }
  EXPECT_EQ(device.counts().allocations, before);
}

TEST_P(DriverTest, LosesTheDeviceWhereAWorkUsesMemoryThatIsNotCommitted) {
  Device device(GetParam());
  PagePool pool = std::move(PagePool::create(*device.context, 1).value());
  PagedMemory memory = std::move(PagedMemory::reserve(pool, pool.page()).value());
  const Result<void> enqueued = device.stream->fill_zero(memory.address(), 16);
  const Result<void> waited = device.wait();
  const Error error = enqueued.has_value() ? waited.error() : enqueued.error();
  EXPECT_EQ(error.kind, ErrorKind::kInternal);
  EXPECT_THAT(error.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_FALSE(device.wait().has_value());
}

INSTANTIATE_TEST_SUITE_P(OrdersOfWork, DriverTest,
                         testing::Values("eager", "lazy", "lazy,down", "eager,shuffled", "threaded"));

TEST(Driver, SaysWhatIsMissing) {
  EXPECT_THAT(Driver::open("libno-such-driver.so.1").error().message,
              testing::AllOf(HasSubstr("cannot load the CUDA driver"), HasSubstr("--cuda-driver")));
  EXPECT_EQ(Driver::open("libno-such-driver.so.1").error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(Driver::open("libm.so.6").error().message, HasSubstr("found no cuInit, cuDriverGetVersion,"));
  EXPECT_THAT(Driver::open(fresh_stand_in("version=12080")).error().message,
              HasSubstr("found a driver of CUDA 12.8, expected 13.0 or newer"));
  const Error none = Driver::open(fresh_stand_in("devices=0")).error();
  EXPECT_EQ(none.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(none.message, HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST(Driver, SaysThatMemoryIsUsedUp) {
  Device device("memory=4194304");
  const DeviceMemory all = std::move(DeviceMemory::create(*device.context, Bytes(3 << 20), "the weights").value());
  EXPECT_EQ(device.context->free_memory().value(), Bytes(1 << 20));
  const Error error = DeviceMemory::create(*device.context, Bytes(2 << 20), "the weights").error();
  EXPECT_EQ(error.kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(error.message, testing::AllOf(HasSubstr("cannot reserve 2.00 MiB of GPU 0 for the weights"),
                                            HasSubstr("--max-seq-len")));
  EXPECT_EQ(PagePool::create(*device.context, 1).error().kind, ErrorKind::kResourceExhausted);
}

TEST(Driver, OpensTheMemoryOfAnotherProcess) {
  // The child shares memory and waits; this process opens it, and both see what the other writes.
  const std::filesystem::path file = fresh_stand_in("");
  int to_parent[2], to_child[2];
  ASSERT_EQ(pipe(to_parent), 0);
  ASSERT_EQ(pipe(to_child), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto driver = Driver::open(file);
    const auto context = Context::create(*driver.value(), 0);
    const auto memory = DeviceMemory::create(*context.value(), Bytes(1000), "a test");
    auto* const word = reinterpret_cast<volatile uint32_t*>(memory.value().address().value);
    *word = 7;
    const CUipcMemHandle handle = share(memory.value()).value();
    char answer = 0;
    const bool went_well = write(to_parent[1], &handle, sizeof handle) == sizeof handle &&
                           read(to_child[0], &answer, 1) == 1 && *word == 8;
    _exit(went_well ? 0 : 1);
  }
  const auto driver = Driver::open(file);
  const auto context = Context::create(*driver.value(), 0);
  CUipcMemHandle handle;
  ASSERT_EQ(read(to_parent[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  {
    const auto opened = SharedMemory::open(*context.value(), handle);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    auto* const word = reinterpret_cast<volatile uint32_t*>(opened.value().address().value);
    EXPECT_EQ(*word, 7u);
    *word = 8;
  }
  EXPECT_EQ(write(to_child[1], "a", 1), 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int end : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) close(end);
  std::filesystem::remove(file);
}

TEST(Driver, EnablesAccessToAnotherGpuOnceOrSaysWhyNot) {
  Device device("devices=2");
  const auto other = Context::create(*device.driver, 1);
  ASSERT_TRUE(device.context->make_current().has_value());
  EXPECT_TRUE(enable_peer_access(*device.context, other.value()->native()).has_value());
  EXPECT_TRUE(enable_peer_access(*device.context, other.value()->native()).has_value());
  Device apart("devices=2,CtxEnablePeerAccess:1=217");
  const auto far = Context::create(*apart.driver, 1);
  ASSERT_TRUE(apart.context->make_current().has_value());
  const Error error = enable_peer_access(*apart.context, far.value()->native()).error();
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("nvidia-smi topo -p2p r"));
}

TEST(Driver, RefusesAnotherImageAndAnotherParameterSize) {
  Device device;
  const std::vector<std::byte> text(256, std::byte{'x'});
  EXPECT_THAT(Module::load(*device.context, text).error().message, HasSubstr("CUDA_ERROR_INVALID_IMAGE"));
  for (const cuda::Image& image : cuda::images()) {
    EXPECT_TRUE(Module::load(*device.context, image.bytes).has_value()) << image.name;
  }
  const auto module = Module::load(*device.context, image_of("product"));
  EXPECT_THAT(module.value()->find("no_such_kernel", 8, 0).error().message, HasSubstr("CUDA_ERROR_NOT_FOUND"));
  EXPECT_THAT(module.value()->find("product_bf16", 8, 0).error().message, HasSubstr("bytes of parameters, expected 8"));
  EXPECT_FALSE(module.value()->find("product_bf16", sizeof(cuda::ProductParameters), 1 << 20).has_value());
  Device other("capability=80");
  EXPECT_EQ(Module::load(*other.context, image_of("product")).error().kind, ErrorKind::kUnavailable);
}

TEST(Driver, EndsAWaitAtItsDeadlineAndWhenItIsAborted) {
  Device device("lazy,EventQuery:1+=600");  // CUDA_ERROR_NOT_READY for ever
  EXPECT_EQ(device.wait(std::chrono::milliseconds(20)).error().kind, ErrorKind::kDeadlineExceeded);
  AbortFlag abort;
  abort.raise({ErrorKind::kPeerLost, "[test] rank 1 was lost"});
  EXPECT_EQ(device.wait(std::chrono::seconds(20), &abort).error().message, "[test] rank 1 was lost");
}

TEST(Driver, PassesOnTheErrorOfEachCall) {
  for (const StatusMeaning& meaning : status_meanings()) {
    if (meaning.status == CUDA_ERROR_NOT_READY) continue;
    Device device(fmt::format("EventQuery:1={}", static_cast<int>(meaning.status)).c_str());
    const Error error = device.wait().error();
    EXPECT_EQ(error.kind, meaning.kind);
    EXPECT_THAT(error.message,
                testing::AllOf(HasSubstr(std::string(meaning.name)), HasSubstr(std::string(meaning.advice))));
  }
  EXPECT_THAT(error_of(static_cast<CUresult>(12345), "try").message, HasSubstr("found status 12345"));
}

}  // namespace
}  // namespace lockstep::cu
