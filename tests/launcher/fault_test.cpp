#include "launcher/process/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "engine/group/build_id.h"
#include "engine/group/run_phases.h"
#include "runtime/core/guard.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::MatchesRegex;

TEST(Fault, IsReadFromItsParts) {
  EXPECT_EQ(parse_fault("rank=1,phase=load,kind=kill").value(), (Fault{1, "load", FaultKind::kKill, 0}));
  EXPECT_EQ(parse_fault("rank=1,phase=load,kind=flip,tensor=lm_head.weight").value(),
            (Fault{1, "load", FaultKind::kFlip, 0, "lm_head.weight"}));
  EXPECT_EQ(parse_fault("kind=memory,step=7,phase=decode,rank=0").value(), (Fault{0, "decode", FaultKind::kMemory, 7}));
}

TEST(Fault, NamesWhatCannotBeRead) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "a rank"},
      {"rank=-1,phase=load,kind=kill", "a rank"},
      {"rank=1,phase=lunch,kind=kill", "launch, bootstrap, plan"},
      {"rank=1,phase=load,kind=explode", "kill, stop, fail, memory, differ"},
      {"rank=1,phase=load,kind=kill,step=1", "a step"},
      {"rank=1,phase=decode,kind=kill,step=x", "a step"},
      {"rank=1,phase=load,kind=differ", "kind=differ in prefill or decode"},
      {"rank=1,phase=load,kind=flip", "a tensor"},
      {"rank=1,phase=plan,kind=flip,tensor=w", "kind=flip in load, prefill or decode"},
      {"rank=1,phase=load,kind=kill,tensor=w", "kind=flip in load"},
      {"rank=1,phase=load,kind=kill,color=red", "nothing else"},
  };
  for (const auto& [text, expected] : cases) {
    const auto fault = parse_fault(text);
    ASSERT_FALSE(fault.has_value()) << text;
    EXPECT_EQ(fault.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(fault.error().message, HasSubstr(expected)) << text;
  }
}

TEST(Faults, StrikeTheirRankInTheirPhaseOnly) {
  const std::vector<Fault> all = {{1, "load", FaultKind::kFail, 0}, {1, "plan", FaultKind::kMemory, 0}};
  EXPECT_TRUE(Faults(all, 0).empty());
  const Faults own(all, 1);
  own.at_phase("connect");
  EXPECT_THROW(own.at_phase("load"), ThrownError);
  EXPECT_THROW(own.at_phase("plan"), std::bad_alloc);
}

TEST(Faults, StrikeBeforeTheNthStepOfTheirPhase) {
  Faults own({{0, "decode", FaultKind::kFail, 2}}, 0);
  actors::ExecutorStatus status{.phase = actors::Phase::kPrefill, .prefill_steps = 2, .decode_steps = 2};
  own.at_step(status);
  status.phase = actors::Phase::kDecode;
  status.decode_steps = 1;
  own.at_step(status);
  status.decode_steps = 2;
  EXPECT_THROW(own.at_step(status), ThrownError);
}

TEST(Phases, AreCalledOnEntryAndAddUpWhenEnteredAgain) {
  ManualClock clock;
  std::vector<std::string> entered;
  group::RunPhases phases(clock, [&](const char* name) { entered.push_back(name); });
  for (const char* name : {"load", "compile", "load"}) {
    phases.enter(name);
    clock.advance(std::chrono::seconds(1));
  }
  phases.close();
  EXPECT_THAT(entered, ElementsAre("load", "compile", "load"));
  EXPECT_THAT(phases.seconds(), ElementsAre(Key("load"), Key("compile")));
  EXPECT_DOUBLE_EQ(phases.seconds()[0].second, 2.0);
}

TEST(BuildId, IsThisProgramsOwn) { EXPECT_THAT(group::build_id(), MatchesRegex("[0-9a-f]+")); }

}  // namespace
}  // namespace lockstep::launcher
