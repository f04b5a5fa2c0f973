// Tests of the coordinator's protocol with shards simulated by the test.
#include "actors/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/collecting_sink.h"

namespace lockstep::actors {
namespace {

using ::testing::HasSubstr;

/// The messages that a simulated shard received.
class Ear {
 public:
  void hear(const Schedule& schedule) {
    std::lock_guard lock(mutex_);
    schedules_.push_back(schedule);
    changed_.notify_all();
  }
  void hear(const Closing& closing) {
    std::lock_guard lock(mutex_);
    closing_ = closing;
    changed_.notify_all();
  }
  bool wait_for_schedules(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return schedules_.size() >= count; });
  }
  bool wait_for_close() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return closing_.has_value(); });
  }
  std::vector<Schedule> schedules() {
    std::lock_guard lock(mutex_);
    return schedules_;
  }
  std::optional<Error> error() {
    std::lock_guard lock(mutex_);
    return closing_ ? error_of(*closing_) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Schedule> schedules_;
  std::optional<Closing> closing_;
};

ShardHandle::behavior_type played_shard(ShardHandle::pointer, Ear* ear) {
  return {[ear](schedule_atom, const Schedule& schedule) { ear->hear(schedule); },
          [ear](close_atom, const Closing& closing) { ear->hear(closing); }};
}

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() {
    config_.set("scheduler.policy", caf::atom("sharing"));
    config_.set("scheduler.max-threads", size_t{1});
    system_ = std::make_unique<caf::actor_system>(config_);
  }
  ~CoordinatorTest() override {
    stop();
    system_.reset();
  }

  /// Ends the actors and what they have left.
  void stop() {
    if (coordinator_) caf::anon_send(coordinator_, quit_atom::value);
    for (const ShardHandle& shard : shards_) caf::anon_send_exit(shard, caf::exit_reason::kill);
    coordinator_ = nullptr;
    shards_.clear();
    system_->await_all_actors_done();
    stops_.clear();
    sink_.clear();
  }

  void start(int32_t size, Duration hello_deadline = kPatience, std::optional<Duration> chunk_budget = {}) {
    CoordinatorPorts ports;
    ports.chunk_budget = chunk_budget;
    ports.size = size;
    ports.hello_deadline = hello_deadline;
    ports.over = &over_;
    ports.activity = &activity_;
    ports.request_stop = [this](SlotId slot) { stops_.push_back(slot); };
    ports.on_refused = [this](const std::string& line) { refused_.push_back(line); };
    ports.operation = [] { return std::string("decode, schedule 0, step 1"); };
    coordinator_ = system_->spawn(coordinator_actor, ports);
    ears_ = std::vector<Ear>(static_cast<size_t>(size));
    for (Ear& ear : ears_) shards_.push_back(system_->spawn(played_shard, &ear));
  }
  void hello(int32_t rank) {
    caf::anon_send(coordinator_, hello_atom::value, rank, static_cast<int32_t>(shards_.size()), shards_[rank]);
  }
  void begin() {
    caf::anon_send(coordinator_, begin_atom::value,
                   PlannerLimits{.slots = 1, .chunk = 4, .capacity = 64, .decode_steps = 2});
  }
  void submit(int64_t id, int32_t new_tokens, std::optional<TimePoint> deadline = {}) {
    Request request{.id = RequestId(id), .ids = {7}, .parameters = {}, .deadline = deadline};
    request.parameters.max_new_tokens = new_tokens;
    caf::anon_send(coordinator_, submit_atom::value, Submission{{request}, &sink_});
  }
  void done(int32_t rank, int32_t schedule, int32_t steps) {
    caf::anon_send(coordinator_, done_atom::value, rank, ScheduleDone{schedule, steps});
  }

  CollectingSink sink_;
  CompletionEvent over_;
  ActivityRecord activity_;
  std::vector<SlotId> stops_;
  std::vector<std::string> refused_;
  std::vector<Ear> ears_;
  std::vector<ShardHandle> shards_;
  LocalCoordinator coordinator_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
};

TEST_F(CoordinatorTest, SendsTheNextScheduleBeforeTheOneUnderWayHasEnded) {
  start(2);
  begin();
  submit(1, 30);
  hello(0);
  hello(1);
  ASSERT_TRUE(ears_[1].wait_for_schedules(2));  // no answer yet
  done(0, 0, 3);
  done(1, 0, 3);
  ASSERT_TRUE(ears_[1].wait_for_schedules(3));
  EXPECT_EQ(ears_[1].schedules().size(), 3u);  // two in flight, no more
  EXPECT_EQ(ears_[0].schedules(), ears_[1].schedules());
}

TEST_F(CoordinatorTest, BoundsSchedulesByTheTimesOfTheStepsThatHaveEnded) {
  start(1, kPatience, /*chunk_budget=*/std::chrono::milliseconds(1));
  begin();
  hello(0);
  submit(1, 30);
  ASSERT_TRUE(ears_[0].wait_for_schedules(2));
  EXPECT_EQ(ears_[0].schedules()[1].decode_steps, 2);  // nothing is measured yet
  activity_.note({Phase::kDecode, 1, TimePoint(), TimePoint() + std::chrono::seconds(1)});
  done(0, 0, 3);
  ASSERT_TRUE(ears_[0].wait_for_schedules(3));
  EXPECT_EQ(ears_[0].schedules()[2].decode_steps, 1);
}

TEST_F(CoordinatorTest, ChoosesTheRowsBesideDecodesThatFitTheBudgetByMeasuredTimes) {
  start(1, kPatience, /*chunk_budget=*/Duration::zero());
  const auto note = [this](Phase phase, int64_t rows, int milliseconds) {
    activity_.note({phase, rows, TimePoint(), TimePoint() + std::chrono::milliseconds(milliseconds)});
  };
  note(Phase::kDecode, 1, 10);
  note(Phase::kPrefill, 64, 90);
  note(Phase::kPrefill, 32, 35);
  caf::anon_send(coordinator_, begin_atom::value,
                 PlannerLimits{.slots = 2, .chunk = 64, .capacity = 900, .chunk_sizes = {16, 32, 64}});
  hello(0);
  submit(1, 300);
  ASSERT_TRUE(ears_[0].wait_for_schedules(2));
  Request late{.id = RequestId(2), .ids = std::vector<int32_t>(200, 5), .parameters = {}};
  caf::anon_send(coordinator_, submit_atom::value, Submission{{late}, &sink_});
  for (int32_t schedule = 0; schedule < 3; ++schedule) {
    done(0, schedule, 2);
    ASSERT_TRUE(ears_[0].wait_for_schedules(static_cast<size_t>(schedule) + 3));
    const Schedule next = ears_[0].schedules()[static_cast<size_t>(schedule) + 2];
    ASSERT_EQ(next.prefills.size(), 1u) << to_string(next);
    EXPECT_EQ(next.prefills[0].ids.size(), 32u);  // in 40 ms, the time of four decode steps
    EXPECT_EQ(next.decode_steps, 1);
  }
}

TEST_F(CoordinatorTest, NamesTheRanksThatDidNotComeInTime) {
  start(4, std::chrono::milliseconds(20));
  hello(0);
  hello(2);
  ASSERT_TRUE(ears_[2].wait_for_close());
  EXPECT_EQ(ears_[2].error()->kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(ears_[2].error()->message, HasSubstr("rank 1, 3"));
}

TEST_F(CoordinatorTest, TellsTheSurvivorsAndTheRequestsWhichRankWasLost) {
  start(3);
  begin();
  submit(1, 30);
  for (int32_t rank = 0; rank < 3; ++rank) hello(rank);
  ASSERT_TRUE(ears_[0].wait_for_schedules(2));
  caf::anon_send_exit(shards_[1], caf::exit_reason::kill);
  for (const size_t survivor : {0, 2}) {
    ASSERT_TRUE(ears_[survivor].wait_for_close());
    EXPECT_EQ(ears_[survivor].error()->kind, ErrorKind::kPeerLost);
    EXPECT_EQ(ears_[survivor].error()->origin_rank, 1);
    EXPECT_THAT(ears_[survivor].error()->message, HasSubstr("decode, schedule 0, step 1"));
  }
  ASSERT_TRUE(sink_.wait_for_finish(RequestId(1)));
  EXPECT_EQ(sink_.answer(RequestId(1)).error, ears_[0].error());
}

TEST_F(CoordinatorTest, FindsRanksThatRanADifferentNumberOfSteps) {
  start(2);
  begin();
  submit(1, 30);
  hello(0);
  hello(1);
  ASSERT_TRUE(ears_[0].wait_for_schedules(2));
  done(0, 0, 3);
  done(1, 0, 2);
  ASSERT_TRUE(ears_[0].wait_for_close());
  EXPECT_EQ(ears_[0].error()->kind, ErrorKind::kInternal);
  EXPECT_EQ(ears_[0].error()->origin_rank, 1);
}

TEST_F(CoordinatorTest, DropsMessagesThatDoNotFitAndGoesOn) {
  start(2);
  hello(0);
  hello(0);  // is already there
  caf::anon_send(coordinator_, hello_atom::value, int32_t{7}, int32_t{2}, shards_[1]);
  caf::anon_send(coordinator_, hello_atom::value, int32_t{1}, int32_t{9}, shards_[1]);
  for (const int32_t rank : {-1, 1, 2}) done(rank, 0, 3);
  caf::anon_send(coordinator_, closed_atom::value, int32_t{1});
  const auto actor = caf::actor_cast<caf::actor>(coordinator_);
  caf::anon_send(actor, std::string("unknown"), 5);
  caf::anon_send(actor, caf::make_error(caf::sec::bad_function_call));
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  hello(1);
  begin();
  submit(1, 30);
  ASSERT_TRUE(ears_[1].wait_for_schedules(1));
  EXPECT_EQ(ears_[0].error(), std::nullopt);
  EXPECT_FALSE(over_.is_open());
  stop();
  ASSERT_EQ(refused_.size(), 2U);  // the first and the tenth
  EXPECT_THAT(refused_[0], HasSubstr("rank 0: dropped a message between ranks: found a hello of rank 0 of 2"));
  EXPECT_THAT(refused_[1], HasSubstr("found a request to exit"));
  EXPECT_THAT(refused_[1], HasSubstr("(10 so far)"));
}

TEST_F(CoordinatorTest, IsOverOnlyWhenEveryShardHasClosedOrIsGone) {
  start(2);
  hello(0);
  hello(1);
  begin();
  caf::anon_send(coordinator_, failed_atom::value, int32_t{1}, to_wire({ErrorKind::kCancelled, "cancelled", 1}));
  ASSERT_TRUE(ears_[0].wait_for_close());
  ASSERT_TRUE(ears_[1].wait_for_close());
  caf::anon_send(coordinator_, closed_atom::value, int32_t{0});
  EXPECT_FALSE(over_.is_open());
  caf::anon_send_exit(shards_[1], caf::exit_reason::kill);
  EXPECT_TRUE(over_.wait(kPatience));
  EXPECT_EQ(over_.error()->kind, ErrorKind::kCancelled);
}

TEST_F(CoordinatorTest, EndsARequestWhoseDeadlineHasPassedThoughItWaits) {
  start(1);
  begin();
  hello(0);
  submit(1, 60);
  ASSERT_TRUE(ears_[0].wait_for_schedules(2));
  submit(2, 5, SteadyClock().now());
  ASSERT_TRUE(sink_.wait_for_finish(RequestId(2)));
  EXPECT_EQ(sink_.answer(RequestId(2)).error->kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(sink_.answer(RequestId(1)).finishes, 0);
}

TEST_F(CoordinatorTest, FreesTheSlotOfARequestThatHasToEndInTheNextScheduleItPlans) {
  for (const bool is_late : {true, false}) {
    start(1);
    begin();
    hello(0);
    submit(1, 60);
    submit(2, 5);
    ASSERT_TRUE(ears_[0].wait_for_schedules(2));
    if (is_late) {
      caf::anon_send(coordinator_, expire_atom::value, int64_t{1});
    } else {
      caf::anon_send(coordinator_, stop_atom::value, int64_t{1});
    }
    ASSERT_TRUE(sink_.wait_for_finish(RequestId(1)));
    EXPECT_EQ(sink_.answer(RequestId(1)).error.has_value(), is_late);
    EXPECT_EQ(stops_, std::vector{SlotId(0)});  // the running schedules end early, too
    done(0, 0, 3);
    ASSERT_TRUE(ears_[0].wait_for_schedules(3));
    const Schedule next = ears_[0].schedules()[2];
    EXPECT_EQ(next.closed, std::vector{SlotId(0)});
    ASSERT_EQ(next.opened.size(), 1u);  // for request 2
    stop();
  }
}

TEST_F(CoordinatorTest, RecordsWhatSlotsAndRanksDo) {
  start(2);
  EXPECT_FALSE(activity_.read().steps.size());
  begin();
  hello(0);
  submit(4, 30);
  hello(1);
  ASSERT_TRUE(ears_[1].wait_for_schedules(2));
  caf::anon_send(coordinator_, done_atom::value, int32_t{1}, ScheduleDone{0, 3, /*resident=*/4096});
  caf::anon_send_exit(shards_[1], caf::exit_reason::kill);
  ASSERT_TRUE(ears_[0].wait_for_close());
  const trace::Activity activity = activity_.read();
  ASSERT_EQ(activity.slots.size(), 1u);
  EXPECT_EQ(activity.slots[0],
            (trace::SlotActivity{.use = trace::SlotUse::kDecode, .request = RequestId(4), .tokens = 1}));
  ASSERT_EQ(activity.ranks.size(), 2u);
  EXPECT_EQ(activity.ranks[0].state, "ready");
  EXPECT_EQ(activity.ranks[1], (trace::RankActivity{"lost", Bytes(4096)}));
}

TEST_F(CoordinatorTest, SendsEveryFieldOfAScheduleOverTheWire) {
  start(1);
  Schedule sent{
      .number = 3,
      .closed = {SlotId(1)},
      .opened = {{SlotId(1),
                  {.sampling = {.do_sample = true, .seed = 5, .typical_p = 0.5f, .eta_cutoff = 0.1f},
                   .max_new_tokens = 9,
                   .eos_ids = {2},
                   .pad_id = 1,
                   .min_new_tokens = 4,
                   .first_output = 2,
                   .long_rope = true}}},
      .prefills =
          {{.ids = {7}, .slot = {1}, .position = {0}, .logit_rows = {-1, 0}, .copies = {{SlotId(0), SlotId(1)}}}},
      .decode_steps = 8,
      .last = Last::kYes,
      .host_chosen = {{RequestId(6), {SlotId(0), SlotId(1)}}},
      .logits_of = {SlotId(1)}};
  std::vector<char> bytes;
  caf::binary_serializer writer(*system_, bytes);
  ASSERT_FALSE(writer(sent));
  Schedule received;
  caf::binary_deserializer reader(*system_, bytes);
  ASSERT_FALSE(reader(received));
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace lockstep::actors
