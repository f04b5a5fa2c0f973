#include "launcher/generate/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_models.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string failure(std::string_view json) {
  const auto result = parse_ids(json, "rows.json");
  if (result.has_value()) return "no failure";
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
  return result.error().message;
}

TEST(IdsFile, ReadsRaggedRows) {
  const auto rows = parse_ids("[[1,2,3],[4]]", "rows.json").value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(rows[1].ids, ElementsAre(4));
}

TEST(IdsFile, StripsPaddingOnEitherSide) {
  const auto rows =
      parse_ids(R"([{"ids":[0,0,5,6],"mask":[0,0,1,1]},{"ids":[7,8,0],"mask":[1,1,0]},{"ids":[9]}])", "rows.json")
          .value();
  EXPECT_THAT(rows[0].ids, ElementsAre(5, 6));
  EXPECT_THAT(rows[1].ids, ElementsAre(7, 8));
  EXPECT_THAT(rows[2].ids, ElementsAre(9));
}

TEST(IdsFile, StripsWhatIsMaskedInsideAndCountsIt) {
  const auto rows =
      parse_ids(R"([{"ids":[0,5,9,6,8,8,7,0,0],"mask":[0,1,0,1,0,0,1,0,0]},{"ids":[7,8,0],"mask":[1,1,0]}])",
                "rows.json")
          .value();
  EXPECT_THAT(rows[0].ids, ElementsAre(5, 6, 7));
  EXPECT_EQ(rows[0].masked_inside, 3);
  EXPECT_EQ(rows[1].masked_inside, 0);
}

TEST(IdsFile, NamesTheRowThatIsWrong) {
  EXPECT_THAT(failure("[[1],[]]"), HasSubstr("row 1: found no tokens"));
  EXPECT_THAT(failure("[[1],[-2]]"), HasSubstr("row 1: found -2"));
  EXPECT_THAT(failure("[[1.5]]"), HasSubstr("row 0: found 1.5"));
  EXPECT_THAT(failure("[[\"a\"]]"), HasSubstr("row 0"));
  EXPECT_THAT(failure("[[99999999999]]"), HasSubstr("row 0"));
  EXPECT_THAT(failure("[3]"), HasSubstr("row 0"));
  EXPECT_THAT(failure(R"([{"mask":[1]}])"), HasSubstr("no \"ids\""));
  EXPECT_THAT(failure(R"([{"ids":[1,2],"mask":[1]}])"), HasSubstr("mask of 1 entries"));
  EXPECT_THAT(failure(R"([{"ids":[1,2],"mask":[0,2]}])"), HasSubstr("mask of 0 and 1"));
  EXPECT_THAT(failure(R"([{"ids":[1,2],"mask":[0,0]}])"), HasSubstr("no tokens"));
}

TEST(IdsFile, SaysWhenTheFileIsNotRows) {
  EXPECT_THAT(failure("{}"), HasSubstr("expected a JSON array of rows"));
  EXPECT_THAT(failure("[[1],"), HasSubstr("not JSON"));
  EXPECT_THAT(failure(""), HasSubstr("not JSON"));
}

class ReadPrompts : public ::testing::Test {
 protected:
  Result<std::vector<Prompt>> read(const PromptSources& sources, Chat chat = Chat::kNo) const {
    return read_prompts(sources, Model::open(model_.path()).value(), chat);
  }

  std::string refusal_of(const PromptSources& sources, ErrorKind kind, Chat chat = Chat::kNo) const {
    const auto prompts = read(sources, chat);
    if (prompts.has_value()) return "no failure";
    EXPECT_EQ(prompts.error().kind, kind) << prompts.error().message;
    return prompts.error().message;
  }

  void add_tokenizer() const { model_.write("tokenizer.json", generation::kTinyTokenizer); }

  model::TinyModel model_{model::kTinyLlama};
};

TEST_F(ReadPrompts, ReadsAnIdsFileFromItsPathAndMissesItByName) {
  const auto rows = read({.ids_file = model_.write("ids.json", R"([[1, 2], {"ids": [3], "negative": [4]}])")}).value();
  EXPECT_EQ(rows, (std::vector<Prompt>{{.ids = {1, 2}}, {.ids = {3}, .negative = {4}}}));
  EXPECT_THAT(refusal_of({.ids_file = "/nonexistent/rows.json"}, ErrorKind::kNotFound),
              HasSubstr("/nonexistent/rows.json"));
}

TEST_F(ReadPrompts, EncodesTextsAndThenTheFile) {
  add_tokenizer();
  EXPECT_EQ(read({.texts = {"ab", "c"}, .file = model_.write("prompt.txt", "a c")}).value(),
            (std::vector<Prompt>{{.ids = {generation::kAb}},
                                 {.ids = {generation::kC}},
                                 {.ids = {generation::kA, generation::kSpace, generation::kC}}}));
  EXPECT_THAT(refusal_of({.file = "/nonexistent/prompt.txt"}, ErrorKind::kNotFound),
              HasSubstr("/nonexistent/prompt.txt"));
}

TEST_F(ReadPrompts, NamesTheTextThatIsWrong) {
  EXPECT_THAT(refusal_of({.texts = {"ab"}}, ErrorKind::kNotFound),
              AllOf(HasSubstr("[launcher] prompt 0: "), HasSubstr("tokenizer.json")));
  add_tokenizer();
  EXPECT_THAT(refusal_of({.texts = {"ab", ""}}, ErrorKind::kInvalidArgument),
              AllOf(HasSubstr("prompt 1"), HasSubstr("an empty prompt")));
  EXPECT_THAT(refusal_of({.texts = {"ab", "\xff"}}, ErrorKind::kInvalidArgument),
              AllOf(HasSubstr("[launcher] prompt 1: "), HasSubstr("UTF-8")));
}

TEST_F(ReadPrompts, PutsTheModelsChatTemplateAroundTexts) {
  add_tokenizer();
  EXPECT_THAT(refusal_of({.texts = {"b"}}, ErrorKind::kNotFound, Chat::kYes), HasSubstr("no chat template"));
  model_.write("chat_template.jinja", "{% for m in messages %}a{{ m.content }}{% endfor %}<end>");
  EXPECT_EQ(read({.texts = {"b"}}, Chat::kYes).value(),
            (std::vector<Prompt>{{.ids = {generation::kAb, generation::kEnd}}}));
}

TEST_F(ReadPrompts, RefusesIdsBesideAChatTemplate) {
  EXPECT_THAT(refusal_of({.ids_file = model_.write("ids.json", "[[1]]")}, ErrorKind::kInvalidArgument, Chat::kYes),
              HasSubstr("--chat: found --ids-file"));
}

TEST(InPrompt, NamesTheRowInsteadOfTheComponent) {
  const Error error = in_prompt({ErrorKind::kUnsupported, "[engine/requests] found 3 tokens", 2}, 4);
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_EQ(error.message, "[launcher] prompt 4: found 3 tokens");
  EXPECT_EQ(error.origin_rank, 2);
  EXPECT_EQ(in_prompt({ErrorKind::kInternal, "found [3] tokens"}, 0).message, "[launcher] prompt 0: found [3] tokens");
}

}  // namespace
}  // namespace lockstep::launcher
