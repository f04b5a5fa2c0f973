#include <gtest/gtest.h>

#include "runtime/graph/text.h"
#include "tests/runtime/graph/refused_text.h"

namespace lockstep::graph {
namespace {

/// Values of a recurrence: one key head of 2, two value heads of 3, blocks of 4.
std::string recurrence(const std::string& changed, const std::string& with) {
  std::string text =
      "graph g tp=1 rank=0 rows=4 slots=3 {\n %ids = input : i32[4]\n "
      "%rx = input : f32[4,10]\n %gates = input : f32[4,4]\n %log = weight log[0:2] : f32[2]\n"
      "%taps = weight taps[0:10,0:3] : f32[10,3]\n %kept = state : f32[3,6,10]\n"
      "%keys = state : f32[3,2,2,4]\n %changes = state : f32[3,4,4,3]\n %decays = state : f32[3,4,4]\n"
      "%borders = state : f32[3,4,2,3]\n"
      "%0 = causal_conv(%rx, %taps, %kept, %ids, %ids) activation=\"silu\" : f32[4,10]\n"
      "%1 = gated_delta_rule(%0, %gates, %log, %log, %keys, %changes, %decays, %borders, %ids, %ids) "
      "epsilon=1e-6 head_map=[0,0] : f32[4,6]\n}\n";
  const size_t at = text.find(changed);
  return at == std::string::npos ? text : text.replace(at, changed.size(), with);
}

TEST(SoundRecurrence, Parses) {
  const auto parsed = parse(recurrence("", ""));
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
}

/// A broken graph, and the verifier's message.
struct BadGraph {
  std::string text;
  std::string expected;
};

class RecurrenceRules : public ::testing::TestWithParam<BadGraph> {};

TEST_P(RecurrenceRules, AreNamedWhenBroken) { expect_refused(GetParam().text, GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(
    Recurrences, RecurrenceRules,
    ::testing::Values(
        BadGraph{recurrence("%kept = state : f32[3", "%kept = state : f32[2"), "found 2 slots, expected the graph's 3"},
        BadGraph{recurrence("f32[3,6,10]", "f32[3,3,10]"), "found 3 rows, expected at least 4 for 3 taps"},
        BadGraph{recurrence("activation=\"silu\"", "activation=\"tanh\""), "attribute activation: found tanh"},
        BadGraph{recurrence("head_map=[0,0]", "head_map=[0,1]"), "attribute head_map: found 2 entries"},
        BadGraph{recurrence("head_map=[0,0]", "head_map=[]"), "attribute head_map: found 0 entries"},
        BadGraph{recurrence("gates = input : f32[4,4]", "gates = input : f32[4,3]"), "found 10 columns of x, 3 gates"},
        BadGraph{recurrence("f32[3,2,2,4]", "f32[3,4,2,4]"), "found 10 columns of x"},
        BadGraph{recurrence("%changes = state", "%changes = input"),
                 "operand 5 (changes): found \"changes\", expected a state"}));

}  // namespace
}  // namespace lockstep::graph
