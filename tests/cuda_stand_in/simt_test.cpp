// What the shim says of kernels with mistakes.
#include "tests/cuda_stand_in/simt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "runtime/backends/cuda/kernels/device.h"

namespace lockstep::cuda {

struct Probe {
  float* values;
  uint32_t* flag;
  int count;
};

struct Rows {
  float row[64];
};

LOCKSTEP_KERNEL(probe_reverse, Probe, 64) {
  Rows& shared = shared_memory<Rows>();
  shared.row[thread_index()] = p.values[thread_index()];
  sync_block();
  p.values[thread_index()] = shared.row[thread_count() - 1 - thread_index()];
}

LOCKSTEP_KERNEL(probe_reverse_without_barrier, Probe, 64) {
  Rows& shared = shared_memory<Rows>();
  shared.row[thread_index()] = p.values[thread_index()];
  p.values[thread_index()] = shared.row[thread_count() - 1 - thread_index()];
}

LOCKSTEP_KERNEL(probe_half_a_warp, Probe, 32) {
  if (thread_index() < 16) sync_warp();
  p.values[thread_index()] = shuffle_xor(p.values[thread_index()], 1);
}

LOCKSTEP_KERNEL(probe_thread_left, Probe, 64) {
  if (thread_index() >= p.count) return;
  sync_block();
}

LOCKSTEP_KERNEL(probe_copy, Probe, 32) {
  Rows& shared = shared_memory<Rows>();
  if (thread_index() < 4) {
    copy_async_16(&shared.row[thread_index() * 4], &p.values[thread_index() * 4]);
    commit_copies();
    if (p.count == 0) wait_copies<0>();
    if (p.count == 1) wait_copies<1>();
  }
  sync_block();
  if (thread_index() < 16) p.values[16 + thread_index()] = shared.row[thread_index()];
  sync_block();
  if (thread_index() < 4) wait_copies<0>();
}

LOCKSTEP_KERNEL(probe_copies_left, Probe, 32) {
  Rows& shared = shared_memory<Rows>();
  copy_async_16(&shared.row[0], &p.values[0]);
}

LOCKSTEP_KERNEL(probe_wait_for_block, Probe, 32) {
  if (block_index() == 1) {
    store_release(p.flag, 1);
    return;
  }
  while (load_acquire(p.flag) == 0) look_later();
}

LOCKSTEP_KERNEL(probe_follow, Probe, 32) {
  follow_previous();
  if (block_index() == 0 && thread_index() == 0) p.values[1] = p.values[0];
}

LOCKSTEP_KERNEL(probe_read_too_early, Probe, 32) {
  const float value = p.values[0];
  follow_previous();
  if (block_index() == 0) p.values[1] = value;
}

LOCKSTEP_KERNEL(probe_does_not_follow, Probe, 32) {
  if (thread_index() == 5 + p.count) return;
  follow_previous();
}

LOCKSTEP_KERNEL(probe_shared_bytes, Probe, 32) { shared_memory<Rows>().row[thread_index()] = p.values[0]; }

namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  std::vector<float> values = std::vector<float>(64);
  uint32_t flag = 0;

  Case() {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  }
  std::string run(const char* kernel, const simt::Grid& grid, int count = 0, const std::atomic<bool>* stop = nullptr) {
    const Probe probe{values.data(), &flag, count};
    return simt::run(*simt::find_kernel(kernel), grid, &probe, stop);
  }
};

TEST(Simt, RunsThreadsThatMeet) {
  for (const simt::Order order : {simt::Order::kUp, simt::Order::kDown, simt::Order::kShuffled}) {
    Case probe;
    EXPECT_THAT(probe.run("probe_reverse", {.threads = 64, .shared_bytes = sizeof(Rows), .order = order}), IsEmpty());
    for (int i = 0; i < 64; ++i) ASSERT_EQ(probe.values[static_cast<size_t>(i)], static_cast<float>(63 - i));
  }
}

TEST(Simt, ShowsAMissingBarrier) {
  Case probe;
  EXPECT_THAT(probe.run("probe_reverse_without_barrier", {.threads = 64, .shared_bytes = sizeof(Rows)}), IsEmpty());
  EXPECT_TRUE(std::isnan(probe.values[0]));  // of thread 63, which had not run
}

TEST(Simt, NamesLanesThatPart) {
  EXPECT_THAT(
      Case().run("probe_half_a_warp", {.threads = 32}),
      testing::AllOf(HasSubstr("lanes part"), HasSubstr("sync_warp (simt_test.cpp:"), HasSubstr("shuffle_xor")));
}

TEST(Simt, NamesAThreadThatLeftABarrierOut) {
  EXPECT_THAT(Case().run("probe_thread_left", {.threads = 64}, 40), HasSubstr("thread 40 has ended"));
  EXPECT_THAT(Case().run("probe_thread_left", {.threads = 64}, 64), IsEmpty());
}

TEST(Simt, KeepsCopiesBackUntilTheyAreWaitedFor) {
  const simt::Grid grid{.threads = 32, .shared_bytes = sizeof(Rows)};
  Case waits;
  EXPECT_THAT(waits.run("probe_copy", grid, 0), IsEmpty());
  EXPECT_EQ(waits.values[17], 1.0f);
  Case one_too_few;
  EXPECT_THAT(one_too_few.run("probe_copy", grid, 1), IsEmpty());
  EXPECT_TRUE(std::isnan(one_too_few.values[17]));
  EXPECT_THAT(Case().run("probe_copies_left", grid), HasSubstr("copies under way"));
}

TEST(Simt, EndsBlocksThatWaitForBlocksThatAreNotThere) {
  Case probe;
  EXPECT_THAT(probe.run("probe_wait_for_block", {.blocks = 2, .threads = 32, .side_by_side = true}), IsEmpty());
  const std::atomic<bool> stop = true;  // one block at a time: the first waits for ever
  EXPECT_THAT(Case().run("probe_wait_for_block", {.blocks = 2, .threads = 32}, 0, &stop), HasSubstr("lost"));
}

/// What a launch that starts early leaves behind, if the one ahead of it writes 7 into values[0].
float first_value_after(const char* kernel, Case& probe, std::string& wrong) {
  const Probe parameters{probe.values.data(), &probe.flag, 0};
  simt::EarlyGrid early(*simt::find_kernel(kernel), {.blocks = 5, .threads = 32, .starts_early = true}, &parameters);
  early.start();
  probe.values[0] = 7.0f;
  wrong = early.finish();
  return probe.values[1];
}

TEST(Simt, StartsLaunchesBeforeTheOneAheadHasRun) {
  Case probe;
  std::string wrong;
  EXPECT_EQ(first_value_after("probe_follow", probe, wrong), 7.0f);
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(Simt, ShowsWhatIsReadTooEarly) {
  Case probe;
  std::string wrong;
  EXPECT_EQ(first_value_after("probe_read_too_early", probe, wrong), 0.0f);
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(Simt, NamesAThreadThatDoesNotFollow) {
  Case probe;
  std::string wrong;
  first_value_after("probe_does_not_follow", probe, wrong);
  EXPECT_THAT(wrong, HasSubstr("ended without following"));
}

TEST(Simt, ChecksTheLaunch) {
  EXPECT_THAT(Case().run("probe_shared_bytes", {.threads = 32, .shared_bytes = 8}), HasSubstr("shared memory"));
  EXPECT_THAT(Case().run("probe_shared_bytes", {.threads = 64, .shared_bytes = 256}), HasSubstr("at most 32"));
  EXPECT_EQ(simt::find_kernel("no_such_kernel"), nullptr);
}

}  // namespace
}  // namespace lockstep::cuda
