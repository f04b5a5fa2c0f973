// The state of the slots: who runs, what was seen, how long, and which token comes next.
#include "runtime/sampling/sampling.h"
#include "tests/conformance/backend/backend_test.h"

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

/// A graph with one `sample`: the logits are an input, everything else is a neutral state that a test overwrites.
class SampleCase {
 public:
  SampleCase(int64_t slots, int64_t vocabulary) : slots_(slots), vocabulary_(vocabulary) {}

  /// Slot s draws from `logits[s]`; states that a test does not set are neutral.
  void set_logits(const std::vector<double>& logits) { logits_ = logits; }
  void set(const std::string& name, TensorData data) { states_.insert_or_assign(name, std::move(data)); }
  void set_ints(const std::string& name, const std::vector<int32_t>& values) {
    set(name, int_tensor({slots_}, values));
  }
  void set_floats(const std::string& name, const std::vector<double>& values) {
    set(name, tensor(DType::kFloat32, {slots_}, values));
  }

  Case finish() const {
    CaseBuilder b(header(slots_, slots_));
    const auto ints = [&](const char* name, int32_t neutral) {
      return b.state(name, chosen(name, int_tensor({slots_}, std::vector<int32_t>(slots_, neutral))));
    };
    const auto floats = [&](const char* name, double neutral) {
      return b.state(name, chosen(name, tensor(DType::kFloat32, {slots_}, std::vector<double>(slots_, neutral))));
    };
    std::vector<ValueId> in;
    in.push_back(b.input("logits", tensor(DType::kFloat32, {slots_, vocabulary_}, logits_)));
    in.push_back(b.input("rows", chosen("rows", int_tensor({slots_}, std::vector<int32_t>(slots_, 0)))));
    for (const char* name : {"last_id", "output_index", "finished"}) in.push_back(ints(name, 0));
    in.push_back(b.state("seen", chosen("seen", zeros({DType::kUInt8, {slots_, vocabulary_}}))));
    for (const auto& [name, neutral] : {std::pair{"temperature", 1.0}, {"top_p", 1.0}, {"min_p", 0.0}}) {
      in.push_back(floats(name, neutral));
    }
    in.push_back(floats("repetition_penalty", 1.0));
    for (const auto& [name, neutral] : {std::pair{"top_k", 0}, {"do_sample", 0}, {"max_new_tokens", 100}}) {
      in.push_back(ints(name, neutral));
    }
    in.push_back(ints("pad_id", 99));
    in.push_back(b.state("seed", chosen("seed", zeros({DType::kInt32, {slots_, 2}}))));
    in.push_back(b.state("eos", chosen("eos", int_tensor({slots_, 2}, std::vector<int32_t>(2 * slots_, -1)))));
    b.builder.output("tokens", b.builder.sample(in));
    return std::move(b).finish();
  }

 private:
  TensorData chosen(const std::string& name, TensorData neutral) const {
    const auto found = states_.find(name);
    return found == states_.end() ? neutral : found->second;
  }

  int64_t slots_;
  int64_t vocabulary_;
  std::vector<double> logits_;
  Contents states_;
};

TEST_P(SlotOperations, ChooseTheLowestIdAmongEqualScoresWhenGreedy) {
  SampleCase sample(2, 5);
  sample.set_logits({1, 3, 2, 3, 3, /**/ -5, -4, -4, -6, -4});
  const Outcome outcome = run_on(GetParam(), sample.finish());
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(1, 1));
  EXPECT_THAT(ints_of(outcome.states.at("last_id")), ElementsAre(1, 1));
  EXPECT_THAT(ints_of(outcome.states.at("output_index")), ElementsAre(1, 1));
}

TEST_P(SlotOperations, FinishOnAnyEosIdAndAtTheLastAllowedToken) {
  SampleCase sample(4, 3);
  sample.set_logits({9, 0, 0, /**/ 0, 9, 0, /**/ 0, 0, 9, /**/ 9, 0, 0});
  sample.set("eos", int_tensor({4, 2}, {0, -1, 2, 1, -1, -1, 1, 2}));
  sample.set_ints("output_index", {0, 0, 4, 4});
  sample.set_ints("max_new_tokens", {5, 5, 5, 6});
  const Outcome outcome = run_on(GetParam(), sample.finish());
  EXPECT_THAT(ints_of(outcome.outputs.at("tokens")), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(ints_of(outcome.states.at("finished")), ElementsAre(1, 1, 1, 0));
}

TEST_P(SlotOperations, GivePadForFinishedSlotsAndMinusOneWhereNothingIsChosen) {
  SampleCase sample(4, 3);
  sample.set_logits({9, 0, 0, 9, 0, 0, 9, 0, 0, 0, 9, 0});
  sample.set_ints("rows", {-1, 2, -1, 0});
  sample.set_ints("finished", {0, 1, 1, 0});
  sample.set_ints("pad_id", {50, 51, 52, 53});
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
  sample.set_logits({4, 3, -1});
  TensorData seen = zeros({DType::kUInt8, {1, 3}});
  seen.bytes[0] = std::byte{1};
  sample.set("seen", seen);
  sample.set_floats("repetition_penalty", {2});
  EXPECT_THAT(ints_of(run_on(GetParam(), sample.finish()).outputs.at("tokens")), ElementsAre(1));
}

TEST_P(SlotOperations, DrawWhatTheDefinitionDrawsForEverySeedAndParameter) {
  constexpr int64_t kSlots = 64;
  constexpr int64_t kVocabulary = 211;
  SampleCase sample(kSlots, kVocabulary);
  sample.set_logits(numbers_of(random_tensor({DType::kFloat32, {kSlots, kVocabulary}}, 5, /*scale=*/3)));
  std::vector<int32_t> ones(kSlots, 1), top_k, index, seed;
  std::vector<double> temperature, top_p, min_p;
  for (int32_t s = 0; s < kSlots; ++s) {
    top_k.push_back(s % 4 == 0 ? 0 : 10 * (s % 7));
    top_p.push_back(s % 3 == 0 ? 1.0 : 0.8);
    min_p.push_back(s % 5 == 0 ? 0.1 : 0.0);
    temperature.push_back(0.5 + 0.05 * s);
    index.push_back(s / 2);
    seed.insert(seed.end(), {s * 77 - 900, 5 - s});  // words with the sign bit set, too
  }
  sample.set_ints("do_sample", ones);
  sample.set_ints("top_k", top_k);
  sample.set_ints("output_index", index);
  sample.set_floats("temperature", temperature);
  sample.set_floats("top_p", top_p);
  sample.set_floats("min_p", min_p);
  sample.set("seed", int_tensor({kSlots, 2}, seed));
  const Case c = sample.finish();
  expect_same(run_on(GetParam(), c), run_on_scalar_model(c), "tokens and states");
}

}  // namespace
}  // namespace lockstep::conformance
