// Drafts affect the number of steps of an answer, never the answer. Real shards on the cpu backend with random weights;
// ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/graph/passes.h"
#include "shards/draft_model.h"
#include "shards/lookup_drafter.h"
#include "shards/speculative_engine.h"
#include "transport/loopback/loopback.h"

namespace lockstep::shards {
namespace {

constexpr int64_t kSlots = 3;
constexpr int64_t kCapacity = 48;
constexpr int64_t kDrafts = 4;

enum class DraftKind { kNone, kLookup, kOtherModel, kSameModel };

checkpoint::ModelSpec spec_of(int64_t layers) {
  checkpoint::ModelSpec spec;
  spec.model_type = "llama";
  spec.hidden_size = spec.embedding_size = 32;
  spec.layers = layers;
  spec.query_heads = 4;
  spec.key_value_heads = 2;
  spec.head_dim = 8;
  spec.attention_scale = 0.35;
  spec.rope.rotated = 8;
  spec.intermediate_size = 48;
  spec.vocabulary = 24;  // few tokens, so that runs repeat and token 0 occurs
  spec.max_positions = 256;
  spec.windows.assign(static_cast<size_t>(layers), 0);
  spec.windows[0] = 6;  // rejected drafts must leave the ring right
  return spec;
}

Result<std::unique_ptr<Shard>> make_shard(const checkpoint::ModelSpec& spec, int ranks, int rank, ShardOptions options,
                                          device::Backend& backend, device::Communicator* communicator) {
  LOCKSTEP_TRY(const partition::Partition partition, partition::make_partition(spec, ranks));
  LOCKSTEP_TRY(ShardGraphs graphs, build_graphs(spec, partition, rank, options, graph::default_passes()));
  return Shard::create(std::move(graphs), options, backend, communicator, RandomWeights());
}

Result<std::unique_ptr<StepEngine>> make_engine(DraftKind kind, int ranks, int rank, device::Backend& backend,
                                                device::Communicator* communicator) {
  ShardOptions options{.slots = kSlots, .chunk = 8, .capacity = kCapacity, .drafts = kDrafts};
  if (kind == DraftKind::kNone) options.drafts = 0;
  LOCKSTEP_TRY(auto target, make_shard(spec_of(2), ranks, rank, options, backend, communicator));
  if (kind == DraftKind::kNone) return std::unique_ptr<StepEngine>(std::move(target));
  std::unique_ptr<Drafter> drafter;
  if (kind == DraftKind::kLookup) {
    drafter = make_lookup_drafter(*target, {.tokens = kDrafts, .ngram_size = 2});
  } else {
    ShardOptions draft{.slots = kSlots, .chunk = 8, .capacity = kCapacity + kDrafts + 1};
    const int64_t layers = kind == DraftKind::kSameModel ? 2 : 1;
    LOCKSTEP_TRY(auto shard, make_shard(spec_of(layers), ranks, rank, draft, backend, communicator));
    LOCKSTEP_TRY(drafter, make_draft_model(std::move(shard), *target));
  }
  return std::unique_ptr<StepEngine>(std::make_unique<SpeculativeEngine>(std::move(target), std::move(drafter)));
}

struct Answer {
  std::vector<std::vector<int32_t>> tokens = std::vector<std::vector<int32_t>>(kSlots);
  int steps = 0;
  DraftStatistics drafts;
};

void take(const StepOutput& output, const std::vector<bool>& runs, Answer& answer) {
  const size_t width = output.tokens.size() / kSlots;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    for (const int32_t token : output.tokens.subspan(slot * width, width)) {
      if (runs[slot] && token >= 0) answer.tokens[slot].push_back(token);
    }
  }
}

bool is_over(const std::vector<int32_t>& tokens, const SlotParameters& parameters) {
  if (tokens.empty()) return false;
  const auto& eos = parameters.eos_ids;
  return std::ssize(tokens) >= parameters.max_new_tokens || std::ranges::find(eos, tokens.back()) != eos.end();
}

Result<Answer> run_rank(StepEngine& engine, const std::vector<SlotParameters>& parameters) {
  Answer answer;
  const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3, 1, 2}, {5}, {7, 0, 7, 0, 7, 0, 9}};
  std::vector<bool> runs(kSlots, false);
  StepTag tag;
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    const auto index = static_cast<size_t>(slot);
    LOCKSTEP_TRY_VOID(engine.open_slot(SlotId(slot), parameters[index]));
    PrefillRows rows{.ids = prompts[index], .slot = {}, .position = {}, .logit_rows = std::vector<int32_t>(kSlots, -1)};
    for (size_t i = 0; i < rows.ids.size(); ++i) {
      rows.slot.push_back(slot);
      rows.position.push_back(static_cast<int32_t>(i));
    }
    rows.logit_rows[index] = static_cast<int32_t>(rows.ids.size()) - 1;
    LOCKSTEP_TRY(const StepOutput output, engine.prefill(rows, tag));
    ++tag.step;
    std::vector<bool> only(kSlots, false);
    only[index] = runs[index] = true;
    take(output, only, answer);
  }
  while (!engine.all_finished()) {
    for (size_t slot = 0; slot < kSlots; ++slot) runs[slot] = !is_over(answer.tokens[slot], parameters[slot]);
    LOCKSTEP_TRY(const StepOutput output, engine.decode(tag));
    ++tag.step;
    ++answer.steps;
    take(output, runs, answer);
  }
  LOCKSTEP_TRY_VOID(engine.confirm(tag));
  if (const auto* speculative = dynamic_cast<const SpeculativeEngine*>(&engine)) {
    answer.drafts = speculative->statistics();
  }
  return answer;
}

/// Rank 0's answer; the other ranks are checked to have the same.
Answer run(DraftKind kind, int ranks, const std::vector<SlotParameters>& parameters) {
  const SteadyClock clock;
  AbortFlag abort;
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(60)};
  const auto group = transport::loopback::make_group(ranks);
  std::vector<Answer> answers(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = ranks == 1 ? nullptr : transport::loopback::make_communicator(group, rank, wait);
      auto backend = cpu::make_backend({.threads = 1}).value();
      auto engine = make_engine(kind, ranks, rank, *backend, communicator.get());
      Result<Answer> answer = engine.has_value() ? run_rank(*engine.value(), parameters) : engine.error();
      EXPECT_TRUE(answer.has_value()) << answer.error().message;
      if (answer.has_value()) {
        answers[static_cast<size_t>(rank)] = std::move(answer).value();
      } else {
        abort.raise(answer.error());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Answer& answer : answers) EXPECT_EQ(answer.tokens, answers.front().tokens);
  return answers.front();
}

std::vector<SlotParameters> greedy() { return std::vector<SlotParameters>(kSlots, {.max_new_tokens = 30}); }

std::vector<SlotParameters> sampled() {
  std::vector<SlotParameters> parameters = greedy();
  for (size_t slot = 0; slot < kSlots; ++slot) {
    parameters[slot].sampling = {.do_sample = true,
                                 .temperature = 0.8f,
                                 .top_k = 12,
                                 .repetition_penalty = slot == 1 ? 1.2f : 1.0f,
                                 .seed = 11 + slot};
  }
  return parameters;
}

class Speculation : public ::testing::TestWithParam<std::tuple<DraftKind, int>> {};

TEST_P(Speculation, GivesTheTargetsOwnTokensGreedyAndSampled) {
  const auto& [kind, ranks] = GetParam();
  int64_t drafted_tokens = 0, accepted = 0;
  for (const auto& parameters : {greedy(), sampled()}) {
    const Answer alone = run(DraftKind::kNone, 1, parameters);
    const Answer drafted = run(kind, ranks, parameters);
    EXPECT_EQ(drafted.tokens, alone.tokens);
    EXPECT_LE(drafted.steps, alone.steps);
    drafted_tokens += drafted.drafts.drafted;
    accepted += drafted.drafts.accepted;
  }
  EXPECT_GT(drafted_tokens, 0);
  if (kind == DraftKind::kSameModel) {
    EXPECT_GT(2 * accepted, drafted_tokens);  // those beyond the last token aside
  } else {
    EXPECT_LT(accepted, drafted_tokens);  // some are rejected
  }
}

TEST_P(Speculation, EndsAtAnEndTokenInsideAStepAndAtTheCapacity) {
  const auto& [kind, ranks] = GetParam();
  const Answer free = run(DraftKind::kNone, 1, greedy());
  std::vector<SlotParameters> parameters = greedy();
  parameters[0].eos_ids = {free.tokens[0][5]};
  parameters[1].max_new_tokens = 7;
  parameters[2].max_new_tokens = static_cast<int32_t>(kCapacity) - 7 + 1;  // fills the slot to its last row
  const Answer alone = run(DraftKind::kNone, 1, parameters);
  EXPECT_EQ(run(kind, ranks, parameters).tokens, alone.tokens);
  EXPECT_LE(alone.tokens[0].size(), 6u);
  EXPECT_EQ(alone.tokens[2].size(), static_cast<size_t>(kCapacity) - 7 + 1);
}

INSTANTIATE_TEST_SUITE_P(Drafters, Speculation,
                         ::testing::Combine(::testing::Values(DraftKind::kLookup, DraftKind::kOtherModel,
                                                              DraftKind::kSameModel),
                                            ::testing::Values(1, 2)));

TEST(Speculation, TakesEveryDraftOfTheModelItself) {
  const Answer answer = run(DraftKind::kSameModel, 1, sampled());
  EXPECT_GT(answer.drafts.accepted, 0);
  const Answer alone = run(DraftKind::kNone, 1, sampled());
  EXPECT_LE(answer.steps * 4, alone.steps * 1 + 4);  // five tokens a step, the last ones aside
}

}  // namespace
}  // namespace lockstep::shards
