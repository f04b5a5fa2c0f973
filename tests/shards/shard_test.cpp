// Tests of the shard over a fake backend. tests/model has tests of whole models.
#include "shards/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/changed_fields.h"
#include "tests/shards/fake_backend.h"

namespace lockstep::shards {
namespace {

using ::testing::HasSubstr;

PrefillRows rows(std::vector<int32_t> ids, int32_t slot, std::vector<int32_t> logit_rows) {
  PrefillRows made;
  for (size_t i = 0; i < ids.size(); ++i) {
    made.slot.push_back(slot);
    made.position.push_back(static_cast<int32_t>(i));
  }
  made.ids = std::move(ids);
  made.logit_rows = std::move(logit_rows);
  return made;
}

TEST(Shard, PadsAPrefillStepToItsStaticChunk) {
  Fixture f;
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), {.max_new_tokens = 3}).has_value());
  const auto output = f.shard->prefill(rows({5, 6, 7}, 1, {-1, 2}), {.schedule = 4, .step = 9}).value();
  const auto& seen = f.backend.executables["prefill"]->seen;
  EXPECT_EQ(seen[0], (std::vector<int32_t>{5, 6, 7, 0}));
  EXPECT_EQ(seen[1], (std::vector<int32_t>{1, 1, 1, -1}));
  EXPECT_EQ(seen[2], (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(seen[3], (std::vector<int32_t>{-1, 2}));
  EXPECT_EQ(output.tokens[0], 11);
  EXPECT_EQ(f.backend.store->value("step", 0), 4);
  EXPECT_EQ(f.backend.store->value("step", 1), 9);
}

TEST(Shard, DecodesASlotOnlyOnceItsPromptIsComplete) {
  Fixture f;
  ASSERT_TRUE(f.shard->open_slot(SlotId(0), {.max_new_tokens = 3}).has_value());
  ASSERT_TRUE(f.shard->prefill(rows({5, 6}, 0, {-1, -1}), {}).has_value());
  EXPECT_EQ(f.backend.store->value("active", 0), 0);
  EXPECT_TRUE(f.shard->all_finished());
  ASSERT_TRUE(f.shard->prefill(rows({7}, 0, {0, -1}), {}).has_value());
  EXPECT_EQ(f.backend.store->value("active", 0), 1);
  EXPECT_FALSE(f.shard->all_finished());
}

TEST(Shard, AddsTheDevicesTimeOfAllItsGraphsOnceSomebodyWantsIt) {
  using std::chrono::microseconds;
  Fixture fixture;
  ASSERT_TRUE(fixture.shard->decode({}).has_value());
  EXPECT_EQ(fixture.shard->device_time(), device::DeviceTime{});
  fixture.shard->time_device();
  ASSERT_TRUE(fixture.shard->decode({}).has_value());
  ASSERT_TRUE(
      fixture.shard->prefill({.ids = {3}, .slot = {0}, .position = {0}, .logit_rows = {0, -1}}, {}).has_value());
  EXPECT_EQ(fixture.shard->device_time(), (device::DeviceTime{microseconds(10), microseconds(2)}));
  EXPECT_EQ(fixture.shard->executables()[1]->device_time().device, microseconds(5));
}

TEST(Shard, WritesHowASequenceDrawsAndEnds) {
  Fixture f;
  const SlotParameters parameters{.sampling = {.do_sample = true, .top_k = 7, .seed = 0x100000002ull},
                                  .max_new_tokens = 9,
                                  .eos_ids = {3, 4},
                                  .pad_id = 2};
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), parameters).has_value());
  const FakeStore& store = *f.backend.store;
  const auto integer = [&store](int column) {
    return store.value("draw_integers", static_cast<size_t>(sampling::kIntegers + column));
  };
  EXPECT_EQ(integer(sampling::kDoSample), 1);
  EXPECT_EQ(integer(sampling::kTopK), 7);
  EXPECT_EQ(store.value("seed", 2), 2);
  EXPECT_EQ(store.value("seed", 3), 1);
  EXPECT_EQ(integer(sampling::kMaxNewTokens), 9);
  EXPECT_EQ(integer(sampling::kPadId), 2);
  EXPECT_EQ(store.value("eos", sampling::kMaxEosIds), 3);
  EXPECT_EQ(store.value("eos", sampling::kMaxEosIds + 2), -1);
}

TEST(Shard, TellsTheOtherRanksOfEveryParameterOfASequenceByAHash) {
  Fixture f;
  const SlotParameters parameters{.max_new_tokens = 9, .eos_ids = {3, 4}};
  const auto hash_of = [&f](const SlotParameters& opened) {
    EXPECT_TRUE(f.shard->open_slot(SlotId(1), opened).has_value());
    return f.backend.store->value("parameter_hash", 1);
  };
  const int32_t hash = hash_of(parameters);
  EXPECT_EQ(hash_of(parameters), hash);
  for_each_changed_field(parameters, [&](const std::string& name, const SlotParameters& changed) {
    EXPECT_NE(hash_of(changed), hash) << name;
  });
}

TEST(Shard, TellsTheOtherRanksOfEveryTokenOfAPromptByAHash) {
  const auto hash_of = [](const PrefillRows& rows) {
    Fixture f;
    EXPECT_TRUE(f.shard->open_slot(SlotId(1), {}).has_value());
    EXPECT_TRUE(f.shard->prefill(rows, {}).has_value());
    return std::pair(f.backend.store->value("parameter_hash", 0), f.backend.store->value("parameter_hash", 1));
  };
  const PrefillRows rows{.ids = {5, 9}, .slot = {1, 1}, .position = {0, 1}, .logit_rows = {-1, 1}};
  const auto hash = hash_of(rows);
  EXPECT_EQ(hash_of(rows), hash);
  for (const auto& [field, value] : {std::pair(&PrefillRows::ids, 6), {&PrefillRows::position, 3}}) {
    PrefillRows changed = rows;
    (changed.*field)[0] = value;
    EXPECT_NE(hash_of(changed).second, hash.second);
    EXPECT_EQ(hash_of(changed).first, hash.first);
  }
  PrefillRows turned = rows;
  turned.ids = {9, 5};
  EXPECT_NE(hash_of(turned).second, hash.second);
}

/// What the other ranks compare of slot 1 after `step`, the first one of a shard.
template <typename Step>
int32_t hash_after(const ShardOptions& options, const Step& step) {
  Fixture f(1, 0, options);
  EXPECT_TRUE(step(*f.shard).has_value());
  return f.backend.store->value("parameter_hash", 1);
}

TEST(Shard, TellsTheOtherRanksOfEveryEmbeddingOfAPromptByAHash) {
  ShardOptions options = kOptions;
  options.embeddings = families::StepShape::Embeddings::kMixed;
  PrefillRows rows{.ids = {5, kEmbedded}, .slot = {1, 1}, .position = {0, 1}, .logit_rows = {-1, 1}};
  rows.embeddings.resize(16, 0.5F);  // tiny_spec's hidden size
  const auto hash_of = [&] { return hash_after(options, [&](Shard& shard) { return shard.prefill(rows, {}); }); };
  const int32_t hash = hash_of();
  EXPECT_EQ(hash_of(), hash);
  for (float& value : rows.embeddings) {
    const float before = std::exchange(value, std::nextafter(value, 1.0F));  // another last bit
    EXPECT_NE(hash_of(), hash);
    value = before;
  }
}

TEST(Shard, TellsTheOtherRanksOfEveryTargetByAHash) {
  ShardOptions options = kOptions;
  options.score_rows = 4;
  ScoreRows rows{.ids = {5, 9}, .slot = {1, 1}, .position = {0, 1}, .targets = {9, 7}};
  const auto hash_of = [&] { return hash_after(options, [&](Shard& shard) { return shard.score(rows, {}); }); };
  const int32_t hash = hash_of();
  EXPECT_EQ(hash_of(), hash);
  for (const auto field : {&ScoreRows::ids, &ScoreRows::position, &ScoreRows::targets}) {
    for (int32_t& value : rows.*field) {
      ++value;
      EXPECT_NE(hash_of(), hash);
      --value;
    }
  }
}

TEST(Shard, TellsTheOtherRanksOfEveryDraftByAHash) {
  const auto hashes_of = [](const std::vector<int32_t>& drafted) {
    Fixture f(1, 0, {.slots = 2, .chunk = 4, .capacity = 16, .drafts = 2});
    for (const size_t slot : {0, 1}) f.backend.store->set("active", slot, 1);
    EXPECT_TRUE(f.shard->verify(drafted, {}).has_value());
    return std::pair(f.backend.store->value("parameter_hash", 0), f.backend.store->value("parameter_hash", 1));
  };
  const auto hashes = hashes_of({1, 2, 3, 4});
  EXPECT_EQ(hashes_of({1, 2, 3, 4}), hashes);
  for (const auto& drafted : {std::vector<int32_t>{7, 2, 3, 4}, {1, 7, 3, 4}}) {
    EXPECT_NE(hashes_of(drafted).first, hashes.first);
    EXPECT_EQ(hashes_of(drafted).second, hashes.second);
  }
  EXPECT_NE(hashes_of({1, 2, 3, 7}).second, hashes.second);
}

TEST(Shard, HandsStopRequestsToTheNextStepAndForgetsThemOnOpening) {
  Fixture f;
  f.shard->request_stop(SlotId(1));
  ASSERT_TRUE(f.shard->decode({}).has_value());
  EXPECT_EQ(f.backend.store->value("stop_request", 1), 1);
  EXPECT_EQ(f.backend.store->value("stop_request", 0), 0);
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), {}).has_value());
  ASSERT_TRUE(f.shard->decode({}).has_value());
  EXPECT_EQ(f.backend.store->value("stop_request", 1), 0);
}

TEST(Shard, GoesOnWithASequenceAtTheOutputIndexWhereItWas) {
  Fixture f;
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), {.max_new_tokens = 9, .first_output = 4}).has_value());
  EXPECT_EQ(f.backend.store->value("output_index", 1), 4);
  EXPECT_FALSE(f.shard->open_slot(SlotId(1), {.max_new_tokens = 4, .first_output = 4}).has_value());
}

TEST(Shard, CopiesASlotBeforeTheRowsThatGoOnWithIt) {
  Fixture f;
  for (int32_t slot : {0, 1}) ASSERT_TRUE(f.shard->open_slot(SlotId(slot), {.max_new_tokens = 3}).has_value());
  f.backend.store->set("length", 0, 5);
  f.backend.store->set("last_id", 0, 17);
  PrefillRows next = rows({7}, 1, {-1, 0});
  next.copies = {{SlotId(0), SlotId(1)}};
  ASSERT_TRUE(f.shard->prefill(next, {}).has_value());
  EXPECT_EQ(f.backend.store->copies, (std::vector<std::vector<int64_t>>{{0, 1, 5}}));
  EXPECT_EQ(f.backend.store->value("length", 1), 5);
  EXPECT_EQ(f.backend.store->value("active", 1), 1);  // its prompt ends in this step
  EXPECT_EQ(f.backend.store->value("active", 0), 0);
}

TEST(Shard, CopiesAPromptsBeginningWithoutTheStopOfItsRequest) {
  Fixture f;
  for (int32_t slot : {0, 1}) ASSERT_TRUE(f.shard->open_slot(SlotId(slot), {.max_new_tokens = 3}).has_value());
  f.backend.store->set("length", 0, 5);
  f.backend.store->set("finished", 0, 1);  // by a stop request in the middle of its prompt
  PrefillRows next = rows({7}, 1, {-1, -1});
  next.copies = {{SlotId(0), SlotId(1)}};
  ASSERT_TRUE(f.shard->prefill(next, {}).has_value());
  EXPECT_EQ(f.backend.store->value("length", 1), 5);
  EXPECT_EQ(f.backend.store->value("finished", 1), 0);
  EXPECT_EQ(f.backend.store->value("finished", 0), 1);
}

TEST(Shard, AppliesADecisionCopiesFirst) {
  Fixture f;
  for (int32_t slot : {0, 1}) ASSERT_TRUE(f.shard->open_slot(SlotId(slot), {.max_new_tokens = 3}).has_value());
  f.backend.store->set("active", 0, 1);
  f.backend.store->set("length", 0, 6);
  f.backend.store->set("output_index", 0, 2);
  Decision decision(2);
  decision.sources = {0, 0};
  decision.tokens = {21, 22};
  ASSERT_TRUE(f.shard->decide(decision).has_value());
  EXPECT_EQ(f.backend.store->copies, (std::vector<std::vector<int64_t>>{{0, 1, 6}}));
  for (size_t slot : {0u, 1u}) {
    EXPECT_EQ(f.backend.store->value("active", slot), 1);
    EXPECT_EQ(f.backend.store->value("length", slot), 6);
    EXPECT_EQ(f.backend.store->value("output_index", slot), 2);
    EXPECT_EQ(f.backend.store->value("last_id", slot), 21 + static_cast<int32_t>(slot));
  }
  decision = Decision(2);
  decision.finished = {0, 1};
  ASSERT_TRUE(f.shard->decide(decision).has_value());
  EXPECT_EQ(f.backend.store->value("finished", 0), 0);
  EXPECT_EQ(f.backend.store->value("finished", 1), 1);
  EXPECT_EQ(f.backend.store->value("last_id", 1), 22);
}

TEST(Shard, RefusesADecisionThatCopiesACopyOrNamesNoToken) {
  Fixture f;
  Decision swap(2);
  swap.sources = {1, 0};
  EXPECT_FALSE(f.shard->decide(swap).has_value());
  Decision unknown(2);
  unknown.tokens = {40, -1};
  EXPECT_FALSE(f.shard->decide(unknown).has_value());
  Decision outside(2);
  outside.sources = {0, 2};
  EXPECT_FALSE(f.shard->decide(outside).has_value());
}

TEST(Shard, ReplaysTheSmallestBucketThatFits) {
  Fixture f(1, 0, {.slots = 2, .chunk = 8, .capacity = 16, .context_buckets = {2, 4, 8}, .token_buckets = {4, 8, 16}});
  ASSERT_TRUE(f.shard->open_slot(SlotId(0), {.max_new_tokens = 3}).has_value());
  ASSERT_TRUE(f.shard->prefill(rows({5, 6, 7}, 0, {2, -1}), {}).has_value());
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{0, 1, 0, 0, 0, 0}));
  const auto decode_at = [&](int32_t length) {
    f.backend.store->set("length", 0, length);
    ASSERT_TRUE(f.shard->decode({}).has_value());
  };
  decode_at(3);  // the new position is 3: the fourth token
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{0, 1, 0, 1, 0, 0}));
  decode_at(4);
  decode_at(8);
  decode_at(15);
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{0, 1, 0, 1, 1, 2}));
  std::vector<std::string> names;
  for (const graph::Graph* graph : f.shard->graphs().all()) names.push_back(graph->name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("prefill_2", "prefill_4", "prefill_8", "decode_4", "decode_8", "decode_16"));
}

TEST(Shard, PrefillsAndVerifiesNoFurtherThanABucketWhereAttentionCostsAllOfIt) {
  Fixture f(1, 0,
            {.slots = 2,
             .chunk = 8,
             .capacity = 16,
             .drafts = 1,
             .context_buckets = {2, 8},
             .token_buckets = {4, 16},
             .bucketed = BucketedSteps::kAll});
  std::vector<std::string> names;
  for (const graph::Graph* graph : f.shard->graphs().all()) names.push_back(graph->name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("prefill_2", "prefill_8", "decode_4", "decode_16", "verify_4", "verify_16"));
  ASSERT_TRUE(f.shard->open_slot(SlotId(0), {.max_new_tokens = 3}).has_value());
  ASSERT_TRUE(f.shard->prefill(rows({5, 6}, 0, {-1, -1}), {}).has_value());
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{1, 0, 0, 0, 0, 0}));
  PrefillRows later = rows({7}, 0, {0, -1});
  later.position = {4};  // beyond the bound of the graph of two rows
  ASSERT_TRUE(f.shard->prefill(later, {}).has_value());
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{1, 1, 0, 0, 0, 0}));
  for (const auto& [length, graph] : {std::pair(2, 4), {3, 5}, {15, 5}}) {  // the last token, and a draft if it fits
    f.backend.store->set("length", 0, length);
    const int64_t before = f.shard->replays()[static_cast<size_t>(graph)];
    ASSERT_TRUE(f.shard->verify(std::vector<int32_t>{1, 2}, {}).has_value());
    EXPECT_EQ(f.shard->replays()[static_cast<size_t>(graph)], before + 1) << length;
  }
}

TEST(Shard, ReplaysTheSmallestBatchThatHoldsTheRunningSlots) {
  Fixture f(1, 0, {.slots = 4, .chunk = 4, .capacity = 16, .batch_sizes = {1, 2, 4}, .token_buckets = {8, 16}});
  std::vector<std::string> names;
  for (const graph::Graph& graph : f.shard->graphs().decode) names.push_back(graph.name);
  EXPECT_THAT(names, ::testing::ElementsAre("decode_b1_8", "decode_b1_16", "decode_b2_8", "decode_b2_16", "decode_b4_8",
                                            "decode_b4_16"));
  const auto decoded_by = [&]() -> std::string {
    const std::vector<int64_t> before = f.shard->replays();
    EXPECT_TRUE(f.shard->decode({}).has_value());
    for (size_t i = 0; i < before.size(); ++i) {
      if (f.shard->replays()[i] != before[i]) return f.shard->graphs().all()[i]->name;
    }
    return "";
  };
  EXPECT_EQ(decoded_by(), "decode_b1_8");  // nothing runs
  f.backend.store->set("active", 0, 1);
  EXPECT_EQ(decoded_by(), "decode_b1_8");
  f.backend.store->set("active", 1, 1);
  f.backend.store->set("length", 1, 8);
  EXPECT_EQ(decoded_by(), "decode_b2_16");
  f.backend.store->set("active", 2, 1);
  EXPECT_EQ(decoded_by(), "decode_b4_16");
  f.backend.store->set("finished", 2, 1);
  f.backend.store->set("finished", 1, 1);
  EXPECT_EQ(decoded_by(), "decode_b1_8");
}

TEST(Shard, LaysOutDraftsBehindTheLastTokenOfRunningSlots) {
  Fixture f(1, 0, {.slots = 2, .chunk = 4, .capacity = 16, .drafts = 3});
  f.backend.store->set("active", 1, 1);
  f.backend.store->set("length", 1, 14);
  f.backend.store->set("last_id", 1, 9);
  ASSERT_TRUE(f.shard->verify(std::vector<int32_t>{1, 2, 3, 4, 5, 6}, {}).has_value());
  const auto& seen = f.backend.executables["verify"]->seen;
  EXPECT_EQ(seen[0], (std::vector<int32_t>{0, 0, 0, 0, 9, 4, 0, 0}));  // position 16 would be beyond the capacity
  EXPECT_EQ(seen[1], (std::vector<int32_t>{-1, -1, -1, -1, 1, 1, -1, -1}));
  EXPECT_EQ(seen[2], (std::vector<int32_t>{0, 0, 0, 0, 14, 15, 0, 0}));
  EXPECT_EQ(seen[3], (std::vector<int32_t>{-1, 4}));
}

TEST(Shard, RefusesRowsAndSlotsThatItCannotHold) {
  Fixture f;
  const auto message = [&](const PrefillRows& bad) {
    const auto result = f.shard->prefill(bad, {});
    EXPECT_FALSE(result.has_value());
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
    return result.error().message;
  };
  EXPECT_THAT(message(rows({1, 2, 3, 4, 5}, 0, {-1, -1})), HasSubstr("found 5 ids"));
  EXPECT_THAT(message(rows({}, 0, {-1, -1})), HasSubstr("found no ids"));
  EXPECT_THAT(message(rows({40}, 0, {-1, -1})), HasSubstr("row 0: found id 40"));
  EXPECT_THAT(message(rows({1, 2, 40}, 0, {-1, -1})), HasSubstr("row 2: found id 40"));
  EXPECT_THAT(message(rows({1}, 2, {-1, -1})), HasSubstr("slot 2"));
  EXPECT_THAT(message(rows({1}, 0, {-1})), HasSubstr("1 logit rows"));
  PrefillRows beyond = rows({1}, 0, {-1, -1});
  beyond.position = {16};
  EXPECT_THAT(message(beyond), HasSubstr("position 16"));
  EXPECT_FALSE(f.shard->open_slot(SlotId(2), {}).has_value());
  EXPECT_FALSE(f.shard->open_slot(SlotId(-1), {}).has_value());
  EXPECT_FALSE(f.shard->open_slot(SlotId(0), {.max_new_tokens = 0}).has_value());
}

}  // namespace
}  // namespace lockstep::shards
