// A request that reuses a kept prefix has the bits of a full prefill. Every family and window, in place and by copy,
// greedy and sampled, with drafts, in every mode of key/value heads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <numeric>
#include <optional>
#include <random>

#include "lockstep/engine.h"
#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

using Ids = std::vector<int32_t>;

/// One request of a conversation.
struct Turn {
  Ids ids;
  Overrides overrides;
  std::optional<size_t> after = {};  // the turn whose prompt and answer come before `ids`
};

struct Heard {
  std::vector<Ids> ids;
  std::vector<std::vector<float>> logits;
  std::vector<Ids> prompts;
  std::vector<int64_t> cached;
  int64_t reused = 0;
};

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Heard hear(const std::filesystem::path& directory, int ranks, EngineOptions options, const std::vector<Turn>& turns) {
  const auto group = Group::threads(ranks).value();
  const Model model = Model::open(directory, {.dtype = DType::kFloat32}).value();
  options.capacity = 128;
  options.threads = 1;
  const bool has_logits = options.drafting.tokens == 0;
  const auto engine = Engine::open(*group, model, options).value();
  Heard heard;
  for (const Turn& turn : turns) {
    const Ids before = turn.after ? joined(heard.prompts.at(*turn.after), heard.ids.at(*turn.after)) : Ids();
    heard.prompts.push_back(joined(before, turn.ids));
    Request request{.prompt = {.ids = heard.prompts.back()}, .config = model.generation()};
    request.config.eos_token_ids.clear();
    request.config.output_logits = has_logits;
    for (const auto& [name, value] : turn.overrides) EXPECT_TRUE(request.config.set(name, value).has_value()) << name;
    const Answer answer = engine->submit(std::move(request)).value().wait().value().at(0);
    heard.ids.push_back(answer.ids);
    heard.logits.push_back(answer.logits);
    heard.cached.push_back(answer.cached_tokens);
  }
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_EQ(engine->facts().graphs_after_start.size(), 0u);
  heard.reused = engine->counters().reused_tokens;
  return heard;
}

const Overrides kGreedy = {{"max_new_tokens", "12"}};
// The seen tokens affect the choice, so those of a kept prefix must be correct.
const Overrides kSampled = {
    {"max_new_tokens", "10"}, {"do_sample", "true"}, {"seed", "7"}, {"repetition_penalty", "1.4"}, {"top_k", "30"}};

const Overrides kByHost = {{"max_new_tokens", "8"}, {"no_repeat_ngram_size", "2"}};

/// A conversation, another with the same beginning, an unrelated one, and the first again, which goes on for three
/// more turns.
std::vector<Turn> turns_of(const Golden& golden) {
  const Ids& prompt = golden.prompts.back();
  const Ids made(golden.tokens.back().begin(), golden.tokens.back().begin() + 12);
  const Ids other(prompt.rbegin(), prompt.rend());
  const Ids longer = joined(joined(prompt, made), {5, 3, 9});
  const Ids branch = joined(Ids(prompt.begin(), prompt.begin() + 37), {7, 4, 11});
  return {{prompt, kGreedy},    {longer, kGreedy},  {prompt, kSampled},      {branch, kGreedy},
          {other, kGreedy},     {longer, kSampled}, {branch, kSampled},      {longer, kGreedy},
          {{8, 6}, kByHost, 7}, {{4}, kByHost, 8},  {{9, 9, 2}, kSampled, 9}};
}

/// The tokens that were reused.
int64_t expect_same_answers(const Heard& reused, const Heard& fresh) {
  EXPECT_EQ(reused.ids.size(), fresh.ids.size());
  for (size_t turn = 0; turn < fresh.ids.size(); ++turn) {
    EXPECT_EQ(reused.ids[turn], fresh.ids[turn]) << "turn " << turn;
    EXPECT_TRUE(same_bits(reused.logits[turn], fresh.logits[turn])) << "turn " << turn;
  }
  EXPECT_EQ(fresh.reused, 0);
  return reused.reused;
}

void expect_same(const Heard& reused, const Heard& fresh) { EXPECT_GT(expect_same_answers(reused, fresh), 0); }

EngineOptions options_of(int64_t slots, int64_t chunk) { return {.slots = slots, .prefill_chunk = chunk}; }

EngineOptions without_reuse(EngineOptions options) {
  options.prefix_reuse = PrefixReuse::kOff;
  return options;
}

class Reused : public ::testing::TestWithParam<std::string> {};

TEST_P(Reused, HasTheBitsOfAFreshPrefill) {
  const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, GetParam());
  const GoldenModel model(golden, {});
  const std::vector<Turn> turns = turns_of(golden);
  const Heard fresh = hear(model.path(), 1, without_reuse(options_of(1, 64)), turns);
  EXPECT_EQ(fresh.ids[0], Ids(golden.tokens.back().begin(), golden.tokens.back().begin() + 12));
  constexpr std::tuple<int, int64_t, int64_t> kCuts[] = {{1, 1, 64}, {2, 3, 16}, {3, 2, 5}};
  for (const size_t cut : cuts_in_turn(LOCKSTEP_GOLDENS_DIR, GetParam(), std::size(kCuts), 1)) {
    const auto& [ranks, slots, chunk] = kCuts[cut];
    SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << slots << " slots, chunk " << chunk);
    const Heard heard = hear(model.path(), ranks, options_of(slots, chunk), turns);
    expect_same(heard, fresh);
    for (const size_t turn : {size_t{1}, size_t{8}, size_t{9}, size_t{10}}) {  // each follows the one before
      const size_t held = heard.prompts[turn - 1].size() + heard.ids[turn - 1].size();
      EXPECT_EQ(heard.cached[turn], static_cast<int64_t>(held) - 1) << "turn " << turn;
    }
    EXPECT_EQ(std::accumulate(heard.cached.begin(), heard.cached.end(), int64_t{0}), heard.reused);
  }
}

std::string name_of(const ::testing::TestParamInfo<std::string>& tested) { return tested.param; }

INSTANTIATE_TEST_SUITE_P(Families, Reused, ::testing::ValuesIn(golden_names(LOCKSTEP_GOLDENS_DIR)), name_of);

/// Each begins like one before, up to a place by chance, and may have its answer, too.
std::vector<Turn> random_turns(int64_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t end) { return static_cast<size_t>(random() % end); };
  std::vector<Turn> turns;
  for (int i = 0; i < 24; ++i) {
    Ids ids;
    if (i > 0) ids = turns[below(2) == 0 ? turns.size() - 1 : below(turns.size())].ids;
    ids.resize(std::min<size_t>(ids.size(), 90) - below(std::min<size_t>(ids.size() / 3, below(2) == 0 ? 3 : 25) + 1));
    for (size_t added = 1 + below(i == 0 ? 60 : 12); added > 0 && ids.size() < 110; --added) {
      ids.push_back(static_cast<int32_t>(below(static_cast<size_t>(vocabulary))));
    }
    turns.push_back({ids, i % 3 == 0 ? kSampled : i % 5 == 0 ? kByHost : kGreedy});
  }
  return turns;
}

TEST(ReusedPrefix, HasTheBitsOfAFreshPrefillInAnyOrderOfRequests) {
  for (const char* name : {"mistral_window", "gemma2_alternating_windows", "gpt_oss_plain", "llama_grouped"}) {
    const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, name);
    const GoldenModel folder(golden, {});
    int64_t reused = 0;
    const int64_t vocabulary = Model::open(folder.path(), {}).value().spec().vocabulary;
    for (const uint32_t seed : {1u, 2u, 3u}) {
      SCOPED_TRACE(::testing::Message() << name << ", seed " << seed);
      const std::vector<Turn> turns = random_turns(vocabulary, seed);
      const Heard fresh = hear(folder.path(), 1, without_reuse(options_of(1, 64)), turns);
      for (const int64_t slots : {1, 2, 4}) {
        reused += expect_same_answers(hear(folder.path(), 2, options_of(slots, 11), turns), fresh);
      }
    }
    EXPECT_GT(reused, 100);
  }
}

TEST(ReusedPrefix, ServesRowsThatAreDrafted) {
  for (const char* name : {"llama_grouped", "mistral_window"}) {
    const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, name);
    const GoldenModel model(golden, {});
    std::vector<Turn> turns = turns_of(golden);
    turns.resize(8);  // without those that the host chooses for
    const Heard plain = hear(model.path(), 1, without_reuse(options_of(1, 64)), turns);
    EngineOptions lookup = options_of(2, 16), drafted = lookup;
    lookup.drafting = {.tokens = 3, .model = std::nullopt, .lookup_ngram = 2};
    drafted.drafting = {.tokens = 2, .model = model.path(), .lookup_ngram = 0};
    for (const EngineOptions& options : {lookup, drafted}) {
      const Heard heard = hear(model.path(), 2, options, turns);
      EXPECT_EQ(heard.ids, plain.ids) << name;
      EXPECT_GT(heard.reused, 0);
    }
  }
}

TEST(ReusedPrefix, MovesBetweenTheRanksThatHoldWholeSequences) {
  const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, "llama_grouped");
  const GoldenModel model(golden, {});
  const std::vector<Turn> turns = turns_of(golden);
  EngineOptions options = options_of(2, 16);
  options.partition.gqa = partition::GqaMode::kBatch;
  expect_same(hear(model.path(), 2, options, turns), hear(model.path(), 2, without_reuse(options), turns));
}

TEST(ReusedPrefix, ServesBeamsWhichKeepNothingAndProcessors) {
  const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, "gemma2_alternating_windows");
  const GoldenModel model(golden, {});
  const Ids& prompt = golden.prompts.back();
  const Overrides beams = {{"max_new_tokens", "8"}, {"num_beams", "3"}};
  const Overrides by_host = {{"max_new_tokens", "8"}, {"no_repeat_ngram_size", "2"}};
  const std::vector<Turn> turns = {
      {prompt, kGreedy}, {prompt, beams}, {prompt, by_host}, {prompt, beams}, {prompt, kGreedy}};
  const auto without_logits = [](std::vector<Turn> all) {
    for (Turn& turn : all) turn.overrides.emplace_back("output_logits", "false");
    return all;
  };
  const Heard fresh = hear(model.path(), 1, without_reuse(options_of(3, 64)), without_logits(turns));
  expect_same(hear(model.path(), 2, options_of(3, 16), without_logits(turns)), fresh);
}

TEST(ReusedPrefix, ServesRequestsThatRunSideBySide) {
  const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, "qwen3_no_window_tied");
  const GoldenModel folder(golden, {});
  const auto group = Group::threads(2).value();
  const Model model = Model::open(folder.path(), {.dtype = DType::kFloat32}).value();
  const auto engine =
      Engine::open(*group, model, {.slots = 3, .capacity = 128, .prefill_chunk = 16, .threads = 1}).value();
  std::vector<RequestHandle> handles;
  for (int round = 0; round < 6; ++round) {
    Request request{.prompt = {.ids = golden.prompts.back()}, .config = model.generation()};
    request.config.eos_token_ids.clear();
    request.config.max_new_tokens = static_cast<int32_t>(golden.tokens.back().size()) - round;
    handles.push_back(engine->submit(std::move(request)).value());
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    const Ids& all = golden.tokens.back();
    EXPECT_EQ(handles[i].wait().value().at(0).ids, Ids(all.begin(), all.end() - static_cast<std::ptrdiff_t>(i)));
  }
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_GE(engine->counters().reused_tokens, 3 * 39);
}

}  // namespace
}  // namespace lockstep::model
