#include "launcher/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Command> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstep");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

GenerateCommand generate(std::vector<const char*> words) {
  words.insert(words.begin(), {"generate", "--model", "dir"});
  return std::get<GenerateCommand>(parse(std::move(words)).value());
}

TEST(CommandLine, ReadsTheDefaultsOfGenerate) {
  const GenerateCommand command = generate({"--prompt", "hello"});
  EXPECT_EQ(command.model.model, "dir");
  EXPECT_THAT(command.prompts.texts, ElementsAre("hello"));
  EXPECT_EQ(command.model.prefill_chunk, 256);
  EXPECT_FALSE(command.model.tp.has_value());
  EXPECT_FALSE(command.max_new_tokens.has_value());
  EXPECT_EQ(command.run.launch, Launch::kMpi);
  EXPECT_EQ(command.run.backend, "cpu");
  EXPECT_EQ(command.run.strictness, Strictness::kStrict);
  EXPECT_TRUE(command.generation.empty());
}

TEST(CommandLine, TakesSeveralPromptsInOrder) {
  EXPECT_THAT(generate({"--prompt", "a", "--prompt", "b c"}).prompts.texts, ElementsAre("a", "b c"));
}

TEST(CommandLine, KeepsGenerationOptionsUnderHuggingFacesNames) {
  const auto options = generate({"--prompt", "a", "--do-sample", "--temperature", "0.7", "--top-k", "5",
                                 "--eos-token-id", "2,7", "--repetition-penalty", "1.1"})
                           .generation;
  EXPECT_EQ(options.at("do_sample"), "true");
  EXPECT_EQ(options.at("temperature"), "0.7");
  EXPECT_EQ(options.at("top_k"), "5");
  EXPECT_EQ(options.at("eos_token_id"), "[2,7]");
  EXPECT_EQ(options.at("repetition_penalty"), "1.1");
  EXPECT_EQ(generate({"--prompt", "a", "--no-do-sample"}).generation.at("do_sample"), "false");
}

TEST(CommandLine, ReadsHowToRun) {
  const GenerateCommand command = generate({"--ids-file", "x.json", "--launch", "threads", "--tp", "3", "--threads",
                                            "2", "--no-strict", "--communicator", "shm", "--deadline-s", "5"});
  EXPECT_EQ(command.run.launch, Launch::kThreads);
  EXPECT_EQ(command.model.tp, 3);
  EXPECT_EQ(command.run.threads, 2);
  EXPECT_EQ(command.run.strictness, Strictness::kLenient);
  EXPECT_EQ(command.run.communicator, "shm");
  EXPECT_EQ(command.run.deadline_s, 5.0);
}

TEST(CommandLine, RefusesWhatMakesNoSenseAndNamesTheOption) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"generate", "--prompt", "a"}, "--model"},
      {{"generate", "--model", "d"}, "--prompt"},
      {{"generate", "--model", "d", "--prompt", "a", "--ids-file", "f"}, "--ids-file"},
      {{"generate", "--model", "d", "--prompt", "a", "--tp", "0"}, "--tp"},
      {{"generate", "--model", "d", "--prompt", "a", "--tp", "two"}, "--tp"},
      {{"generate", "--model", "d", "--prompt", "a", "--prefill-chunk", "0"}, "--prefill-chunk"},
      {{"generate", "--model", "d", "--prompt", "a", "--batch-size", "-1"}, "--batch-size"},
      {{"generate", "--model", "d", "--prompt", "a", "--max-new-tokens", "0"}, "--max-new-tokens"},
      {{"generate", "--model", "d", "--prompt", "a", "--dtype", "int3"}, "--dtype"},
      {{"generate", "--model", "d", "--prompt", "a", "--backend", "tpu"}, "--backend"},
      {{"generate", "--model", "d", "--prompt", "a", "--temperature", "hot"}, "--temperature"},
      {{"generate", "--model", "d", "--prompt", "a", "--deadline-s", "0"}, "--deadline-s"},
      {{"generate", "--model", "d", "--prompt", "a", "--frobnicate"}, "frobnicate"},
      {{"sing"}, "sing"},
      {{}, "subcommand"},
  };
  for (const auto& [words, named] : cases) {
    const auto result = parse(words);
    ASSERT_FALSE(result.has_value()) << named;
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr(named));
  }
}

TEST(CommandLine, PrintsHelpAndVersionInsteadOfFailing) {
  EXPECT_THAT(std::get<PrintedText>(parse({"--help"}).value()).text, HasSubstr("generate"));
  EXPECT_THAT(std::get<PrintedText>(parse({"generate", "--help"}).value()).text, HasSubstr("--prefill-chunk"));
  EXPECT_THAT(std::get<PrintedText>(parse({"--version"}).value()).text, HasSubstr("lockstep 0.1.0"));
}

}  // namespace
}  // namespace lockstep::launcher
