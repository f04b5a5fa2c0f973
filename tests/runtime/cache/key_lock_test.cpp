#include "runtime/cache/key_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_directory.h"

namespace lockstep::cache {
namespace {

using ::testing::HasSubstr;

/// A process that holds the lock at `path` until it is killed.
class HoldingProcess {
 public:
  explicit HoldingProcess(const std::filesystem::path& path) {
    int ready[2];
    LOCKSTEP_CHECK(::pipe(ready) == 0);
    process_ = ::fork();
    if (process_ == 0) hold(path, ready[1]);
    ::close(ready[1]);
    char byte = 0;
    LOCKSTEP_CHECK(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
  }
  ~HoldingProcess() { kill(); }

  pid_t process() const { return process_; }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  [[noreturn]] static void hold(const std::filesystem::path& path, int ready) {
    const auto lock = KeyLock::acquire(path, {.most_s = 10.0});
    if (lock.has_value()) [[maybe_unused]]
      const ssize_t said = ::write(ready, "x", 1);
    while (true) ::pause();
  }

  pid_t process_ = 0;
};

TEST(KeyLock, IsFreeAtOnceWhenItsHolderWasKilled) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "locks" / "a";
  HoldingProcess holder(path);
  const auto refused = KeyLock::acquire(path, {.most_s = 0.05});
  EXPECT_EQ(refused.error().kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(refused.error().message, HasSubstr("process " + std::to_string(holder.process())));
  holder.kill();
  const auto lock = KeyLock::acquire(path, {.most_s = 0.0});
  ASSERT_TRUE(lock.has_value());
  EXPECT_FALSE(lock.value().has_waited());
  EXPECT_TRUE(lock.value().excludes());
}

TEST(KeyLock, EndsWithTheObject) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(KeyLock::acquire(path, {.most_s = 0.0}).has_value());
}

TEST(KeyLock, SaysForWhomItWaits) {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a";
  HoldingProcess holder(path);
  std::string told;
  const LockWait wait{.most_s = 60.0, .told = [&](const std::string& who) {
                        told = who;
                        holder.kill();
                      }};
  const auto lock = KeyLock::acquire(path, wait);
  ASSERT_TRUE(lock.has_value());
  EXPECT_TRUE(lock.value().has_waited());
  EXPECT_THAT(told, HasSubstr(" on " + host_name() + " since 20"));
}

TEST(TimeText, IsWhatPeopleWriteWhateverTheNumber) {
  EXPECT_EQ(time_text(1'790'000'000'123), "2026-09-21 14:13:20 UTC");
  EXPECT_EQ(time_text(-5), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(time_text(INT64_MAX), "9999-12-31 23:59:59 UTC");
}

}  // namespace
}  // namespace lockstep::cache
