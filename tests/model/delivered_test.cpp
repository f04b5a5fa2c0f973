// Requests that another engine began: from every number of delivered tokens the rest has the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/engine.h"
#include "tests/model/gate.h"
#include "tests/model/golden.h"
#include "tests/model/request_kinds.h"

namespace lockstep::model {
namespace {

using Ids = std::vector<int32_t>;

/// The request after `tokens` of each of its answers were delivered; `streamed` gets the later ones.
Request after(Request request, const std::vector<Answer>& answers, size_t tokens,
              const std::shared_ptr<std::vector<Ids>>& streamed) {
  for (const Answer& answer : answers) {
    const auto delivered = std::min(tokens, answer.ids.size());
    request.delivered.emplace_back(answer.ids.begin(), answer.ids.begin() + static_cast<ptrdiff_t>(delivered));
  }
  *streamed = request.delivered;
  request.on_token = [streamed](const Token& token) {
    streamed->at(token.answer).push_back(token.id);
    return Verdict::kContinue;
  };
  return request;
}

/// Records are those of the later tokens alone.
void expect_rest(const std::vector<Answer>& found, const std::vector<Answer>& expected, size_t tokens) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids);
    EXPECT_EQ(found[i].reason, expected[i].reason);
    EXPECT_EQ(found[i].score, expected[i].score);
    const size_t skipped = expected[i].score ? 0 : std::min(tokens, expected[i].records.size());
    ASSERT_EQ(found[i].records.size(), expected[i].records.size() - skipped);
    for (size_t t = 0; t < found[i].records.size(); ++t) {
      EXPECT_EQ(found[i].records[t]->logprob, expected[i].records[t + skipped]->logprob);
    }
  }
}

/// Every how many tokens the answers are cut: 1 in the test of everything.
size_t step_of_cuts() {
  const char* named = std::getenv("LOCKSTEP_CUTS_EVERY");
  return named == nullptr ? 1 : static_cast<size_t>(std::max(1, std::atoi(named)));
}

size_t longest(const std::vector<Answer>& answers) {
  size_t most = 0;
  for (const Answer& answer : answers) most = std::max(most, answer.ids.size());
  return most;
}

class Delivered : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Engine> open(Group& group, const EngineOptions& more = {}) const {
    EngineOptions options = more;
    options.slots = 6;
    options.capacity = 100;
    options.prefill_chunk = 16;
    options.threads = 1;
    return Engine::open(group, model_, options).value();
  }

  static std::vector<std::vector<Answer>> answers(Engine& engine, const std::vector<Request>& requests) {
    std::vector<std::vector<Answer>> all;
    std::vector<RequestHandle> handles = engine.submit(requests).value();
    for (RequestHandle& handle : handles) all.push_back(handle.wait().value());
    return all;
  }

  /// Compares what is left of `request` with the end of `expected`, after each number of tokens that is tested.
  static void expect_the_rest(Engine& engine, const Request& request, const std::vector<Answer>& expected) {
    std::vector<Request> rests;
    std::vector<std::shared_ptr<std::vector<Ids>>> streamed;
    std::vector<size_t> cuts;
    for (size_t tokens = 0; tokens <= longest(expected); tokens += step_of_cuts()) {
      cuts.push_back(tokens);
      streamed.push_back(std::make_shared<std::vector<Ids>>());
      rests.push_back(after(request, expected, tokens, streamed.back()));
    }
    const std::vector<std::vector<Answer>> found = answers(engine, rests);
    for (size_t cut = 0; cut < cuts.size(); ++cut) {
      SCOPED_TRACE(::testing::Message() << "after " << cuts[cut] << " tokens");
      expect_rest(found[cut], expected, cuts[cut]);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(streamed[cut]->at(i), expected[i].ids);
    }
  }

  /// `count` of the requests.
  static std::vector<Request> in_turn(const std::vector<Request>& requests, size_t count) {
    std::vector<Request> chosen;
    for (const size_t i : cuts_in_turn(LOCKSTEP_GOLDENS_DIR, GetParam(), requests.size(), count)) {
      chosen.push_back(requests[i]);
    }
    return chosen;
  }

  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, GetParam());
  const GoldenModel folder_{golden_, {}};
  const Model model_ = Model::open(folder_.path(), {.dtype = DType::kFloat32}).value();
};

TEST_P(Delivered, TokensAreFollowedByTheSameOnesAtAnyDegree) {
  std::vector<Request> requests = requests_of(golden_, model_, /*with_code=*/true);
  Request scored = requests.front();
  scored.model_logprobs = 3;
  requests.push_back(scored);
  requests = in_turn(requests, requests.size() / 2);
  const auto alone = Group::alone().value();
  const auto reference = open(*alone);
  const std::vector<std::vector<Answer>> expected = answers(*reference, requests);
  EXPECT_TRUE(reference->close().has_value());
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "request " << i);
    expect_the_rest(*engine, requests[i], expected[i]);
  }
  EXPECT_TRUE(engine->close().has_value());
}

TEST_P(Delivered, AnEndTokenIsTheEnd) {
  Request request = requests_of(golden_, model_, /*with_code=*/false).front();
  request.config.max_new_tokens = 20;
  const auto group = Group::alone().value();
  const auto engine = open(*group);
  const Answer whole = answers(*engine, {request}).front().front();
  request.config.eos_token_ids = {whole.ids[9]};
  const std::vector<Answer> expected = answers(*engine, {request}).front();
  EXPECT_EQ(expected.front().reason, FinishReason::kEos);
  expect_the_rest(*engine, request, expected);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_P(Delivered, TokensAreFollowedByDraftedOnes) {
  std::vector<Request> requests = requests_of(golden_, model_, /*with_code=*/false);
  requests.erase(requests.begin() + 2, requests.begin() + 5);  // those chosen by the host
  requests = in_turn(requests, 1);
  const auto group = Group::threads(2).value();
  const auto engine = open(*group, {.drafting = {.tokens = 2, .model = std::nullopt, .lookup_ngram = 2}});
  const std::vector<std::vector<Answer>> expected = answers(*engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) expect_the_rest(*engine, requests[i], expected[i]);
  EXPECT_TRUE(engine->close().has_value());
}

INSTANTIATE_TEST_SUITE_P(Families, Delivered, ::testing::ValuesIn(golden_names(LOCKSTEP_GOLDENS_DIR)),
                         [](const auto& tested) { return tested.param; });

class DeliveredTokens : public ::testing::Test {
 protected:
  /// The refusal of a request that begins so.
  Error refusal(std::vector<Ids> delivered) {
    Request request = requests_of(golden_, model_, /*with_code=*/false).front();
    request.config.max_new_tokens = 4;
    request.config.eos_token_ids = {3};
    request.delivered = std::move(delivered);
    return engine_->submit(request).error();
  }

  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, "llama_grouped");
  const GoldenModel folder_{golden_, {}};
  const Model model_ = Model::open(folder_.path(), {.dtype = DType::kFloat32}).value();
  const std::unique_ptr<Group> group_ = Group::alone().value();
  const std::unique_ptr<Engine> engine_ = Engine::open(*group_, model_, {.slots = 2, .capacity = 64}).value();
};

TEST_F(DeliveredTokens, AreRefusedWhereNoEngineMakesThem) {
  for (const std::vector<Ids>& delivered :
       {std::vector<Ids>{{5, 6, 7, 8, 9}}, {{5, -1}}, {{5, 1 << 20}}, {{5, 3, 6}}}) {
    const Error error = refusal(delivered);
    EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message, ::testing::HasSubstr("cannot go on with a request"));
  }
  EXPECT_TRUE(engine_->close().has_value());
}

TEST_F(DeliveredTokens, OfAnAbandonedRequestAreKnownToBe) {
  Request endless = requests_of(golden_, model_, /*with_code=*/false).front();
  endless.config.max_new_tokens = 40;
  const auto gate = std::make_shared<Gate>(endless.prompt.ids.size() + 3);
  endless.processors = {gate};
  RequestHandle handle = engine_->submit(endless).value();
  EXPECT_FALSE(handle.is_abandoned());
  group_->fail({ErrorKind::kResourceExhausted, "[test] no memory"});
  gate->open();
  EXPECT_FALSE(handle.wait().has_value());
  EXPECT_TRUE(handle.is_abandoned());
}

}  // namespace
}  // namespace lockstep::model
