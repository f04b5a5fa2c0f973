#include "launcher/measure/suite/suite_tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launcher/cli/command_line.h"
#include "tests/temporary_directory.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Command> parse(std::vector<const char*> words) {
  words.insert(words.begin(), {"lockstep", "bench", "--suite", "cpu"});
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

std::vector<std::string> words_of(std::vector<const char*> options) {
  return suite_words(std::get<BenchCommand>(parse(std::move(options)).value()), "bin/lockstep", "tools/suite.py");
}

TEST(SuiteTool, GetsTheProgramAndDefaults) {
  EXPECT_THAT(words_of({}), ElementsAre("python3", "tools/suite.py", "--program=bin/lockstep", "--suite=cpu",
                                        "--out=suite", "--child-deadline-s=300"));
}

TEST(SuiteTool, GetsEveryOptionThatTheSuiteObeys) {
  const auto words = words_of({"--out",
                               "-x",
                               "--quick",
                               "--pairs",
                               "3",
                               "--only",
                               "decode,ranks",
                               "--rival",
                               "ik=a",
                               "--rival",
                               "vllm=b c",
                               "--rival-scripts",
                               "s",
                               "--checkpoint",
                               "d",
                               "--launch-template",
                               "mpirun -n {ranks}",
                               "--child-deadline-s",
                               "0.5",
                               "--random-weights",
                               "--config",
                               "f",
                               "--tp",
                               "4",
                               "--threads",
                               "2",
                               "--probe-mib",
                               "7"});
  for (const char* word :
       {"--out=-x", "--quick", "--pairs=3", "--only=decode,ranks", "--rival=ik=a", "--rival=vllm=b c",
        "--rival-scripts=s", "--checkpoint=d", "--launch-template=mpirun -n {ranks}", "--child-deadline-s=0.5",
        "--config=f", "--tp=4", "--threads=2", "--probe-mib=7"}) {
    EXPECT_THAT(words, Contains(word));
  }
}

TEST(SuiteTool, RefusesOptionsThatTheSuiteWouldIgnore) {
  const std::vector<std::vector<const char*>> all = {{"--model", "m"},      {"--json", "j"},         {"--trace", "t"},
                                                     {"--batch-size", "2"}, {"--launch", "threads"}, {"--replay"}};
  for (const std::vector<const char*>& words : all) {
    const auto refused = parse(words);
    ASSERT_FALSE(refused.has_value()) << words.front();
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(words.front()) + ": found it with --suite"));
  }
}

TEST(SuiteTool, IsThatOfTheNearestFolderAboveTheProgram) {
  const TemporaryDirectory tree;
  const fs::path tool = tree.path() / "tools" / "suite" / "suite.py";
  const fs::path program = tree.path() / "build" / "release" / "bin" / "lockstep";
  EXPECT_NE(find_suite_tool(program), tool);
  fs::create_directories(tool.parent_path());
  std::ofstream(tool) << "\n";
  EXPECT_EQ(find_suite_tool(program), tool);
  EXPECT_EQ(find_suite_tool("/lockstep"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::launcher
