#include "runtime/core/reserve_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <csignal>

#include "runtime/core/descriptor.h"

namespace lockstep {
namespace {

constexpr off_t kBytes = 256 << 20;

/// A signal that comes in the middle of the call, as long as that is not done.
TEST(ReserveFile, GoesOnAfterASignal) {
  struct sigaction own {
  }, before{};
  own.sa_handler = [](int) {};
  own.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGALRM, &own, &before), 0);
  const Descriptor file(memfd_create("reserve_file_test", MFD_CLOEXEC));
  const itimerval once = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 2000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &once, nullptr), 0);
  EXPECT_EQ(reserve_file(file.get(), 0, kBytes), 0);
  struct stat facts {};
  ASSERT_EQ(fstat(file.get(), &facts), 0);
  EXPECT_EQ(facts.st_blocks * 512, kBytes);
  sigaction(SIGALRM, &before, nullptr);
}

TEST(ReserveFile, ReportsWhatIsNoSignal) { EXPECT_EQ(reserve_file(-1, 0, kBytes), EBADF); }

}  // namespace
}  // namespace lockstep
