#include "launcher/batch/result_lines.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::launcher {
namespace {

journal::RowAnswer answer(const std::string& text) {
  return {.tokens = {5, 2}, .text = text, .finish_reason = "eos", .score = {}, .logprobs = {}, .likeliest = {}};
}

TEST(ResultLine, HasAnAnswerAndTheIdAsItWasGiven) {
  EXPECT_EQ(to_line("\"a\"", {.row = 0, .answers = {answer("hi \xc3\xa9")}, .error = {}}),
            "{\"id\":\"a\",\"text\":\"hi \xc3\xa9\",\"ids\":[5,2],\"finish_reason\":\"eos\"}\n");
  EXPECT_EQ(to_line("7", {.row = 0, .answers = {answer("")}, .error = {}}),
            "{\"id\":7,\"text\":\"\",\"ids\":[5,2],\"finish_reason\":\"eos\"}\n");
}

TEST(ResultLine, HasAnErrorInsteadOfAnAnswer) {
  EXPECT_EQ(to_line("7", {.row = 0, .answers = {}, .error = "too long"}), "{\"id\":7,\"error\":\"too long\"}\n");
}

TEST(ResultLine, HasAllAnswersOfAPromptAndWhatIsToldOfThem) {
  journal::RowAnswer told = answer("a");
  told.score = -0.5;
  told.logprobs = {-1.0f, -std::numeric_limits<float>::infinity()};
  told.likeliest = {{{5, -1.0f}}, {}};
  EXPECT_EQ(to_line("1", {.row = 0, .answers = {told, answer("b")}, .error = {}}),
            "{\"id\":1,\"answers\":[{\"text\":\"a\",\"ids\":[5,2],\"finish_reason\":\"eos\",\"score\":-0.5,"
            "\"logprobs\":[-1.0,null],\"top_logprobs\":[[{\"id\":5,\"logprob\":-1.0}],[]]},"
            "{\"text\":\"b\",\"ids\":[5,2],\"finish_reason\":\"eos\"}]}\n");
}

}  // namespace
}  // namespace lockstep::launcher
