// Allocations, locks and system calls of a rank's thread inside and between decode steps. They are counted in a whole
// session: coordinator, schedules, executor, step clock, flight recorder, streaming.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <mutex>
#include <thread>

#include "actors/session.h"
#include "engine/observe/step_clock.h"
#include "runtime/trace/recorded_communicator.h"
#include "runtime/trace/timed_communicator.h"
#include "tests/step/tiny_rank.h"
#include "tests/step/watch.h"
#include "transport/loopback/loopback.h"

namespace lockstep::step {
namespace {

constexpr int32_t kFirst = 4, kLast = 28;  // watched steps of a schedule of `kSteps`
constexpr int32_t kSteps = 32;

/// Counts from the begin of step `kFirst` to the begin of step `kLast`, in the first schedule that has both.
class WatchedEngine final : public shards::StepEngineDecorator {
 public:
  using StepEngineDecorator::StepEngineDecorator;

  Asked in_steps, between;
  bool was_watched = false;

  Result<shards::StepOutput> decode(shards::StepTag tag) override {
    if (!was_watched && !is_watching_ && tag.step == kFirst) {
      if (!is_trapped_) is_trapped_ = watch_this_thread();
      is_watching_ = is_trapped_;
      end_of_step_ = asked_by_this_thread();
    }
    const Asked begin = asked_by_this_thread();
    if (is_watching_) between += begin - end_of_step_;
    if (is_watching_ && tag.step == kLast) {
      is_watching_ = false;
      was_watched = true;
    }
    Result<shards::StepOutput> output = inner().decode(tag);
    end_of_step_ = asked_by_this_thread();
    if (is_watching_) in_steps += end_of_step_ - begin;
    return output;
  }
  Result<void> confirm(shards::StepTag tag) override {
    if (tag.step < kLast) is_watching_ = false;  // the schedule was short
    return inner().confirm(tag);
  }

 private:
  bool is_trapped_ = false, is_watching_ = false;
  Asked end_of_step_;
};

struct CountingSink final : actors::Sink {
  std::atomic<int> tokens = 0;
  std::optional<Error> failure;

  actors::Verdict on_token(RequestId, const actors::MadeToken&) override {
    ++tokens;
    return actors::Verdict::kContinue;
  }
  void on_finish(RequestId, generation::FinishReason, const std::optional<Error>& error) override { failure = error; }
};

/// The counts of a rank.
struct Seen {
  Asked in_steps, between;
  bool was_watched = false;
  std::optional<Error> failure;
};

/// One rank of the session: an engine's wrappers around a shard, and the counter.
Seen run_rank(actors::Session& session, int ranks, int rank, const std::shared_ptr<transport::loopback::Group>& group,
              AbortFlag& abort, std::barrier<>& ready) {
  const SteadyClock clock;
  trace::FlightRecorder recorder(clock);
  trace::CollectiveLog collectives(4096);
  std::unique_ptr<device::Communicator> communicator;
  if (ranks > 1) {
    communicator = std::make_unique<trace::RecordedCommunicator>(
        transport::loopback::make_communicator(group, rank, {.abort = &abort, .clock = &clock}), recorder);
  }
  std::unique_ptr<trace::TimedCommunicator> timed;
  if (communicator) timed = std::make_unique<trace::TimedCommunicator>(*communicator, clock, collectives);
  const TinyRank tiny = make_tiny_rank(ranks, rank, timed.get());
  observe::StepClock step_clock(*tiny.shard, collectives, clock, 256);
  WatchedEngine engine(step_clock);
  ready.arrive_and_wait();
  const auto ran = session.run_executor(RankId(rank), engine);
  Seen seen{engine.in_steps, engine.between, engine.was_watched, std::nullopt};
  if (!ran.has_value()) seen.failure = ran.error();
  return seen;
}

/// Runs a session of ranks that are threads; element r is of rank r. Objects used by those threads are never freed:
/// they do not end.
std::vector<Seen>& run_session(int ranks) {
  AbortFlag& abort = *new AbortFlag;
  const auto& group = *new auto(transport::loopback::make_group(ranks, 1 << 20));
  actors::SessionOptions options{.size = ranks, .decode_steps = kSteps};
  for (int rank = 0; rank < ranks; ++rank) options.ranks.push_back({RankId(rank), &abort});
  actors::Session& session = *actors::Session::host(options).value().release();
  CountingSink& sink = *new CountingSink;
  session.submit({.id = RequestId(0), .ids = prompt_rows().ids, .parameters = {.max_new_tokens = 3 * kSteps}}, sink);
  session.finish();
  auto& seen = *new std::vector<Seen>(static_cast<size_t>(ranks));
  auto& ready = *new std::barrier<>(ranks);
  auto& done = *new std::barrier<>(ranks + 1);
  for (int rank = 0; rank < ranks; ++rank) {
    std::thread([&, rank] {
      seen[static_cast<size_t>(rank)] = run_rank(session, ranks, rank, group, abort, ready);
      done.arrive_and_wait();
      while (true) pause();
    }).detach();
  }
  done.arrive_and_wait();
  for (const Seen& each : seen) {
    if (each.failure) fmt::print(stderr, "{}\n", each.failure->message);
  }
  return seen;
}

/// Ends the process with 0, or with 1 after printing the findings.
[[noreturn]] void judge(int ranks) {
  int code = 0;
  const std::vector<Seen>& seen = run_session(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Seen& each = seen[static_cast<size_t>(rank)];
    fmt::print("rank {}, {} steps: {}; between them: {}\n", rank, kLast - kFirst, to_string(each.in_steps),
               to_string(each.between));
    const bool never_waits = ranks > 1 || each.in_steps.waits == 0;  // a single rank has no peer to wait for
    // Between two steps rank 0 sends tokens to the coordinator: a message, and a call that wakes its thread.
    const bool is_fine = each.was_watched && !each.failure && each.in_steps.is_nothing() && never_waits &&
                         (rank == 0 || each.between.is_nothing());
    if (!is_fine) code = 1;
  }
  fflush(stdout);  // stderr is not shown to the user of the test
  _exit(code);
}

void expect_quiet(int ranks) {
  if (!can_watch()) GTEST_SKIP() << "this machine does not let a thread trap its own system calls";
  EXPECT_EXIT(judge(ranks), ::testing::ExitedWithCode(0), "");
}

TEST(WatchedStep, SeesWhatAThreadAsksFor) {
  if (!can_watch()) GTEST_SKIP() << "this machine does not let a thread trap its own system calls";
  EXPECT_EXIT(
      {
        watch_this_thread();
        const Asked before = asked_by_this_thread();
        std::mutex mutex;
        mutex.lock();
        mutex.unlock();
        const std::vector<int> block(1000);
        syscall(SYS_getppid);
        sched_yield();
        const Asked asked = asked_by_this_thread() - before;
        const bool saw_all = asked.allocations >= 1 && asked.locks == 1 && asked.system_calls == 1 && asked.waits == 1;
        _exit(saw_all && asked.last_call == SYS_getppid ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(WatchedStep, OfOneRankAsksForNothing) { expect_quiet(1); }

TEST(WatchedStep, OfTwoRanksAsksForNothingButToWait) { expect_quiet(2); }

}  // namespace
}  // namespace lockstep::step
