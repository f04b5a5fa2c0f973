// Tests of a shard's actor with a coordinator simulated by the test: what it passes on, and messages that are not its
// own.
#include "actors/shard_actor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/collecting_sink.h"

namespace lockstep::actors {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CoordinatorHandle::behavior_type played_coordinator(CoordinatorHandle::pointer, CompletionEvent* closed) {
  return {[](hello_atom, int32_t, int32_t, const ShardHandle&) {}, [](done_atom, int32_t, const ScheduleDone&) {},
          [](failed_atom, int32_t, const WireError&) {}, [closed](closed_atom, int32_t) { closed->open({}); }};
}

TEST(ShardActor, DropsUnknownMessagesAndGoesOn) {
  ScheduleQueue queue;
  AbortFlag abort;
  CompletionEvent gate, closed;
  std::vector<std::string> refused;
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", size_t{1});
  caf::actor_system system(config);
  const CoordinatorHandle coordinator = system.spawn(played_coordinator, &closed);
  const LocalShard shard =
      system.spawn(shard_actor,
                   ShardPorts{.rank = 1,
                              .size = 2,
                              .queue = &queue,
                              .abort = &abort,
                              .gate = &gate,
                              .on_refused = [&](const std::string& line) { refused.push_back(line); }},
                   coordinator);
  const auto untyped = caf::actor_cast<caf::actor>(shard);
  caf::anon_send(untyped, std::string("unknown"), 5);
  for (int more = 0; more < 8; ++more) caf::anon_send(untyped, caf::make_error(caf::sec::bad_function_call));
  caf::anon_send_exit(untyped, caf::exit_reason::user_shutdown);
  caf::anon_send(shard, schedule_atom::value, Schedule{.number = 3});
  const auto schedule = queue.pop(abort);
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(schedule.value().number, 3);
  EXPECT_FALSE(gate.is_open());
  caf::anon_send(shard, close_atom::value, Closing{});
  EXPECT_TRUE(closed.wait(kPatience));
  EXPECT_TRUE(gate.is_open());
  EXPECT_EQ(gate.error(), std::nullopt);
  caf::anon_send(shard, quit_atom::value);
  caf::anon_send_exit(coordinator, caf::exit_reason::kill);
  system.await_all_actors_done();
  EXPECT_THAT(refused, ElementsAre(AllOf(HasSubstr("rank 1: dropped a message between ranks"), HasSubstr("unknown")),
                                   AllOf(HasSubstr("a request to exit"), HasSubstr("(10 so far)"))));
}

}  // namespace
}  // namespace lockstep::actors
