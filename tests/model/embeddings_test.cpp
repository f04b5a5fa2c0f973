// Prompts that are embeddings: Hugging Face's answers for every family, and the same bits for any partition of the
// work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "lockstep/engine.h"
#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

using nlohmann::json;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-4;  // of the scale of the logits
constexpr size_t kRows = 9, kNewTokens = 8;

/// Transformers' answers, by golden. Written by tools/make_embedding_goldens.py.
const json& all_answers() {
  static const json kAll = json::parse(std::ifstream(std::filesystem::path(LOCKSTEP_GOLDENS_DIR) / "embeddings.json"));
  return kAll["models"];
}

json answers_of(const std::string& golden) { return all_answers().at(golden); }

/// The goldens with answers, or those without: models whose layers read tokens' ids.
std::vector<std::string> goldens(bool with_answers) {
  std::vector<std::string> names = golden_names(LOCKSTEP_GOLDENS_DIR);
  std::erase_if(names, [=](const std::string& name) { return all_answers().contains(name) != with_answers; });
  return names;
}

/// As tools/make_embedding_goldens.py makes them.
Prompt hashed_prompt(int64_t size, double scale) {
  Prompt prompt{.ids = std::vector<int32_t>(kRows, kEmbedded)};
  for (uint64_t i = 0; i < kRows * static_cast<uint64_t>(size); ++i) {
    const auto hashed = static_cast<uint32_t>(i * 2654435761 + 12345);
    prompt.embeddings.push_back(static_cast<float>(((hashed >> 8) / 16777216.0 - 0.5) * 2 * scale));
  }
  return prompt;
}

/// How an engine is cut.
struct Cut {
  int ranks = 1;
  int64_t slots = 3, chunk = 64;
  const char* backend = "cpu";
};

EngineOptions options_of(const Cut& cut) {
  return {.slots = cut.slots,
          .capacity = 40,
          .prefill_chunk = cut.chunk,
          .backend = cut.backend,
          .threads = 1,
          .prompt_embeddings = PromptEmbeddings::kOn};
}

GenerationConfig config_of(const Model& model, const char* option = nullptr, const char* value = nullptr) {
  GenerationConfig config = model.generation();
  config.max_new_tokens = kNewTokens;
  config.output_logits = option == nullptr;
  config.eos_token_ids = {};
  if (option != nullptr) {
    EXPECT_TRUE(config.set(option, value).has_value());
  }
  return config;
}

class Embedded : public ::testing::TestWithParam<std::string> {
 protected:
  /// The greedy answer, the best of three beams, and the answer under a penalty, all in one batch.
  std::vector<Answer> answers(const Cut& cut) {
    const auto group = Group::threads(cut.ranks).value();
    const auto engine = Engine::open(*group, model_, options_of(cut)).value();
    std::vector<Request> requests;
    for (const auto& [option, value] : {std::pair{static_cast<const char*>(nullptr), static_cast<const char*>(nullptr)},
                                        {"num_beams", "3"},
                                        {"repetition_penalty", "1.5"}}) {
      requests.push_back({.prompt = prompt_, .config = config_of(model_, option, value)});
    }
    std::vector<Answer> answers;
    std::vector<RequestHandle> handles = engine->submit(std::move(requests)).value();
    for (RequestHandle& handle : handles) {
      answers.push_back(handle.wait().value().front());
    }
    EXPECT_TRUE(engine->close().has_value());
    EXPECT_EQ(engine->facts().graphs.size(), 2u);
    return answers;
  }

  void expect_golden(const std::vector<Answer>& answers) const {
    EXPECT_THAT(answers[0].ids, ElementsAreArray(expected_["greedy"].get<std::vector<int32_t>>()));
    EXPECT_THAT(answers[1].ids, ElementsAreArray(expected_["beams"].get<std::vector<int32_t>>()));
    EXPECT_THAT(answers[2].ids, ElementsAreArray(expected_["penalised"].get<std::vector<int32_t>>()));
    const std::vector<float> logits = expected_["logits"];
    ASSERT_EQ(answers[0].logits.size(), kNewTokens * logits.size());
    EXPECT_LT(largest_difference(answers[0].logits.data(), logits.data(), logits.size()), kTolerance * golden_.scale);
  }

  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, GetParam());
  const GoldenModel directory_{golden_, {}};
  const Model model_ = Model::open(directory_.path(), {.dtype = DType::kFloat32}).value();
  const json expected_ = answers_of(GetParam());
  const Prompt prompt_ = hashed_prompt(model_.spec().embedding_size, expected_["scale"]);
};

TEST_P(Embedded, AsByTransformersAndTheSameBitsAtEveryCut) {
  const std::vector<Answer> first = answers({});
  expect_golden(first);
  for (const Cut& cut : {Cut{.ranks = 2, .slots = 6, .chunk = 5}, Cut{.ranks = 3, .slots = 3, .chunk = 1}}) {
    SCOPED_TRACE(::testing::Message() << cut.ranks << " ranks, chunk " << cut.chunk);
    const std::vector<Answer> others = answers(cut);
    for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(others[i].ids, first[i].ids);
    EXPECT_TRUE(same_bits(others[0].logits, first[0].logits));
  }
}

class EmbeddedOnReference : public Embedded {};

TEST_P(EmbeddedOnReference, AsByTransformers) {
  expect_golden(answers({.ranks = 2, .slots = 6, .chunk = 5, .backend = "reference"}));
}

std::string name_of(const ::testing::TestParamInfo<std::string>& tested) { return tested.param; }

INSTANTIATE_TEST_SUITE_P(Families, Embedded, ::testing::ValuesIn(goldens(/*with_answers=*/true)), name_of);
INSTANTIATE_TEST_SUITE_P(Families, EmbeddedOnReference,
                         ::testing::Values("gemma2_alternating_windows", "opt_norm_after_projected"), name_of);

class NotEmbedded : public ::testing::TestWithParam<std::string> {};

TEST_P(NotEmbedded, IsRefusedAtTheStart) {
  const Golden golden = read_golden(LOCKSTEP_GOLDENS_DIR, GetParam());
  const GoldenModel directory(golden, {});
  const Model model = Model::open(directory.path(), {.dtype = DType::kFloat32}).value();
  const auto group = Group::alone().value();
  const auto engine = Engine::open(*group, model, options_of({}));
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(engine.error().message, HasSubstr("whose layers read an embedding of each token's id"));
}

INSTANTIATE_TEST_SUITE_P(Families, NotEmbedded, ::testing::ValuesIn(goldens(/*with_answers=*/false)), name_of);

/// The rows of the golden's table for `ids`.
std::vector<float> embedding_rows(const Golden& golden, const std::vector<int32_t>& ids) {
  const auto table = std::ranges::find(golden.tensors, "model.embed_tokens.weight", &HashedTensor::name);
  const std::vector<float> values = hashed_tensor(golden.seed, *table);
  const auto size = static_cast<size_t>(table->shape[1]);
  std::vector<float> rows;
  for (const int32_t id : ids) {
    const std::span<const float> row = std::span(values).subspan(static_cast<size_t>(id) * size, size);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

class EmbeddedPrompt : public ::testing::Test {
 protected:
  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, "llama_grouped");
  const GoldenModel directory_{golden_, {}};
  const Model model_ = Model::open(directory_.path(), {.dtype = DType::kFloat32}).value();
  const int64_t size_ = model_.spec().embedding_size;
  const std::vector<int32_t> ids_ = golden_.prompts[2];  // eight tokens
  const std::unique_ptr<Group> group_ = Group::alone().value();

  Prompt mixed_prompt() const {
    Prompt prompt{.ids = ids_};
    prompt.ids[1] = prompt.ids[3] = kEmbedded;
    prompt.embeddings = embedding_rows(golden_, {ids_[1], ids_[3]});
    return prompt;
  }

  Request request(Prompt prompt) const { return {.prompt = std::move(prompt), .config = config_of(model_)}; }
};

TEST_F(EmbeddedPrompt, ChangesNoAnswerToTokens) {
  const auto with = Engine::open(*group_, model_, options_of({.chunk = 4})).value();
  const Answer embedded = with->submit(request({.ids = ids_})).value().wait().value().front();
  ASSERT_TRUE(with->close().has_value());
  EngineOptions options = options_of({.chunk = 4});
  options.prompt_embeddings = PromptEmbeddings::kOff;
  const auto without = Engine::open(*group_, model_, options).value();
  const Answer plain = without->submit(request({.ids = ids_})).value().wait().value().front();
  ASSERT_TRUE(without->close().has_value());
  EXPECT_EQ(embedded.ids, plain.ids);
  EXPECT_TRUE(same_bits(embedded.logits, plain.logits));
}

// Equal ids of embeddings are different prompts: neither a shared prefix nor a kept one may be taken for them.
TEST_F(EmbeddedPrompt, SharesNothingWithOthers) {
  Prompt one{.ids = std::vector<int32_t>(24, kEmbedded)};
  one.embeddings.assign(24 * static_cast<size_t>(size_), 0.25f);
  Prompt other = one;
  for (size_t i = 0; i < other.embeddings.size(); i += 3) other.embeddings[i] = -0.5f;
  const auto alone = [&](const Prompt& prompt) {
    const auto engine = Engine::open(*group_, model_, options_of({})).value();
    const Answer answer = engine->submit(request(prompt)).value().wait().value().front();
    EXPECT_TRUE(engine->close().has_value());
    return answer.logits;
  };
  const std::vector<float> logits = alone(one), other_logits = alone(other);
  ASSERT_NE(logits, other_logits);
  const auto engine = Engine::open(*group_, model_, options_of({})).value();
  std::vector<RequestHandle> both = engine->submit({request(one), request(other)}).value();
  EXPECT_TRUE(same_bits(both[0].wait().value().front().logits, logits));
  EXPECT_TRUE(same_bits(both[1].wait().value().front().logits, other_logits));
  EXPECT_TRUE(same_bits(engine->submit(request(one)).value().wait().value().front().logits, logits));
  EXPECT_EQ(engine->counters().reused_tokens, 0);
  ASSERT_TRUE(engine->close().has_value());
}

// Rows of the model's own table in place of some tokens: the answer is that of the tokens.
TEST_F(EmbeddedPrompt, MixesWithTokens) {
  const auto engine = Engine::open(*group_, model_, options_of({.chunk = 3})).value();
  const Answer tokens = engine->submit(request({.ids = ids_})).value().wait().value().front();
  const Answer mixed = engine->submit(request(mixed_prompt())).value().wait().value().front();
  EXPECT_EQ(mixed.ids, tokens.ids);
  EXPECT_TRUE(same_bits(mixed.logits, tokens.logits));
  ASSERT_TRUE(engine->close().has_value());
}

TEST_F(EmbeddedPrompt, GoesOnAfterSuspensionHereAndElsewhere) {
  Request request = this->request(mixed_prompt());
  request.config.max_new_tokens = 30;
  request.config.output_logits = false;
  const auto engine = Engine::open(*group_, model_, options_of({.slots = 2})).value();
  const std::vector<int32_t> expected = engine->submit(request).value().wait().value().front().ids;
  std::vector<RequestHandle> handles = engine->submit(std::vector<Request>(12, request)).value();
  ASSERT_TRUE(engine->suspend().has_value());
  const std::string text = engine->suspended().value();

  const auto two = Group::threads(2).value(), three = Group::threads(3).value();
  const auto heir = Engine::open(*two, model_, options_of({.slots = 4, .chunk = 3})).value();
  std::vector<RequestHandle> restored = heir->restore(text).value();
  EXPECT_GT(restored.size(), 0u);
  for (RequestHandle& handle : restored) EXPECT_EQ(handle.wait().value().front().ids, expected);
  ASSERT_TRUE(heir->close().has_value());

  ASSERT_TRUE(engine->resume(*three).has_value());
  for (RequestHandle& handle : handles) EXPECT_EQ(handle.wait().value().front().ids, expected);
  ASSERT_TRUE(engine->close().has_value());
}

TEST_F(EmbeddedPrompt, IsRefusedWhereItCannotBeServed) {
  const auto engine = Engine::open(*group_, model_, options_of({})).value();
  const auto refusal = [&](const Request& refused, Engine& by) {
    const auto submitted = by.submit(refused);
    EXPECT_FALSE(submitted.has_value());
    return submitted.has_value() ? Error{ErrorKind::kInternal, ""} : submitted.error();
  };
  Request bad = request(hashed_prompt(size_, 0.5));
  bad.prompt.embeddings.pop_back();
  EXPECT_EQ(refusal(bad, *engine).kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refusal(bad, *engine).message, HasSubstr("numbers of embeddings"));
  EXPECT_EQ(refusal(request({.ids = {3, kEmbedded}}), *engine).kind, ErrorKind::kInvalidArgument);
  Request guided = request(hashed_prompt(size_, 0.5));
  guided.config.guidance_scale = 1.5;
  EXPECT_THAT(refusal(guided, *engine).message, HasSubstr("guidance beside embeddings"));
  ASSERT_TRUE(engine->close().has_value());

  EngineOptions options = options_of({});
  options.prompt_embeddings = PromptEmbeddings::kOff;
  const auto plain = Engine::open(*group_, model_, options).value();
  EXPECT_THAT(refusal(request(hashed_prompt(size_, 0.5)), *plain).message, HasSubstr("PromptEmbeddings::kOn"));
  ASSERT_TRUE(plain->close().has_value());
}

TEST_F(EmbeddedPrompt, RunsBesideDraftsByLookup) {
  const Prompt prompt = hashed_prompt(size_, 0.5);
  const auto plain = Engine::open(*group_, model_, options_of({})).value();
  const Answer expected = plain->submit(request(prompt)).value().wait().value().front();
  ASSERT_TRUE(plain->close().has_value());
  EngineOptions options = options_of({});
  options.drafting = {.tokens = 3, .lookup_ngram = 2};
  const auto engine = Engine::open(*group_, model_, options).value();
  Request drafted = request(prompt);
  drafted.config.output_logits = false;
  EXPECT_EQ(engine->submit(std::move(drafted)).value().wait().value().front().ids, expected.ids);
  ASSERT_TRUE(engine->close().has_value());
}

}  // namespace
}  // namespace lockstep::model
