#include "launcher/batch/row_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_models.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::launcher {
namespace {

using generation::kA, generation::kAb, generation::kB, generation::kBc, generation::kC, generation::kEnd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RowRequestsTest : public ::testing::Test {
 protected:
  void add_tokenizer() const { model_.write("tokenizer.json", generation::kTinyTokenizer); }

  Result<RowRequests> make(const GenerateCommand& command, bool needs_tokenizer = false) {
    opened_.emplace(Model::open(model_.path()).value());
    return RowRequests::make(command, *opened_, needs_tokenizer);
  }

  Result<Request> prepare(const GenerateCommand& command, const JobRow& row, size_t index = 0) {
    LOCKSTEP_TRY(const RowRequests requests, make(command));
    return requests.prepare(index, row);
  }

  Request request_of(const GenerateCommand& command, const JobRow& row, size_t index = 0) {
    auto prepared = prepare(command, row, index);
    EXPECT_TRUE(prepared.has_value()) << prepared.error().message;
    return prepared.has_value() ? std::move(prepared).value() : Request();
  }

  void expect_refused(const GenerateCommand& command, const std::string& words,
                      ErrorKind kind = ErrorKind::kInvalidArgument, bool needs_tokenizer = false) {
    const auto made = make(command, needs_tokenizer);
    ASSERT_FALSE(made.has_value()) << words;
    EXPECT_EQ(made.error().kind, kind);
    EXPECT_THAT(made.error().message, HasSubstr(words));
  }

  model::TinyModel model_{model::kTinyLlama};
  std::optional<Model> opened_;  // outlives the requests
};

JobRow row_of_ids(std::vector<int32_t> ids) {
  JobRow row;
  row.ids = std::move(ids);
  return row;
}

JobRow row_of_text(std::string text) {
  JobRow row;
  row.prompt = std::move(text);
  return row;
}

TEST_F(RowRequestsTest, TakeIdsAsTheyAreAndTextsThroughTheTokenizer) {
  EXPECT_THAT(request_of({}, row_of_ids({7, 3})).prompt.ids, ElementsAre(7, 3));
  EXPECT_EQ(prepare({}, row_of_text("ab")).error().kind, ErrorKind::kNotFound);
  add_tokenizer();
  EXPECT_THAT(request_of({}, row_of_text("abc")).prompt.ids, ElementsAre(kAb, kC));
}

TEST_F(RowRequestsTest, PutWhatARowSaysOnTopOfWhatTheCommandSays) {
  const GenerateCommand command{.generation = {{"max_new_tokens", "6"}, {"temperature", "0.5"}, {"top_k", "4"}},
                                .stop_strings = {"a"}};
  add_tokenizer();
  const GenerationConfig plain = request_of(command, row_of_ids({7})).config;
  EXPECT_EQ(plain.max_new_tokens, 6);
  EXPECT_EQ(plain.temperature, 0.5);
  EXPECT_EQ(plain.top_k, 4);
  EXPECT_THAT(plain.stop_strings, ElementsAre("a"));
  JobRow own = row_of_ids({7});
  own.max_new_tokens = 3;
  own.stop_strings = std::vector<std::string>{"b", "c"};
  own.generation = {{"temperature", "0.7"}};
  const GenerationConfig changed = request_of(command, own).config;
  EXPECT_EQ(changed.max_new_tokens, 3);
  EXPECT_EQ(changed.temperature, 0.7);
  EXPECT_EQ(changed.top_k, 4);
  EXPECT_THAT(changed.stop_strings, ElementsAre("b", "c"));
}

TEST_F(RowRequestsTest, FailARowAloneForASettingOfTheWrongForm) {
  JobRow hot = row_of_ids({4});
  hot.generation = {{"temperature", "\"hot\""}};
  const auto refused = prepare({}, hot);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("temperature"));
}

TEST_F(RowRequestsTest, FailARowAloneThatWantsTheHostWhereTheOthersDoNot) {
  JobRow row = row_of_ids({4});
  row.generation = {{"suppress_tokens", "[5]"}};
  const auto refused = prepare({}, row);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("give the option to all rows"));
  EXPECT_TRUE(prepare({.generation = {{"top_logprobs", "2"}}}, row).has_value());
}

TEST_F(RowRequestsTest, NumberRandomRowsByAnswersUnlessARowHasItsOwnSeed) {
  const GenerateCommand command{.generation = {{"do_sample", "true"}, {"num_return_sequences", "3"}}};
  EXPECT_EQ(request_of(command, row_of_ids({4}), 0).random_row, 0u);
  EXPECT_EQ(request_of(command, row_of_ids({4}), 5).random_row, 15u);
  JobRow own = row_of_ids({4});
  own.generation = {{"seed", "9"}};
  const Request request = request_of(command, own, 5);
  EXPECT_EQ(request.random_row, 0u);
  EXPECT_EQ(request.config.seed, 9u);
}

TEST_F(RowRequestsTest, GiveOneNegativeTextToAllRows) {
  add_tokenizer();
  GenerateCommand command{.negative_prompts = {"bc"}, .generation = {{"guidance_scale", "2"}}};
  EXPECT_THAT(request_of(command, row_of_ids({4})).prompt.negative, ElementsAre(kBc));
  EXPECT_THAT(request_of({}, row_of_ids({4})).prompt.negative, IsEmpty());
  command.negative_prompts = {"a", "b"};
  expect_refused(command, "found 2 negative prompts and --prompts-file, expected one for all rows");
  expect_refused({.negative_prompts = {"a"}}, "a negative prompt without guidance");
}

TEST_F(RowRequestsTest, PutTheModelsChatTemplateAroundQuestionsAndMessages) {
  add_tokenizer();
  model_.write("chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}<end>");
  EXPECT_THAT(request_of({.chat = true}, row_of_text("ab")).prompt.ids, ElementsAre(kAb, kEnd));
  JobRow row;
  row.messages = {{"system", "a"}, {"user", "c"}};
  EXPECT_THAT(request_of({.chat = true}, row).prompt.ids, ElementsAre(kA, kC, kEnd));
}

TEST_F(RowRequestsTest, GiveChatTemplatesTheTimeThatTheyAreTold) {
  add_tokenizer();
  model_.write("chat_template.jinja", R"({{ "a" if strftime_now("%Y") == "2001" else "b" }})");
  const GenerateCommand command{.chat = true};
  RowRequests requests = make(command).value();
  requests.set_time(1'000'000'000);  // 9 September 2001
  EXPECT_THAT(requests.prepare(0, row_of_text("c")).value().prompt.ids, ElementsAre(kA));
  requests.set_time(1'100'000'000);
  EXPECT_THAT(requests.prepare(0, row_of_text("c")).value().prompt.ids, ElementsAre(kB));
}

TEST_F(RowRequestsTest, FailARowAloneWhosePromptHasNoTokens) {
  add_tokenizer();
  model_.write("chat_template.jinja", "{{ messages[0].content if messages[0].content == 'a' else '' }}");
  const GenerateCommand command{.chat = true};
  EXPECT_TRUE(prepare(command, row_of_text("a")).has_value());
  EXPECT_THAT(prepare(command, row_of_text("b")).error().message, HasSubstr("no tokens"));
}

TEST_F(RowRequestsTest, NeedATokenizerForWhateverIsText) {
  EXPECT_TRUE(make({}).has_value());
  expect_refused({}, "tokenizer.json", ErrorKind::kNotFound, /*needs_tokenizer=*/true);
  expect_refused({.stop_strings = {"b"}}, "tokenizer.json", ErrorKind::kNotFound);
  expect_refused({.negative_prompts = {"b"}, .generation = {{"guidance_scale", "2"}}}, "tokenizer.json",
                 ErrorKind::kNotFound);
  add_tokenizer();
  EXPECT_TRUE(make({}, /*needs_tokenizer=*/true).has_value());
}

TEST_F(RowRequestsTest, NeedAChatTemplateForChats) {
  expect_refused({.chat = true}, "tokenizer", ErrorKind::kNotFound, /*needs_tokenizer=*/true);
  add_tokenizer();
  expect_refused({.chat = true}, "no chat template", ErrorKind::kNotFound, /*needs_tokenizer=*/true);
}

TEST_F(RowRequestsTest, RefuseOptionsOfTheWrongForm) {
  expect_refused({.generation = {{"top_k", "5.5"}}}, "top_k: found 5.5");
}

}  // namespace
}  // namespace lockstep::launcher
