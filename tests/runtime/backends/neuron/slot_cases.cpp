// Operations on the slots: marks, lengths, agreement, the choice of tokens.
#include <fmt/format.h>

#include <algorithm>

#include "tests/conformance/backend/drawing.h"
#include "tests/runtime/backends/neuron/oracle_case.h"

namespace lockstep::neuron {
namespace {

using conformance::Case;
using conformance::CaseBuilder;
using conformance::int_tensor;
using conformance::random_tensor;
using conformance::TensorData;
using graph::ValueId;

OracleCase of_one(const std::string& name, CaseBuilder b) {
  std::vector<Case> cases;
  cases.push_back(std::move(b).finish());
  return single_step(name, std::move(cases));
}

CaseBuilder builder_of(int64_t rows, int64_t slots, int ranks = 1, int rank = 0) {
  return CaseBuilder({.name = "step", .ranks = ranks, .rank = rank, .rows = rows, .slots = slots});
}

OracleCase marks_case() {
  CaseBuilder b = builder_of(5, 3);
  const ValueId slot = b.input("slot", int_tensor({5}, {1, 1, -1, 1, 1}));
  TensorData seen = conformance::zeros({DType::kUInt8, {3, 9}});
  seen.bytes[3] = std::byte{1};
  b.builder.mark_seen(b.state("seen", seen), b.input("ids", int_tensor({5}, {8, 0, 4, 8, 3})), slot);
  b.builder.advance(b.state("length", int_tensor({3}, {7, 8, 9})), slot);
  b.builder.output("slot_of_row", b.builder.clamp_positions(slot, 100));
  return of_one("mark_and_advance", std::move(b));
}

OracleCase running_case() {
  CaseBuilder b = builder_of(4, 4);
  const ValueId active = b.state("active", int_tensor({4}, {1, 1, 0, 1}));
  const ValueId running = b.builder.running_slots(active, b.state("finished", int_tensor({4}, {0, 1, 0, 0})));
  const ValueId x = b.input("x", random_tensor({DType::kFloat32, {4, 6}}, 3));
  b.builder.output("running", running);
  b.builder.output("rows", b.builder.select_rows(x, running));
  return of_one("running_slots", std::move(b));
}

OracleCase agree_case(int ranks) {
  std::vector<Case> cases;
  for (int rank = 0; rank < ranks; ++rank) {
    CaseBuilder b = builder_of(3, 3, ranks, rank);
    const auto ints = [&](const char* name, std::vector<int32_t> values) {
      return b.state(name, int_tensor({static_cast<int64_t>(values.size())}, values));
    };
    const ValueId hidden = b.input("hidden", random_tensor({DType::kFloat32, {3, 8}}, 4));
    // Only rank 0's value is used.
    const ValueId stop =
        ints("stop_request", rank == 0 ? std::vector<int32_t>{0, 1, 0} : std::vector<int32_t>{1, 0, 0});
    b.builder.agree({hidden, ints("step", {3, 4}), ints("last_id", {1, 2, 3}), ints("length", {4, 5, 6}),
                     ints("output_index", {0, 1, 2}), ints("parameter_hash", {-7, 8, 9}), stop,
                     ints("finished", {0, 0, 1})});
    b.builder.output("hidden_out", b.builder.scale(hidden, 1.5));
    cases.push_back(std::move(b).finish());
  }
  return single_step(fmt::format("agree_tp{}", ranks), std::move(cases));
}

/// Every way of choosing, in a slot each.
std::vector<sampling::SlotRule> rules() {
  std::vector<sampling::SlotRule> rules(11, conformance::plain_rule());
  for (size_t i = 0; i < rules.size(); ++i) {
    rules[i].parameters.do_sample = i > 1;
    rules[i].parameters.seed = 0x9e3779b97f4a7c15ull * (i + 3);
    rules[i].parameters.temperature = 0.7f + 0.1f * static_cast<float>(i % 4);
  }
  rules[1].parameters.repetition_penalty = 1.7f;
  rules[1].min_new_tokens = 50;
  rules[1].eos[0] = 5;
  rules[1].eos[3] = 11;
  rules[3].parameters.top_k = 7;
  rules[4].parameters.top_p = 0.6f;
  rules[5].parameters.top_k = 20;
  rules[5].parameters.top_p = 0.9f;
  rules[6].parameters.min_p = 0.1f;
  rules[7].parameters.typical_p = 0.5f;
  rules[8].parameters.epsilon_cutoff = 0.03f;
  rules[9].parameters.eta_cutoff = 0.05f;
  rules[10].parameters = {.do_sample = true,
                          .temperature = 1.3f,
                          .top_k = 30,
                          .top_p = 0.95f,
                          .min_p = 0.01f,
                          .repetition_penalty = 1.2f,
                          .seed = 77,
                          .typical_p = 0.9f,
                          .epsilon_cutoff = 0.001f,
                          .eta_cutoff = 0.002f};
  return rules;
}

/// 20 steps with new logits each; the output's index increases, so every step uses new random numbers.
OracleCase sample_case(const std::string& name, int64_t vocabulary, LoweringOptions::Sampling sampling) {
  std::vector<sampling::SlotRule> drawn = rules();
  if (sampling == LoweringOptions::Sampling::kGreedy) {
    for (sampling::SlotRule& rule : drawn) rule.parameters.do_sample = false;
  }
  const auto slots = static_cast<int64_t>(drawn.size());
  CaseBuilder b = builder_of(slots, slots);
  const std::vector<int32_t> zeros(drawn.size(), 0);
  std::vector<int32_t> rows(drawn.size(), 1), finished = zeros;
  rows[2] = -1;
  finished[6] = 0;
  drawn[0].max_new_tokens = 12;
  TensorData seen = conformance::zeros({DType::kUInt8, {slots, vocabulary}});
  for (size_t i = 0; i < seen.bytes.size(); i += 3) seen.bytes[i] = std::byte{1};
  std::vector<ValueId> operands{b.input("logits", conformance::zeros({DType::kFloat32, {slots, vocabulary}})),
                                b.input("rows", int_tensor({slots}, rows)),
                                b.state("last_id", int_tensor({slots}, zeros)),
                                b.state("output_index", int_tensor({slots}, zeros)),
                                b.state("finished", int_tensor({slots}, finished)),
                                b.state("seen", seen)};
  for (const ValueId id : add_drawing_states(b, drawn)) operands.push_back(id);
  b.builder.output("tokens", b.builder.sample(std::move(operands)));
  OracleCase c = of_one(name, std::move(b));
  c.options.sampling = sampling;
  const ScriptedStep first = c.script.front();
  c.script.clear();
  for (uint64_t i = 0; i < 20; ++i) {
    ScriptedStep step = first;
    step.inputs[0].insert_or_assign("logits", random_tensor({DType::kFloat32, {slots, vocabulary}}, 40 + i, 4.0));
    c.script.push_back(std::move(step));
  }
  return c;
}

/// Drafts of which some are accepted, one is shorter, and a slot that does not run.
OracleCase accept_case() {
  constexpr int64_t kSlots = 4, kRows = 3, kVocabulary = 12;
  CaseBuilder b = builder_of(kSlots * kRows, kSlots);
  std::vector<sampling::SlotRule> rules(kSlots, conformance::plain_rule());
  rules[1].parameters.repetition_penalty = 1.3f;
  rules[2].max_new_tokens = 2;
  const TensorData logits = random_tensor({DType::kFloat32, {kSlots * kRows, kVocabulary}}, 11, 3.0);
  const std::vector<double> numbers = conformance::numbers_of(logits);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < kSlots * kRows; ++r) {  // row r + 1 was drafted as the best of row r
    const auto row = numbers.begin() + r * kVocabulary;
    ids.push_back(static_cast<int32_t>(std::max_element(row, row + kVocabulary) - row));
  }
  std::rotate(ids.begin(), ids.end() - 1, ids.end());
  ids[5] = 0;
  const auto slot_ints = [&](const char* name, std::vector<int32_t> values) {
    return b.state(name, int_tensor({kSlots}, values));
  };
  std::vector<ValueId> operands{b.input("logits", logits),
                                b.input("ids", int_tensor({kSlots * kRows}, ids)),
                                b.input("slot", int_tensor({kSlots * kRows}, {0, 0, 0, 1, 1, 1, 2, 2, -1, -1, -1, -1})),
                                slot_ints("length", {3, 4, 5, 6}),
                                slot_ints("last_id", {ids[0], ids[3], ids[6], 1}),
                                slot_ints("output_index", {1, 1, 1, 1}),
                                slot_ints("finished", {0, 0, 0, 1}),
                                b.state("seen", conformance::zeros({DType::kUInt8, {kSlots, kVocabulary}}))};
  for (const ValueId id : add_drawing_states(b, rules)) operands.push_back(id);
  b.builder.output("tokens", b.builder.accept(std::move(operands)));
  return of_one("accept", std::move(b));
}

/// Clear logits, a tie, targets at both ends and padding.
OracleCase score_case(int64_t top) {
  constexpr int64_t kRows = 5, kVocabulary = 40;
  CaseBuilder b = builder_of(kRows, 2);
  TensorData logits = random_tensor({DType::kFloat32, {kRows, kVocabulary}}, 21, 6.0);
  auto* const values = reinterpret_cast<float*>(logits.bytes.data());
  values[kVocabulary + 9] = values[kVocabulary + 30] = 11.0f;
  const ValueId targets = b.input("targets", int_tensor({kRows}, {0, 30, kVocabulary - 1, -1, 7}));
  b.builder.output("scores", b.builder.score(b.input("logits", logits), targets, top));
  return of_one(fmt::format("score_top{}", top), std::move(b));
}

}  // namespace

std::vector<OracleCase> slot_cases() {
  std::vector<OracleCase> cases;
  cases.push_back(marks_case());
  cases.push_back(running_case());
  cases.push_back(agree_case(1));
  cases.push_back(agree_case(2));
  cases.push_back(sample_case("sample_draw", 300, LoweringOptions::Sampling::kDraw));
  cases.push_back(sample_case("sample_draw_small", 40, LoweringOptions::Sampling::kDraw));
  cases.push_back(sample_case("sample_greedy", 300, LoweringOptions::Sampling::kGreedy));
  cases.push_back(accept_case());
  cases.push_back(score_case(0));
  cases.push_back(score_case(4));
  return cases;
}

}  // namespace lockstep::neuron
