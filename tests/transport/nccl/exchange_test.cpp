// Exchanges between GPUs of several hosts over the stand-ins of NCCL and the CUDA driver; members are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "runtime/cuda/context.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/stream.h"
#include "tests/cuda_stand_in/fresh_copy.h"
#include "transport/loopback/loopback.h"
#include "transport/nccl/library.h"
#include "transport/nccl/nccl.h"

namespace lockstep::transport::nccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kMost = 4096;

/// Stand-ins with fresh settings, and the limits of waits.
struct Machine {
  std::filesystem::path cuda_file, nccl_file;
  std::unique_ptr<cu::Driver> driver;
  std::unique_ptr<cu::Context> context;
  SteadyClock clock;
  AbortFlag abort;
  WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(20)};

  explicit Machine(const char* cuda = "threaded", const char* nccl = "")
      : cuda_file(cu::fresh_copy(CUDA_STAND_IN, "LOCKSTEP_STAND_IN_CUDA", cuda)),
        nccl_file(cu::fresh_copy(NCCL_STAND_IN, "LOCKSTEP_STAND_IN_NCCL", nccl)),
        driver(std::move(cu::Driver::open(cuda_file).value())),
        context(std::move(cu::Context::create(*driver, 0).value())) {}
  ~Machine() {
    std::filesystem::remove(cuda_file);
    std::filesystem::remove(nccl_file);
  }

  /// Runs `body(rank, communicator)` on a thread for each rank.
  void run(int ranks, const std::function<void(int, device::Communicator&)>& body) {
    const auto group = loopback::make_group(ranks, 1 << 20, Crowding::kCrowded);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ASSERT_TRUE(context->make_current().has_value());
        body(rank, *loopback::make_communicator(group, rank, wait));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Result<std::unique_ptr<device::DeviceExchange>> connect(device::Communicator& communicator,
                                                          std::vector<int> members) const {
    return connect_devices(wait)({nccl_file, communicator, std::move(members)});
  }
  std::vector<int> all(int ranks) const {
    std::vector<int> members(static_cast<size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    return members;
  }
};

/// A member's GPU: what it sends, what it receives, and a host's view of both.
struct Gpu {
  std::unique_ptr<cu::Stream> stream;
  cu::DeviceMemory src, dst;
  cu::PinnedMemory sent, received;

  explicit Gpu(const cu::Context& context)
      : stream(std::move(cu::Stream::create(context).value())),
        src(std::move(cu::DeviceMemory::create(context, Bytes(kMost), "a test").value())),
        dst(std::move(cu::DeviceMemory::create(context, Bytes(kMost), "a test").value())),
        sent(std::move(cu::PinnedMemory::create(context, Bytes(kMost), "a test").value())),
        received(std::move(cu::PinnedMemory::create(context, Bytes(kMost), "a test").value())) {}

  /// Copies in, exchanges, copies out.
  Result<void> enqueue(device::DeviceExchange& exchange, std::span<const int64_t> counts) {
    LOCKSTEP_TRY_VOID(stream->copy_to_device(src.address(), sent.host()));
    LOCKSTEP_TRY_VOID(exchange.all_gather(reinterpret_cast<const void*>(src.address().value), counts,
                                          reinterpret_cast<void*>(dst.address().value), {stream->native()}));
    return stream->copy_to_host(received.host(), dst.address());
  }
};

std::byte contents(int member, int round, size_t i) {
  return static_cast<std::byte>(31 * member + 7 * round + static_cast<int>(i));
}

void expect_gathered(const Gpu& gpu, std::span<const int64_t> counts, int round) {
  size_t at = 0;
  for (size_t member = 0; member < counts.size(); ++member) {
    for (size_t i = 0; i < static_cast<size_t>(counts[member]); ++i, ++at) {
      ASSERT_EQ(gpu.received.host()[at], contents(static_cast<int>(member), round, i)) << member << " " << i;
    }
  }
}

class NcclExchanges : public testing::TestWithParam<const char*> {};

TEST_P(NcclExchanges, GatherEqualAndUnequalPartsInReplaysOfAGraph) {
  Machine machine(GetParam());
  machine.run(3, [&](int rank, device::Communicator& communicator) {
    auto exchange = machine.connect(communicator, machine.all(3));
    ASSERT_TRUE(exchange.has_value()) << exchange.error().message;
    for (const std::vector<int64_t>& counts :
         {std::vector<int64_t>{40, 40, 40}, std::vector<int64_t>{12, 0, 700}, std::vector<int64_t>{0, 0, 0}}) {
      Gpu gpu(*machine.context);
      ASSERT_TRUE(gpu.stream->begin_capture().has_value());
      const Result<void> enqueued = gpu.enqueue(*exchange.value(), counts);
      const auto graph = gpu.stream->end_capture();
      ASSERT_TRUE(enqueued.has_value()) << enqueued.error().message;
      for (int round = 0; round < 3; ++round) {
        for (size_t i = 0; i < kMost; ++i) gpu.sent.host()[i] = contents(rank, round, i);
        ASSERT_TRUE(graph.value()->launch(*gpu.stream).has_value());
        const Result<void> done = gpu.stream->wait({&machine.clock, machine.wait.deadline, nullptr, {}});
        ASSERT_TRUE(done.has_value()) << done.error().message;
        expect_gathered(gpu, counts, round);
      }
      EXPECT_TRUE(exchange.value()->check().has_value());
    }
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());
  });
}

TEST_P(NcclExchanges, ConnectRailsSideBySide) {
  Machine machine(GetParam());
  machine.run(5, [&](int rank, device::Communicator& communicator) {
    const std::vector<int> members = rank == 4 ? std::vector<int>{} : std::vector<int>{rank % 2, rank % 2 + 2};
    auto exchange = machine.connect(communicator, members);
    ASSERT_TRUE(exchange.has_value()) << exchange.error().message;
    EXPECT_EQ(exchange.value() == nullptr, rank == 4);
    if (rank < 4) {
      Gpu gpu(*machine.context);
      for (size_t i = 0; i < kMost; ++i) gpu.sent.host()[i] = contents(rank / 2, rank % 2, i);
      const std::vector<int64_t> counts = {100, 50};
      ASSERT_TRUE(gpu.enqueue(*exchange.value(), counts).has_value());
      ASSERT_TRUE(gpu.stream->wait({&machine.clock, machine.wait.deadline, nullptr, {}}).has_value());
      expect_gathered(gpu, counts, rank % 2);
    }
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(OrdersOfWork, NcclExchanges, testing::Values("eager", "lazy", "threaded"));

/// The errors of all ranks that connect.
std::vector<Error> errors_of(Machine& machine, int ranks) {
  std::vector<Error> errors(static_cast<size_t>(ranks));
  machine.run(ranks, [&](int rank, device::Communicator& communicator) {
    const auto made = machine.connect(communicator, machine.all(ranks));
    ASSERT_FALSE(made.has_value());
    errors[static_cast<size_t>(rank)] = made.error();
  });
  return errors;
}

TEST(NcclConnection, SaysOnEveryRankThatTheLibraryIsMissingOrTooOld) {
  Machine missing;
  std::filesystem::remove(missing.nccl_file);
  for (const Error& error : errors_of(missing, 2)) {
    EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
    EXPECT_THAT(error.message, AllOf(HasSubstr("cannot load NCCL"), HasSubstr("--nccl")));
  }
  Machine old("threaded", "version=21403");
  for (const Error& error : errors_of(old, 2)) {
    EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
    EXPECT_THAT(error.message, HasSubstr("found NCCL 2.14.3, expected 2.27.7 or newer"));
  }
  EXPECT_THAT(describe("libm.so.6").error().message, HasSubstr("found no ncclGetVersion, ncclGetUniqueId,"));
  EXPECT_EQ(describe(Machine().nccl_file).value(), "NCCL 2.28.9");
}

TEST(NcclConnection, TellsEveryRankOfTheOneThatCannotStart) {
  Machine machine("threaded", "CommInitRankConfig@1:1=2");
  machine.wait.deadline = std::chrono::milliseconds(600);
  const std::vector<Error> errors = errors_of(machine, 3);
  EXPECT_EQ(errors[1].kind, ErrorKind::kUnavailable);
  EXPECT_THAT(errors[1].message, AllOf(HasSubstr("ncclSystemError"), HasSubstr("NCCL_SOCKET_IFNAME")));
  for (const int rank : {0, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)].kind, ErrorKind::kDeadlineExceeded);
    EXPECT_THAT(errors[static_cast<size_t>(rank)].message, HasSubstr("found nothing from one or more of ranks"));
  }
}

TEST(NcclConnection, EndsAtTheDeadlineWhereAMemberNeverMeetsTheOthers) {
  Machine machine("threaded", "CommInitRankConfig:1+=hang");
  machine.wait.deadline = std::chrono::milliseconds(400);
  const std::vector<Error> errors = errors_of(machine, 2);
  for (const Error& error : errors) EXPECT_EQ(error.kind, ErrorKind::kDeadlineExceeded) << error.message;
  EXPECT_THAT(errors[0].message, HasSubstr("cannot connect the GPUs of several hosts: found nothing from rank 1"));
  EXPECT_EQ(errors[0].origin_rank, 1);
}

TEST(NcclConnection, EndsWhereTheGroupIsAborted) {
  Machine machine("threaded", "CommInitRankConfig:1+=hang");
  std::thread other([&] { machine.abort.raise({ErrorKind::kPeerLost, "[test] rank 7 was lost"}); });
  for (const Error& error : errors_of(machine, 2)) EXPECT_EQ(error.message, "[test] rank 7 was lost");
  other.join();
}

/// Runs one exchange of two members, and `look(rank, exchange, gpu)` while it is under way.
void exchange_and(Machine& machine, std::vector<int64_t> counts,
                  const std::function<void(int, device::DeviceExchange&, Gpu&)>& look) {
  machine.run(2, [&](int rank, device::Communicator& communicator) {
    auto exchange = machine.connect(communicator, machine.all(2));
    ASSERT_TRUE(exchange.has_value()) << exchange.error().message;
    Gpu gpu(*machine.context);
    const Result<void> enqueued = gpu.enqueue(*exchange.value(), counts);
    ASSERT_TRUE(enqueued.has_value()) << enqueued.error().message;
    look(rank, *exchange.value(), gpu);
    exchange.value()->abort();  // before the stream ends, which waits for its work
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());
  });
}

TEST(NcclWork, ReportsAnErrorThatComesLateAndEndsByAbort) {
  Machine machine("threaded", "Work:1+=6");
  exchange_and(machine, {8, 8}, [&](int rank, device::DeviceExchange& exchange, Gpu& gpu) {
    const cu::WaitLimit limit{&machine.clock, machine.wait.deadline, nullptr, [&] { return exchange.check(); }};
    const Result<void> waited = gpu.stream->wait(limit);
    ASSERT_FALSE(waited.has_value());
    EXPECT_EQ(waited.error().kind, ErrorKind::kPeerLost);
    EXPECT_EQ(waited.error().origin_rank, 1 - rank);
    EXPECT_THAT(waited.error().message, AllOf(HasSubstr("ncclRemoteError"), HasSubstr("the other hosts' ranks")));
    EXPECT_TRUE(gpu.stream->wait({&machine.clock, machine.wait.deadline, nullptr, {}}).has_value());
    EXPECT_EQ(exchange.check().error().kind, ErrorKind::kPeerLost);
  });
}

TEST(NcclWork, ThatWaitsForAMemberEndsByAbort) {
  Machine machine("threaded", "Work@1:1=hang");
  exchange_and(machine, {8, 8}, [&](int, device::DeviceExchange& exchange, Gpu& gpu) {
    const Result<void> waited = gpu.stream->wait({&machine.clock, std::chrono::milliseconds(50), nullptr, {}});
    EXPECT_EQ(waited.error().kind, ErrorKind::kDeadlineExceeded);
    EXPECT_TRUE(exchange.check().has_value());
    exchange.abort();
    EXPECT_TRUE(gpu.stream->wait({&machine.clock, machine.wait.deadline, nullptr, {}}).has_value());
  });
}

TEST(NcclStandIn, NamesWhatMembersSendEachOtherWhereTheyDiffer) {
  Machine machine("threaded");
  testing::internal::CaptureStderr();
  machine.run(2, [&](int rank, device::Communicator& communicator) {
    auto exchange = machine.connect(communicator, machine.all(2));
    ASSERT_TRUE(exchange.has_value()) << exchange.error().message;
    Gpu gpu(*machine.context);
    const std::vector<int64_t> counts(2, rank == 0 ? 8 : 12);
    Result<void> waited = gpu.enqueue(*exchange.value(), counts);  // the GPU may be lost already
    if (waited.has_value()) waited = gpu.stream->wait({&machine.clock, machine.wait.deadline, nullptr, {}});
    ASSERT_FALSE(waited.has_value());
    EXPECT_THAT(waited.error().message, HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
    exchange.value()->abort();
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("found 12 bytes by AllGather 0 from member 1, expected 8 bytes by AllGather 0"));
}

TEST(NcclStandIn, RefusesACallWhileAnEarlierOneIsInProgress) {
  Machine machine("threaded");
  testing::internal::CaptureStderr();
  machine.run(1, [&](int, device::Communicator&) {
    const auto library = Library::open(machine.nccl_file).value();
    const Functions& call = library->functions();
    ncclUniqueId id;
    ncclComm_t communicator = nullptr;
    ncclConfig_t config{.size = sizeof config, .magic = kConfigMagic, .version = kConfigVersion, .blocking = 0};
    ASSERT_EQ(call.GetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(call.CommInitRankConfig(&communicator, 1, id, 0, &config), ncclInProgress);
    Gpu gpu(*machine.context);
    const auto gather = [&] {
      return call.AllGather(reinterpret_cast<const void*>(gpu.src.address().value),
                            reinterpret_cast<void*>(gpu.dst.address().value), 8, ncclUint8, communicator,
                            gpu.stream->native());
    };
    EXPECT_EQ(gather(), ncclInvalidUsage);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) ASSERT_EQ(call.CommGetAsyncError(communicator, &state), ncclSuccess);
    EXPECT_EQ(gather(), ncclInProgress);
    EXPECT_EQ(gather(), ncclInvalidUsage);
    EXPECT_EQ(call.CommAbort(communicator), ncclSuccess);
    EXPECT_EQ(call.CommAbort(communicator), ncclInvalidArgument);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("AllGather while an earlier call is in progress"));
}

}  // namespace
}  // namespace lockstep::transport::nccl
