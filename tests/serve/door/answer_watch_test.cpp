#include "launcher/serve/door/answer_watch.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{};

TEST(AnswerWatch, IsNotSilentWithoutAQuestion) {
  AnswerWatch watch(8s);
  EXPECT_FALSE(watch.look(kStart + 1h));
}

TEST(AnswerWatch, IsSilentWhenTheLooksTogetherReachTheLimit) {
  AnswerWatch watch(8s);
  watch.note_asked(kStart);
  for (int second = 1; second < 8; ++second) EXPECT_FALSE(watch.look(kStart + second * 1s)) << second;
  EXPECT_TRUE(watch.look(kStart + 8s));
}

TEST(AnswerWatch, AnAnswerEndsTheWait) {
  AnswerWatch watch(8s);
  watch.note_asked(kStart);
  EXPECT_FALSE(watch.look(kStart + 4s));
  watch.note_answered();
  EXPECT_FALSE(watch.is_waiting());
  watch.note_asked(kStart + 5s);
  EXPECT_FALSE(watch.look(kStart + 9s));  // the earlier four seconds do not count
}

TEST(AnswerWatch, TakesALongPauseOfItsOwnProcessForHalfOfTheLimit) {
  AnswerWatch watch(8s);
  watch.note_asked(kStart);
  EXPECT_FALSE(watch.look(kStart + 1h));
  EXPECT_FALSE(watch.look(kStart + 1h + 1s));
  EXPECT_TRUE(watch.look(kStart + 1h + 4s));
}

TEST(AnswerWatch, WithoutALimitIsNeverSilent) {
  AnswerWatch watch(0s);
  watch.note_asked(kStart);
  EXPECT_FALSE(watch.look(kStart + 1h));
  EXPECT_FALSE(watch.look(kStart + 2h));
}

}  // namespace
}  // namespace lockstep::serve
