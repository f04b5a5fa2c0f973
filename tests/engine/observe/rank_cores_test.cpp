// The sentence about what other work took from the ranks.
#include <gtest/gtest.h>

#include "lockstep/engine.h"

namespace lockstep {
namespace {

TEST(WordsOfLosses, AreOfTheRankThatLostMost) {
  EXPECT_EQ(words_of_losses({}), "");
  EXPECT_EQ(words_of_losses({{.seconds = 10.0, .waited_s = 0.4, .preemptions = 30}, {.seconds = 10.0}}), "");
  EXPECT_EQ(
      words_of_losses({{.seconds = 10.0, .waited_s = 1.0}, {.seconds = 10.0, .waited_s = 4.8, .preemptions = 1204}}),
      "rank 1 waited 48 % of the time for a core (1204 preemptions); other programs use its cores, so the run was "
      "slow");
}

TEST(WordsOfLosses, NameWhatAHypervisorTook) {
  EXPECT_EQ(words_of_losses({{.seconds = 10.0, .waited_s = 0.1, .preemptions = 2, .stolen_s = 1.5}}),
            "rank 0 waited 1 % of the time for a core (2 preemptions), and its machine lost 15 % to other machines; "
            "other programs use its cores, so the run was slow");
}

}  // namespace
}  // namespace lockstep
