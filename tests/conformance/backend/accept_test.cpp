// Tests of `accept`: accepted drafts, and the same result as one token at a time.
#include "tests/conformance/backend/backend_test.h"
#include "tests/conformance/backend/drawing.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;
using testing::ElementsAre;

class Drafts : public EveryBackend {};
LOCKSTEP_FOR_EVERY_BACKEND(Drafts);

constexpr int32_t kPad = -1;  // a row that a slot does not use

/// The input of a slot in one step: its last token and its drafts; empty if it does not run.
using Fed = std::vector<int32_t>;

/// A graph with one `accept` of `most` rows for each slot.
struct AcceptCase {
  AcceptCase(std::vector<Fed> slots_fed, int64_t rows_of_a_slot, int64_t vocabulary_size)
      : fed(std::move(slots_fed)), most(rows_of_a_slot), vocabulary(vocabulary_size), rules(fed.size(), plain_rule()) {
    logits.resize(fed.size() * static_cast<size_t>(most * vocabulary));
  }

  int64_t slots() const { return static_cast<int64_t>(fed.size()); }
  double& logit(int64_t slot, int64_t row, int64_t id) {
    return logits[static_cast<size_t>((slot * most + row) * vocabulary + id)];
  }
  /// The greedy choices of a slot's rows.
  void choose(int64_t slot, const std::vector<int32_t>& ids) {
    for (size_t row = 0; row < ids.size(); ++row) logit(slot, static_cast<int64_t>(row), ids[row]) = 9;
  }

  Case finish() const {
    const int64_t rows = slots() * most;
    CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = rows, .slots = slots()});
    std::vector<int32_t> ids, slot, last_id;
    for (size_t s = 0; s < fed.size(); ++s) {
      last_id.push_back(fed[s].empty() ? 0 : fed[s][0]);
      for (size_t i = 0; i < static_cast<size_t>(most); ++i) {
        ids.push_back(i < fed[s].size() ? fed[s][i] : 0);
        slot.push_back(i < fed[s].size() ? static_cast<int32_t>(s) : kPad);
      }
    }
    std::vector<ValueId> in{b.input("logits", tensor(DType::kFloat32, {rows, vocabulary}, logits)),
                            b.input("ids", int_tensor({rows}, ids)), b.input("slot", int_tensor({rows}, slot))};
    const auto ints = [&](const char* name, std::vector<int32_t> otherwise) {
      const auto found = states.find(name);
      return b.state(name, int_tensor({slots()}, found == states.end() ? otherwise : found->second));
    };
    const std::vector<int32_t> zero(fed.size(), 0);
    in.push_back(ints("length", zero));
    in.push_back(ints("last_id", last_id));
    in.push_back(ints("output_index", zero));
    in.push_back(ints("finished", zero));
    in.push_back(b.state("seen", zeros({DType::kUInt8, {slots(), vocabulary}})));
    for (const ValueId id : add_drawing_states(b, rules)) in.push_back(id);
    b.builder.output("tokens", b.builder.accept(std::move(in)));
    return std::move(b).finish();
  }

  std::vector<Fed> fed;
  int64_t most;
  int64_t vocabulary;
  std::vector<sampling::SlotRule> rules;
  std::vector<double> logits;  // [slots · most, vocabulary]
  std::map<std::string, std::vector<int32_t>> states;
};

/// Runs the case and holds all of it against the scalar model.
Outcome run_and_compare(const BackendUnderTest& backend, const AcceptCase& accept) {
  const Case c = accept.finish();
  const Outcome outcome = run_on(backend, c);
  expect_same(outcome, run_on_scalar_model(c), "tokens and states");
  return outcome;
}

TEST_P(Drafts, ComeTrueAndGiveOneTokenMore) {
  AcceptCase accept({{5, 1, 2, 3}}, 4, 8);
  accept.choose(0, {1, 2, 3, 6});
  accept.states = {{"length", {10}}, {"output_index", {4}}};
  const Outcome outcome = run_and_compare(GetParam(), accept);
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(1, 2, 3, 6));
  EXPECT_THAT(ints_of(outcome.states.at("last_id")), ElementsAre(6));
  EXPECT_THAT(ints_of(outcome.states.at("length")), ElementsAre(14));
  EXPECT_THAT(ints_of(outcome.states.at("output_index")), ElementsAre(8));
  EXPECT_EQ(numbers_of(outcome.states.at("seen")), (std::vector<double>{0, 1, 1, 1, 0, 1, 0, 0}));
}

TEST_P(Drafts, GiveTheFirstTokenThatWasNotDrafted) {
  AcceptCase accept({{5, 1, 2, 3}, {5, 1, 2, 3}}, 4, 8);
  accept.choose(0, {7, 2, 3, 6});  // none is accepted
  accept.choose(1, {1, 0, 3, 6});  // the first does
  const Outcome outcome = run_and_compare(GetParam(), accept);
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(7, -1, -1, -1, 1, 0, -1, -1));
  EXPECT_THAT(ints_of(outcome.states.at("last_id")), ElementsAre(7, 0));
  EXPECT_THAT(ints_of(outcome.states.at("length")), ElementsAre(1, 2));
  EXPECT_EQ(numbers_of(outcome.states.at("seen")),
            (std::vector<double>{0, 0, 0, 0, 0, 1, 0, 0, /**/ 0, 1, 0, 0, 0, 1, 0, 0}));
}

TEST_P(Drafts, TreatIdZeroLikeAnyOther) {
  AcceptCase accept({{0, 0, 0}, {3, 0}, {0}}, 3, 4);
  accept.choose(0, {0, 0, 0});
  accept.choose(1, {0, 0, 0});
  accept.choose(2, {0, 0, 0});  // the padding rows' ids are 0 as well
  const Outcome outcome = run_and_compare(GetParam(), accept);
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(0, 0, 0, 0, 0, -1, 0, -1, -1));
  EXPECT_THAT(ints_of(outcome.states.at("length")), ElementsAre(3, 2, 1));
}

TEST_P(Drafts, EndAtAnEndTokenAndAtTheBudget) {
  AcceptCase accept({{5, 1, 2, 3}, {5, 1, 2, 3}, {5, 1, 2, 3}}, 4, 8);
  for (int64_t s = 0; s < 3; ++s) accept.choose(s, {1, 2, 3, 6});
  accept.rules[0].eos[0] = 2;
  accept.rules[1].max_new_tokens = 9;
  accept.rules[2].eos[0] = 2, accept.rules[2].min_new_tokens = 9;  // may not be chosen where it was drafted
  accept.states = {{"output_index", {6, 6, 6}}};
  const Outcome outcome = run_and_compare(GetParam(), accept);
  const std::vector<int32_t> tokens = ints_of(outcome.outputs.at("tokens"));
  EXPECT_THAT(std::vector(tokens.begin(), tokens.begin() + 8), ElementsAre(1, 2, -1, -1, 1, 2, 3, -1));
  EXPECT_EQ(tokens[8], 1);
  EXPECT_NE(tokens[9], 2);
  EXPECT_THAT(ints_of(outcome.states.at("finished")), ElementsAre(1, 1, 0));
  EXPECT_THAT(ints_of(outcome.states.at("length")), ElementsAre(2, 3, 2));
}

TEST_P(Drafts, GivePadForFinishedSlotsAndLeaveThemAndIdleOnesAlone) {
  AcceptCase accept({{}, {}, {4, 1}}, 2, 5);
  accept.choose(2, {1, 2});
  accept.states = {{"finished", {1, 0, 0}}, {"length", {7, 8, 9}}, {"last_id", {1, 2, 4}}, {"output_index", {3, 4, 5}}};
  const Outcome outcome = run_and_compare(GetParam(), accept);
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(99, -1, -1, -1, 1, 2));
  EXPECT_THAT(ints_of(outcome.states.at("length")), ElementsAre(7, 8, 11));
  EXPECT_THAT(ints_of(outcome.states.at("last_id")), ElementsAre(1, 2, 2));
  EXPECT_THAT(ints_of(outcome.states.at("output_index")), ElementsAre(3, 4, 7));
}

/// A text whose next logits depend on the last token alone.
struct Chain {
  static constexpr int64_t kVocabulary = 13;

  std::vector<double> table = numbers_of(random_tensor({DType::kFloat32, {kVocabulary, kVocabulary}}, 3, 4));

  std::vector<double> after(int32_t id) const {
    const auto begin = table.begin() + id * kVocabulary;
    return {begin, begin + kVocabulary};
  }
};

/// `sample` after `mark_seen`, one token at a time from token 1, until the slot finishes or `most` tokens are there.
Outcome sample_repeatedly(const BackendUnderTest& backend, const Chain& chain, const sampling::SlotRule& rule, int most,
                          std::vector<int32_t>& tokens) {
  CaseBuilder b({.name = "one", .ranks = 1, .rank = 0, .rows = 1, .slots = 1});
  const TensorData zero = zeros({DType::kInt32, {1}});
  const ValueId last_id = b.state("last_id", int_tensor({1}, {1}));
  const ValueId seen = b.state("seen", zeros({DType::kUInt8, {1, Chain::kVocabulary}}));
  std::vector<ValueId> in{b.input("logits", zeros({DType::kFloat32, {1, Chain::kVocabulary}})),
                          b.input("rows", zero),
                          last_id,
                          b.state("output_index", zero),
                          b.state("finished", zero),
                          seen};
  for (const ValueId id : add_drawing_states(b, {rule})) in.push_back(id);
  b.builder.mark_seen(seen, last_id, in[1]);
  b.builder.output("tokens", b.builder.sample(std::move(in)));
  const Case c = std::move(b).finish();
  Session session(backend, {c.graph});
  session.set(c.contents);
  Contents inputs = c.inputs;
  for (int i = 0; i < most; ++i) {
    const int32_t fed = tokens.empty() ? 1 : tokens.back();
    inputs.at("logits") = tensor(DType::kFloat32, {1, Chain::kVocabulary}, chain.after(fed));
    session.run(0, inputs).value();
    tokens.push_back(ints_of(session.outcome(0).outputs.at("tokens"))[0]);
    if (ints_of(session.outcome(0).states.at("finished"))[0] != 0) break;
  }
  return session.outcome(0);
}

TEST_P(Drafts, GiveWhatOneTokenAtATimeGivesWhateverWasDrafted) {
  constexpr int kMost = 5;
  const Chain chain;
  for (int seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    sampling::SlotRule rule = plain_rule();
    rule.parameters = {.do_sample = seed % 3 != 0, .temperature = 0.8f, .top_k = seed % 2 == 0 ? 0 : 4};
    rule.parameters.repetition_penalty = 1.5f;
    rule.parameters.seed = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15ull;
    rule.eos[0] = seed % 5;
    rule.max_new_tokens = 3 + seed % 4;
    std::vector<int32_t> expected;
    sample_repeatedly(GetParam(), chain, rule, kMost, expected);
    for (int right = 0; right < kMost; ++right) {  // accepted drafts, within the text
      Fed fed{1};
      for (int i = 0; i + 1 < kMost; ++i) {
        const int32_t truth = i < static_cast<int>(expected.size()) ? expected[static_cast<size_t>(i)] : 0;
        fed.push_back(i < right ? truth : (truth + 1) % static_cast<int32_t>(Chain::kVocabulary));
      }
      AcceptCase accept({fed}, kMost, Chain::kVocabulary);
      accept.rules[0] = rule;
      for (int64_t row = 0; row < kMost; ++row) {
        const std::vector<double> logits = chain.after(fed[static_cast<size_t>(row)]);
        for (int64_t id = 0; id < Chain::kVocabulary; ++id) accept.logit(0, row, id) = logits[static_cast<size_t>(id)];
      }
      const Outcome outcome = run_and_compare(GetParam(), accept);
      const int taken = std::min(right + 1, static_cast<int>(expected.size()));
      std::vector<int32_t> wanted(expected.begin(), expected.begin() + taken);
      std::vector<int32_t> prefix;
      const Outcome one_by_one = sample_repeatedly(GetParam(), chain, rule, taken, prefix);
      wanted.resize(kMost, -1);
      EXPECT_EQ(ints_of(outcome.outputs.at("tokens")), wanted) << right << " drafts are right";
      for (const char* state : {"last_id", "output_index", "finished", "seen"}) {
        EXPECT_TRUE(is_same(outcome.states.at(state), one_by_one.states.at(state))) << state << ", " << right;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::conformance
