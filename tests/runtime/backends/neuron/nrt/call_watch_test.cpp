#include "runtime/backends/neuron/nrt/call_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace lockstep::nrt {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kPatience = 20s;  // of a loaded machine

/// A watch that records its messages.
struct Watched {
  explicit Watched(const AbortFlag* abort = nullptr)
      : watch({.abort = abort,
               .on_stuck = [this](const Error& error) { said.set_value(error); },
               .period = 1ms,
               .abort_grace = 1ms}) {}

  std::promise<Error> said;
  std::future<Error> heard = said.get_future();
  CallWatch watch;
};

TEST(CallWatch, TellsWhenACallTakesTooLong) {
  Watched watched;
  const std::string operation = "load decode together with 2 ranks";
  const auto guard = watched.watch.watch(operation, 5ms);
  ASSERT_EQ(watched.heard.wait_for(kPatience), std::future_status::ready);
  const Error error = watched.heard.get();
  EXPECT_EQ(error.kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(error.message, HasSubstr("cannot load decode together with 2 ranks: found no end after 0.005 s"));
}

TEST(CallWatch, TellsWhyACallMustEnd) {
  AbortFlag abort;
  Watched watched(&abort);
  const std::string operation = "run decode";
  const auto guard = watched.watch.watch(operation, std::chrono::hours(1));
  abort.raise({ErrorKind::kPeerLost, "rank 1 is gone", 1});
  ASSERT_EQ(watched.heard.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(watched.heard.get().kind, ErrorKind::kPeerLost);
}

TEST(CallWatch, SaysNothingOfCallsThatEnd) {
  Watched watched;
  const std::string operation = "run decode";
  for (int i = 0; i < 100; ++i) {
    const auto guard = watched.watch.watch(operation, std::chrono::hours(1));
  }
  EXPECT_EQ(watched.heard.wait_for(20ms), std::future_status::timeout);
}

}  // namespace
}  // namespace lockstep::nrt
