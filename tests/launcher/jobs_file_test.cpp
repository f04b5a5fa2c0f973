#include "launcher/batch/jobs_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobsFileTest : public ::testing::Test {
 protected:
  Result<JobsFile> open(std::string_view text, ChatRows chat = ChatRows::kNo) const {
    return JobsFile::open(folder_.write("jobs.jsonl", text), chat);
  }
  void expect_refused(std::string_view text, const std::string& words, ChatRows chat = ChatRows::kNo) const {
    const auto jobs = open(text, chat);
    ASSERT_FALSE(jobs.has_value()) << text;
    EXPECT_EQ(jobs.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(jobs.error().message, HasSubstr(words));
  }

  model::TinyModel folder_{"{}"};
};

TEST_F(JobsFileTest, ReadsRowsOfEveryKind) {
  auto jobs = open(
                  "{\"id\": \"a\", \"prompt\": \"hello\", \"stop\": \"x\"}\n\n"
                  "{\"ids\": [1, 2], \"max_new_tokens\": 4, \"seed\": 7, \"top_p\": 0.5}\r\n"
                  "{\"id\": 9, \"prompt\": \"z\", \"stop\": [\"a\", \"b\"]}")
                  .value();
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs.id(0), "\"a\"");
  EXPECT_EQ(jobs.id(1), "3");  // of the line
  EXPECT_EQ(jobs.id(2), "9");
  EXPECT_TRUE(jobs.has_text());
  const JobRow last = jobs.read(2).value();
  EXPECT_EQ(last.prompt, "z");
  EXPECT_THAT(*last.stop_strings, ElementsAre("a", "b"));
  const JobRow ids = jobs.read(1).value();
  EXPECT_THAT(ids.ids, ElementsAre(1, 2));
  EXPECT_EQ(ids.max_new_tokens, 4);
  EXPECT_EQ(ids.generation, (std::map<std::string, std::string>{{"seed", "7"}, {"top_p", "0.5"}}));
  EXPECT_THAT(*jobs.read(0).value().stop_strings, ElementsAre("x"));
}

TEST_F(JobsFileTest, ReadsMessagesForAChat) {
  const char* text = R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]})";
  auto jobs = open(text, ChatRows::kYes).value();
  ASSERT_EQ(jobs.read(0).value().messages.size(), 2u);
  EXPECT_EQ(jobs.read(0).value().messages[1].content, "u");
  expect_refused(text, "line 1: found messages without --chat");
  expect_refused("{\"ids\": [1]}", "ids with --chat", ChatRows::kYes);
}

TEST_F(JobsFileTest, NamesTheLineThatIsWrong) {
  expect_refused("{\"prompt\": \"a\"}\n{\"prompt\": ", "line 2: found text that is not JSON");
  expect_refused("[1]", "line 1: found array");
  expect_refused("{\"id\": 1}", "found 0 of prompt, ids and messages");
  expect_refused("{\"prompt\": \"a\", \"ids\": [1]}", "found 2 of prompt, ids and messages");
  expect_refused("{\"prompt\": \"a\", \"max_tokens\": 4}", "the field \"max_tokens\"");
  expect_refused("{\"prompt\": \"\"}", "a \"prompt\" that is none");
  expect_refused("{\"ids\": [1, -2]}", "\"ids\" that are none");
  expect_refused("{\"prompt\": \"a\", \"max_new_tokens\": 0}", "max_new_tokens 0");
  expect_refused("{\"prompt\": \"a\", \"id\": null}", "the id null");
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');  // more than a stack has frames
  expect_refused("{\"prompt\": \"a\", \"id\": " + deep + "}", "lists nested too deep");
  expect_refused("\n \n", "found no rows");
}

TEST_F(JobsFileTest, RefusesAnIdThatCameBefore) {
  expect_refused("{\"id\": \"a\", \"prompt\": \"x\"}\n{\"id\": \"a\", \"prompt\": \"y\"}", "the id \"a\" of line 1");
  expect_refused("{\"id\": 2, \"prompt\": \"x\"}\n{\"prompt\": \"y\"}", "line 2: found the id 2 of line 1");
}

TEST_F(JobsFileTest, HasAnotherFingerprintWithAnyOtherRow) {
  const auto of = [&](std::string_view text) { return open(text).value().fingerprint(); };
  const uint64_t one = of("{\"prompt\": \"x\"}\n{\"prompt\": \"y\"}");
  EXPECT_EQ(of("{\"prompt\": \"x\"}\n{\"prompt\": \"y\"}\n"), one);
  EXPECT_NE(of("{\"prompt\": \"y\"}\n{\"prompt\": \"x\"}\n"), one);
  EXPECT_NE(of("{\"prompt\": \"x\"}\n{\"prompt\": \"z\"}\n"), one);
  EXPECT_NE(of("{\"prompt\": \"x\"}\n"), one);
}

TEST_F(JobsFileTest, NoticesAFileThatChangedUnderIt) {
  auto jobs = open("{\"prompt\": \"hello\"}\n{\"prompt\": \"other\"}\n").value();
  EXPECT_EQ(jobs.read(1).value().prompt, "other");
  for (const char* text : {"{}", "{\"prompt\": \"hello\"}\n{\"prompt\": \"0ther\"}\n"}) {
    folder_.write("jobs.jsonl", text);
    const auto read = jobs.read(1);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::kFailedPrecondition);
    EXPECT_THAT(read.error().message, HasSubstr("jobs.jsonl line 2 changed while it was read"));
  }
  EXPECT_EQ(jobs.read(0).value().prompt, "hello");  // as it was
}

TEST_F(JobsFileTest, NamesAFileThatIsNotThere) {
  EXPECT_EQ(JobsFile::open("no/such/file", ChatRows::kNo).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(JobsFile::open(folder_.path(), ChatRows::kNo).error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace lockstep::launcher
