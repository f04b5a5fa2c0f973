#include "actors/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "actors/host_choosers.h"
#include "actors/planner.h"
#include "tests/actors/fake_choosers.h"
#include "tests/actors/fake_engine.h"

namespace lockstep::actors {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Request request(int64_t id, std::vector<int32_t> ids, int32_t new_tokens) {
  Request made{.id = RequestId(id), .ids = std::move(ids), .parameters = {}};
  made.parameters.max_new_tokens = new_tokens;
  return made;
}

/// One executor with its engine, its queue and its reports.
struct Fixture {
  explicit Fixture(FakeEngine::Options options = {}, Duration hand_on_period = Duration::zero())
      : engine(options, group, abort), planner(limits()) {
    ExecutorHooks hooks;
    hooks.released = [this](std::vector<StepResult> results) {
      handed_on.push_back(results.size());
      std::ranges::move(results, std::back_inserter(released));
    };
    hooks.done = [this](const ScheduleDone& schedule) { done.push_back(schedule); };
    hooks.step = [this](const ExecutorStatus& status) {
      steps.emplace_back(status.schedule, status.step);
      released_before_step.push_back(released.size());
      began.push_back(SteadyClock().now());
    };
    hooks.decide = [this](const Schedule& schedule, std::span<const uint8_t> with_logits,
                          const shards::StepOutput& output, shards::Decision& decision) {
      return choosers.decide(schedule.host_chosen, with_logits, output, decision);
    };
    executor.emplace(RankId(0), engine, queue, abort, hooks, IdleWait{}, hand_on_period);
  }

  void add(const Request& request) { planner.add(admit(request, limits()).value()); }

  PlannerLimits limits() const { return {.slots = engine.slots(), .chunk = engine.chunk(), .capacity = 64}; }

  FakeGroup group{1};
  AbortFlag abort;
  FakeEngine engine;
  Planner planner;
  HostChoosers choosers;
  ScheduleQueue queue;
  std::vector<StepResult> released;
  std::vector<size_t> handed_on;  // results at a time
  std::vector<size_t> released_before_step;
  std::vector<TimePoint> began;  // of each step
  std::vector<ScheduleDone> done;
  std::vector<std::pair<int32_t, int32_t>> steps;
  std::optional<Executor> executor;
};

TEST(Executor, RunsTheStepsOfTheSchedulesAndNoOthers) {
  Fixture f;
  f.add(request(1, {7, 8, 9, 10, 11}, 3));
  f.queue.push(*f.planner.next());
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  EXPECT_THAT(f.steps, ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(0, 2), std::pair(0, 3)));
  EXPECT_THAT(f.done, ElementsAre(ScheduleDone{0, 4}, ScheduleDone{1, 0}));
  EXPECT_EQ(f.engine.confirms(), 2);  // of the first token and of the end; not for a schedule without steps
  const ExecutorStatus expected{
      .phase = Phase::kEnded, .schedule = 1, .step = 0, .schedules = 2, .prefill_steps = 2, .decode_steps = 2};
  EXPECT_EQ(f.executor->status(), expected);
}

TEST(Executor, ReleasesAFirstTokenAtOnceAndAnotherStepOnlyWhenTheNextOneHasRun) {
  Fixture f;
  f.add(request(1, {7}, 3));
  f.queue.push(*f.planner.next());
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  EXPECT_THAT(f.released_before_step, ElementsAre(0u, 1u, 1u));
  ASSERT_EQ(f.released.size(), 3u);
  EXPECT_EQ(f.released[2].step, 2);
}

TEST(Executor, HandsOnFirstTokensAtOnceAndThoseThatFollowTogether) {
  Fixture f({}, std::chrono::hours(1));
  f.add(request(1, {7}, 5));
  f.queue.push(*f.planner.next());
  f.planner.finish(RequestId(1));
  f.add(request(2, {8}, 3));
  f.queue.push(*f.planner.next());
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  EXPECT_THAT(f.released_before_step, ElementsAre(0u, 1u, 1u, 1u, 1u, 5u, 6u, 6u));
  EXPECT_THAT(f.handed_on, ElementsAre(1u, 4u, 1u, 2u));
  EXPECT_TRUE(std::ranges::is_sorted(f.released, {},
                                     [](const StepResult& result) { return std::pair(result.schedule, result.step); }));
}

TEST(Executor, TakesTheTimeOfATokenWhereItsStepEnds) {
  Fixture f({}, std::chrono::hours(1));
  f.add(request(1, {7}, 5));
  f.queue.push(*f.planner.next());
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  f.began.push_back(TimePoint::max());
  ASSERT_THAT(f.handed_on, ElementsAre(1u, 4u));  // four steps travel together, each with its own time
  for (size_t step = 0; step < f.released.size(); ++step) {
    EXPECT_GE(f.released[step].made, f.began[step]) << step;
    EXPECT_LE(f.released[step].made, f.began[step + 1]) << step;
  }
}

TEST(Executor, HandsOnEveryTokenAtOnceWhereSomeoneReadsAlong) {
  Fixture f({}, std::chrono::hours(1));
  Request read_along = request(1, {7}, 4);
  read_along.delivery = Delivery::kAtOnce;
  f.add(read_along);
  f.queue.push(*f.planner.next());
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  EXPECT_THAT(f.handed_on, ElementsAre(1u, 1u, 1u, 1u));
}

TEST(Executor, ReleasesEveryTokenAfterItsOwnStepWhereTheScheduleSaysSo) {
  Fixture f({}, std::chrono::hours(1));
  Request read_along = request(1, {7}, 4);
  read_along.delivery = Delivery::kAtOnce;
  f.add(read_along);
  f.planner.set_bounds({.decode_steps = 32, .prefill_steps = 8, .agreement = Agreement::kAfterEachStep});
  f.queue.push(*f.planner.next());
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  EXPECT_THAT(f.released_before_step, ElementsAre(0u, 1u, 2u, 3u));
  EXPECT_THAT(f.handed_on, ElementsAre(1u, 1u, 1u, 1u));
  EXPECT_EQ(f.engine.confirms(), 4);
}

TEST(Executor, HandsOnWhatWasAgreedOnBeforeAnError) {
  Fixture f({}, std::chrono::hours(1));
  f.add(request(1, {7}, 5));
  f.engine.fail_confirm({ErrorKind::kInternal, "ranks differ"}, /*after=*/1);
  f.queue.push(*f.planner.next());
  ASSERT_FALSE(f.executor->run().has_value());
  EXPECT_THAT(f.handed_on, ElementsAre(1u, 3u));  // the last one was not agreed on
}

TEST(Executor, KeepsBackTokensThatWereNotConfirmed) {
  Fixture f;
  f.add(request(1, {7}, 3));
  f.engine.fail_confirm({ErrorKind::kInternal, "ranks differ"}, /*after=*/1);
  f.queue.push(*f.planner.next());
  ASSERT_FALSE(f.executor->run().has_value());
  EXPECT_EQ(f.released.size(), 2u);
  EXPECT_THAT(f.done, IsEmpty());
}

TEST(Executor, KeepsBackAFirstTokenThatWasNotConfirmed) {
  Fixture f;
  f.add(request(1, {7}, 3));
  f.engine.fail_confirm({ErrorKind::kInternal, "ranks differ"});
  f.queue.push(*f.planner.next());
  ASSERT_FALSE(f.executor->run().has_value());
  EXPECT_THAT(f.released, IsEmpty());
}

TEST(Executor, EndsAScheduleEarlyWhenEverySlotHasFinished) {
  Fixture f;
  Request early = request(1, {7}, 30);
  early.parameters.eos_ids = {expected_answer(early.ids, early.parameters)[2]};
  const size_t tokens = expected_answer(early.ids, early.parameters).size();
  f.add(early);
  const Schedule schedule = *f.planner.next();
  EXPECT_EQ(schedule.decode_steps, 29);
  f.queue.push(schedule);
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  EXPECT_EQ(f.steps.size(), tokens);
}

TEST(Executor, TakesTheHostsDecisionsAndReleasesWhatTheyMadeCertainOnceTheRanksAgreed) {
  Fixture f({.slots = 3, .vocabulary = kFakeVocabulary});
  const auto chooser =
      std::make_shared<FakeBeams>(FakeBeams::Options{.prompts = {{7, 8}, {}}, .choices = 4, .streams = true});
  const Request beams = request_with(1, chooser, 9);
  f.choosers.open(beams, admit(beams, f.limits()).value());
  f.add(beams);
  f.add(request(2, {5}, 2));
  f.queue.push(*f.planner.next());
  f.queue.push(f.planner.last());
  ASSERT_TRUE(f.executor->run().has_value());
  EXPECT_EQ(chooser->mistakes(), 0);
  EXPECT_EQ(f.steps.size(), 4u);  // one prefill, three decodes of nine: the chooser had finished
  EXPECT_THAT(f.released_before_step, ElementsAre(0u, 1u, 1u, 2u));
  ASSERT_EQ(f.released.size(), 4u);
  std::vector<int32_t> certain;
  for (const StepResult& result : f.released) {
    EXPECT_THAT(std::vector(result.tokens.begin(), result.tokens.begin() + 2), ElementsAre(-1, -1));
    ASSERT_EQ(result.choices.size(), 1u);
    certain.insert(certain.end(), result.choices[0].certain.begin(), result.choices[0].certain.end());
    EXPECT_EQ(result.choices[0].finished.has_value(), &result == &f.released.back());
  }
  EXPECT_EQ(certain, chooser->streamed());
}

TEST(Executor, ReleasesLogitsOnlyWhereTheyAreWanted) {
  for (const Logits logits : {Logits::kOmit, Logits::kWanted}) {
    Fixture f({.vocabulary = 3});
    Request one = request(1, {7}, 1);
    one.logits = logits;
    f.add(one);
    f.queue.push(*f.planner.next());
    f.queue.push(f.planner.last());
    ASSERT_TRUE(f.executor->run().has_value());
    EXPECT_EQ(f.released.at(0).logits.size(), logits == Logits::kWanted ? 3u : 0u);  // of its slot, not of both
  }
}

TEST(Executor, SaysWhereTheEngineFailed) {
  Fixture f;
  f.add(request(1, {7}, 9));
  f.engine.fail_at(3, {ErrorKind::kResourceExhausted, "[fake engine] no memory is left"});
  f.queue.push(*f.planner.next());
  const auto ended = f.executor->run();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(ended.error().origin_rank, 0);
  EXPECT_THAT(ended.error().message, AllOf(HasSubstr("no memory"), HasSubstr("decode, schedule 0, step 3")));
  EXPECT_EQ(f.executor->status().phase, Phase::kDecode);
}

TEST(Executor, KeepsTheOriginOfAnErrorThatHasOne) {
  Fixture f;
  f.add(request(1, {7}, 9));
  const Error from_afar{ErrorKind::kPeerLost, "rank 3 was lost", 3};
  f.engine.fail_at(1, from_afar);
  f.queue.push(*f.planner.next());
  EXPECT_EQ(f.executor->run().error(), from_afar);
}

TEST(Executor, TurnsAFailedCheckIntoAnInternalError) {
  Fixture f;
  f.add(request(1, {7}, 9));
  f.engine.break_at(1);
  f.queue.push(*f.planner.next());
  EXPECT_EQ(f.executor->run().error().kind, ErrorKind::kInternal);
}

TEST(Executor, RefusesAGapInTheScheduleNumbers) {
  Fixture f;
  f.queue.push({.number = 1, .closed = {}, .opened = {}, .prefills = {}});
  const auto ended = f.executor->run();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().kind, ErrorKind::kInternal);
  EXPECT_THAT(f.steps, IsEmpty());
}

TEST(Executor, ReturnsTheReasonOfTheAbortFlagWhileItWaitsForASchedule) {
  Fixture f;
  const Error reason{ErrorKind::kPeerLost, "rank 1 was lost", 1};
  std::optional<Error> error;
  std::thread main([&] { error = f.executor->run().error(); });
  f.abort.raise(reason);
  main.join();
  EXPECT_EQ(error, reason);
}

TEST(Executor, PrefersTheReasonOfTheAbortFlagOverWhatTheEngineSaw) {
  Fixture f;
  f.add(request(1, {7}, 9));
  f.engine.block_at(2);
  f.queue.push(*f.planner.next());
  const Error reason{ErrorKind::kCancelled, "cancelled", 0};
  std::optional<Error> error;
  std::thread main([&] { error = f.executor->run().error(); });
  EXPECT_TRUE(f.engine.wait_until_blocked());
  f.abort.raise(reason);
  main.join();
  EXPECT_EQ(error, reason);
  EXPECT_EQ(f.released.size(), 1u);
}

TEST(ScheduleQueue, GivesSchedulesInTheirOrderAcrossThreads) {
  ScheduleQueue queue;
  AbortFlag abort;
  constexpr int kCount = 2000;
  std::thread writer([&] {
    for (int i = 0; i < kCount; ++i) {
      Schedule schedule;
      schedule.number = i;
      queue.push(schedule);
    }
  });
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(queue.pop(abort).value().number, i);
  writer.join();
}

}  // namespace
}  // namespace lockstep::actors
