// The state of the slots: activity, seen tokens, length and next token.
#include "tests/conformance/backend/backend_test.h"
#include "tests/conformance/backend/drawing.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;
using testing::ElementsAre;

class SlotOperations : public EveryBackend {};
LOCKSTEP_FOR_EVERY_BACKEND(SlotOperations);

graph::GraphHeader header(int64_t rows, int64_t slots) {
  return {.name = "test", .ranks = 1, .rank = 0, .rows = rows, .slots = slots};
}

TEST_P(SlotOperations, RunWhereActiveAndNotFinished) {
  CaseBuilder b(header(4, 4));
  const ValueId active = b.state("active", int_tensor({4}, {0, 1, 1, 0}));
  const ValueId finished = b.state("finished", int_tensor({4}, {0, 0, 1, 1}));
  b.builder.output("slot", b.builder.running_slots(active, finished));
  EXPECT_THAT(ints_of(run_on(GetParam(), std::move(b).finish()).outputs.at("slot")), ElementsAre(-1, 1, -1, -1));
}

TEST_P(SlotOperations, GiveAStepOfFewerRowsTheFirstSlots) {
  CaseBuilder b(header(2, 3));
  const ValueId length = b.state("length", int_tensor({3}, {10, 20, 30}));
  const ValueId rows = b.builder.first_rows(length);
  b.builder.advance(length, b.builder.first_rows(b.input("slot", int_tensor({3}, {0, -1, 2}))));
  b.builder.output("rows", rows);
  const auto ran = run_on(GetParam(), std::move(b).finish());
  EXPECT_THAT(ints_of(ran.outputs.at("rows")), ElementsAre(10, 20));  // as they were before
  EXPECT_THAT(ints_of(ran.states.at("length")), ElementsAre(11, 20, 30));
}

TEST_P(SlotOperations, MarkTheIdsOfRowsThatAreNotPadding) {
  CaseBuilder b(header(5, 2));
  const ValueId seen = b.state("seen", zeros({DType::kUInt8, {2, 9}}));
  const ValueId ids = b.input("ids", int_tensor({5}, {0, 8, 3, 5, 8}));
  b.builder.mark_seen(seen, ids, b.input("slot", int_tensor({5}, {0, 1, -1, 1, 1})));
  const std::vector<double> found = numbers_of(run_on(GetParam(), std::move(b).finish()).states.at("seen"));
  EXPECT_EQ(found, (std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 0, 1, 0, 0, 1}));
}

TEST_P(SlotOperations, AdvanceEachSlotByItsRows) {
  CaseBuilder b(header(5, 3));
  const ValueId length = b.state("length", int_tensor({3}, {10, 20, 30}));
  b.builder.advance(length, b.input("slot", int_tensor({5}, {2, 0, -1, 2, 2})));
  EXPECT_THAT(ints_of(run_on(GetParam(), std::move(b).finish()).states.at("length")), ElementsAre(11, 20, 33));
}

TEST_P(SlotOperations, FinishTheSlotsThatTheRankAsksToStop) {
  CaseBuilder b(header(1, 3));
  const auto state = [&](const char* name) { return b.state(name, int_tensor({3}, {7, 8, 9})); };
  const ValueId finished = b.state("finished", int_tensor({3}, {0, 0, 1}));
  b.builder.agree({b.input("hidden", random_tensor({DType::kFloat32, {3, 5}}, 1)),
                   b.input("step", int_tensor({2}, {1, 2})), state("last_id"), state("length"), state("output_index"),
                   state("parameter_hash"), b.input("stop_request", int_tensor({3}, {0, 1, 0})), finished});
  EXPECT_THAT(ints_of(run_on(GetParam(), std::move(b).finish()).states.at("finished")), ElementsAre(0, 1, 1));
}

/// A graph with one `sample`; every slot starts with the plain rule and zero states.
struct SampleCase {
  SampleCase(int64_t slot_count, int64_t vocabulary_size)
      : slots(slot_count), vocabulary(vocabulary_size), rules(static_cast<size_t>(slot_count), plain_rule()) {}

  void set_ints(const std::string& name, const std::vector<int32_t>& values) {
    contents.insert_or_assign(name, int_tensor({slots}, values));
  }

  Case finish() const {
    CaseBuilder b(header(slots, slots));
    const auto chosen = [&](const char* name, TensorData neutral) {
      const auto found = contents.find(name);
      return found == contents.end() ? neutral : found->second;
    };
    const TensorData zero = zeros({DType::kInt32, {slots}});
    std::vector<ValueId> in{b.input("logits", tensor(DType::kFloat32, {slots, vocabulary}, logits)),
                            b.input("rows", chosen("rows", zero))};
    for (const char* name : {"last_id", "output_index", "finished"}) in.push_back(b.state(name, chosen(name, zero)));
    in.push_back(b.state("seen", chosen("seen", zeros({DType::kUInt8, {slots, vocabulary}}))));
    for (const ValueId id : add_drawing_states(b, rules)) in.push_back(id);
    b.builder.output("tokens", b.builder.sample(std::move(in)));
    return std::move(b).finish();
  }

  int64_t slots;
  int64_t vocabulary;
  std::vector<sampling::SlotRule> rules;
  std::vector<double> logits;  // slot s samples from row s
  Contents contents;           // rows and states that do not start at zero
};

TEST_P(SlotOperations, ChooseTheLowestIdAmongEqualScoresWhenGreedy) {
  SampleCase sample(2, 5);
  sample.logits = {1, 3, 2, 3, 3, /**/ -5, -4, -4, -6, -4};
  const Outcome outcome = run_on(GetParam(), sample.finish());
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(1, 1));
  EXPECT_THAT(ints_of(outcome.states.at("last_id")), ElementsAre(1, 1));
  EXPECT_THAT(ints_of(outcome.states.at("output_index")), ElementsAre(1, 1));
}

TEST_P(SlotOperations, FinishOnAnyEosIdAndAtTheLastAllowedToken) {
  SampleCase sample(4, 3);
  sample.logits = {9, 0, 0, /**/ 0, 9, 0, /**/ 0, 0, 9, /**/ 9, 0, 0};
  sample.rules[0].eos[0] = 0;  // an id like any other
  sample.rules[1].eos[0] = 2, sample.rules[1].eos[15] = 1;
  sample.rules[3].eos[0] = 1, sample.rules[3].eos[1] = 2;
  for (size_t s = 0; s < 4; ++s) sample.rules[s].max_new_tokens = s == 3 ? 6 : 5;
  sample.set_ints("output_index", {0, 0, 4, 4});
  const Outcome outcome = run_on(GetParam(), sample.finish());
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(ints_of(outcome.states.at("finished")), ElementsAre(1, 1, 1, 0));
}

TEST_P(SlotOperations, NeverEndBeforeTheLeastNumberOfTokens) {
  SampleCase sample(2, 3);
  sample.logits = {9, 0, 5, /**/ 9, 0, 5};
  for (sampling::SlotRule& rule : sample.rules) rule.eos[0] = 0, rule.min_new_tokens = 3;
  sample.set_ints("output_index", {2, 3});
  const Outcome outcome = run_on(GetParam(), sample.finish());
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(2, 0));
  EXPECT_THAT(ints_of(outcome.states.at("finished")), ElementsAre(0, 1));
}

TEST_P(SlotOperations, GivePadForFinishedSlotsAndMinusOneWhereNothingIsChosen) {
  SampleCase sample(4, 3);
  sample.logits = {9, 0, 0, 9, 0, 0, 9, 0, 0, 0, 9, 0};
  for (int32_t s = 0; s < 4; ++s) sample.rules[static_cast<size_t>(s)].pad_id = 50 + s;
  sample.set_ints("rows", {-1, 2, -1, 0});
  sample.set_ints("finished", {0, 1, 1, 0});
  sample.set_ints("last_id", {20, 21, 22, 23});
  sample.set_ints("output_index", {5, 6, 7, 8});
  const Outcome outcome = run_on(GetParam(), sample.finish());
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(-1, 51, 52, 1));
  EXPECT_THAT(ints_of(outcome.states.at("last_id")), ElementsAre(20, 21, 22, 1));
  EXPECT_THAT(ints_of(outcome.states.at("output_index")), ElementsAre(5, 6, 7, 9));
  EXPECT_THAT(ints_of(outcome.states.at("finished")), ElementsAre(0, 1, 1, 0));
}

TEST_P(SlotOperations, PenaliseWhatWasSeen) {
  SampleCase sample(1, 3);
  sample.logits = {4, 3, -1};
  TensorData seen = zeros({DType::kUInt8, {1, 3}});
  seen.bytes[0] = std::byte{1};
  sample.contents.insert_or_assign("seen", seen);
  sample.rules[0].parameters.repetition_penalty = 2;
  EXPECT_THAT(ints_of(run_on(GetParam(), sample.finish()).outputs.at("tokens")), ElementsAre(1));
}

TEST_P(SlotOperations, DrawWhatTheDefinitionDrawsForEverySeedAndParameter) {
  constexpr int32_t kSlots = 64;
  constexpr int64_t kVocabulary = 211;
  SampleCase sample(kSlots, kVocabulary);
  sample.logits = numbers_of(random_tensor({DType::kFloat32, {kSlots, kVocabulary}}, 5, /*scale=*/3));
  std::vector<int32_t> index;
  for (int32_t s = 0; s < kSlots; ++s) {
    const uint64_t seed = (uint64_t{static_cast<uint32_t>(5 - s)} << 32) | static_cast<uint32_t>(s * 77 - 900);
    sample.rules[static_cast<size_t>(s)].parameters = {.do_sample = true,
                                                       .temperature = 0.5f + 0.05f * static_cast<float>(s),
                                                       .top_k = s % 4 == 0 ? 0 : 10 * (s % 7),
                                                       .top_p = s % 3 == 0 ? 1.0f : 0.8f,
                                                       .min_p = s % 5 == 0 ? 0.1f : 0.0f,
                                                       .seed = seed,  // words with the sign bit set, too
                                                       .typical_p = s % 6 == 1 ? 0.7f : 1.0f,
                                                       .epsilon_cutoff = s % 6 == 3 ? 1e-3f : 0.0f,
                                                       .eta_cutoff = s % 6 == 5 ? 2e-3f : 0.0f};
    index.push_back(s / 2);
  }
  sample.set_ints("output_index", index);
  const Case c = sample.finish();
  expect_same(run_on(GetParam(), c), run_on_scalar_model(c), "tokens and states");
}

TEST_P(SlotOperations, ScoreTheTargetsAndNameTheLikeliest) {
  constexpr int64_t kRows = 7, kVocabulary = 301;
  for (const int64_t top : {0, 1, 5, 301}) {
    SCOPED_TRACE(testing::Message() << "top " << top);
    CaseBuilder b(header(kRows, 1));
    TensorData logits = random_tensor({DType::kFloat32, {kRows, kVocabulary}}, 5, /*scale=*/9);
    auto* const values = reinterpret_cast<float*>(logits.bytes.data());
    values[2 * kVocabulary + 40] = values[2 * kVocabulary + 7] = 20.0f;  // a tie: the lower id is first
    const ValueId x = b.input("logits", logits);
    const ValueId targets = b.input("targets", int_tensor({kRows}, {0, 300, 40, -1, 17, 4, 299}));
    b.builder.output("scores", b.builder.score(x, targets, top));
    const Case c = std::move(b).finish();
    expect_conforms(GetParam(), c, tolerance_of(DType::kFloat32));
    const std::vector<double> row = numbers_of(run_on(GetParam(), c).outputs.at("scores"));
    if (top != 5) continue;
    EXPECT_EQ(row[2 * 11 + 1], 7.0);
    EXPECT_EQ(row[2 * 11 + 2], 40.0);
    EXPECT_EQ(row[3 * 11 + 1], 0.0);  // padding
  }
}

}  // namespace
}  // namespace lockstep::conformance
