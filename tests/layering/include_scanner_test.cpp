#include "tests/layering/include_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layering/house_rules.h"

namespace lockstep::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> messages_of(const Source& source) {
  std::vector<std::string> messages;
  for (const Violation& violation : violations_of(house_rules(), source)) messages.push_back(to_string(violation));
  return messages;
}

TEST(IncludeScanner, ReadsBothKindsOfIncludeWithTheirLines) {
  const auto includes = includes_of("#pragma once\n#include <vector>\n  #  include \"runtime/core/ids.h\"  // why\n");
  EXPECT_THAT(includes, ElementsAre(Include{2, true, "vector"}, Include{3, false, "runtime/core/ids.h"}));
}

TEST(IncludeScanner, IgnoresIncludesInCommentsAndInRawLiterals) {
  EXPECT_THAT(includes_of("// #include <mpi.h>\n/* \n#include <mpi.h>\n*/\n"), IsEmpty());
  EXPECT_THAT(includes_of("auto text = R\"(\n#include <mpi.h>\n)\";\n"), IsEmpty());
}

TEST(IncludeScanner, BlanksCommentsAndLiteralsButKeepsLines) {
  EXPECT_EQ(code_of("a; // b\nc(\"d\\\"e\", 'f'); /* g\n */ h;"), "a;     \nc(\"    \", ' ');     \n    h;");
  EXPECT_EQ(code_of("x = 1'000; y"), "x = 1'000; y");
}

TEST(IncludeScanner, ABlankedRawLiteralEndsAtItsDelimiter) {
  EXPECT_THAT(code_of("f(R\"re(getenv)\" )re\"); g"), HasSubstr("); g"));
  EXPECT_THAT(code_of("f(R\"re(getenv)\" )re\"); g"), Not(HasSubstr("getenv")));
}

TEST(IncludeScanner, FindsTheRowWithTheLongestName) {
  const Rules rules = house_rules();
  EXPECT_EQ(folder_of(rules, "shards/step_engine.h")->folder, "shards");
  EXPECT_EQ(folder_of(rules, "shards/partition/head_split.h")->folder, "shards/partition");
  EXPECT_EQ(folder_of(rules, "tests/shards/partition/head_split_test.cpp")->folder, "tests");
  EXPECT_EQ(folder_of(rules, "shards_of_glass/a.h"), nullptr);
}

TEST(HouseRules, LetAFolderIncludeItselfAndWhatItsRowLists) {
  EXPECT_THAT(messages_of({"runtime/graph/graph.cpp",
                           "#include \"runtime/graph/graph.h\"\n#include <vector>\n#include <fmt/format.h>\n"
                           "#include \"runtime/core/ids.h\"\n"}),
              IsEmpty());
}

TEST(HouseRules, KeepShardsAndTransportApart) {
  EXPECT_THAT(messages_of({"shards/shard.cpp", "#include \"transport/bootstrap.h\"\n"}),
              ElementsAre(HasSubstr("shards/shard.cpp:1: shards may not include transport")));
  EXPECT_THAT(messages_of({"transport/choosing.cpp", "\n#include \"shards/step_engine.h\"\n"}),
              ElementsAre(HasSubstr("transport/choosing.cpp:2: transport may not include shards")));
}

TEST(HouseRules, KeepTheRuntimeBelowEverythingElse) {
  for (const char* header :
       {"shards/step_engine.h", "transport/bootstrap.h", "actors/coordinator.h", "launcher/options.h"}) {
    EXPECT_THAT(messages_of({"runtime/device/backend.cpp", "#include \"" + std::string(header) + "\"\n"}), SizeIs(1))
        << header;
  }
}

TEST(HouseRules, LetOnlyTheListOfDriversNameAConcreteBackend) {
  const std::string include = "#include \"runtime/backends/cpu/cpu.h\"\n";
  EXPECT_THAT(messages_of({"engine/drivers.cpp", include}), IsEmpty());
  EXPECT_THAT(messages_of({"shards/shard.cpp", include}), SizeIs(1));
  EXPECT_THAT(messages_of({"actors/shard_actor.cpp", include}), SizeIs(1));
  EXPECT_THAT(messages_of({"engine/model/load.cpp", include}), SizeIs(1));
}

TEST(HouseRules, KeepABackendsHeadersPrivateExceptForTests) {
  const std::string include = "#include \"transport/shm/futex.h\"\n";
  EXPECT_THAT(messages_of({"engine/group/communicators.cpp", include}),
              ElementsAre(HasSubstr("is private to transport/shm")));
  EXPECT_THAT(messages_of({"transport/shm/shm.cpp", include}), IsEmpty());
  EXPECT_THAT(messages_of({"tests/transport/futex_test.cpp", include}), IsEmpty());
}

TEST(HouseRules, GiveEveryThirdPartyItsFolders) {
  EXPECT_THAT(messages_of({"actors/coordinator.h", "#include <caf/all.hpp>\n"}), IsEmpty());
  EXPECT_THAT(messages_of({"shards/shard.h", "#include <caf/all.hpp>\n"}), SizeIs(1));
  EXPECT_THAT(messages_of({"transport/bootstrap.cpp", "#include <mpi.h>\n"}), SizeIs(1));
  EXPECT_THAT(messages_of({"transport/mpi/messages.cpp", "#include <mpi.h>\n"}), SizeIs(1));
  EXPECT_THAT(messages_of({"transport/mpi/adapter.cpp", "#include <mpi.h>\n"}), IsEmpty());
  EXPECT_THAT(messages_of({"runtime/backends/cpu/gemm.cpp", "#include <ATen/ATen.h>\n"}), SizeIs(1));
  EXPECT_THAT(messages_of({"runtime/graph/text.cpp", "#include <nlohmann/json.hpp>\n"}), SizeIs(1));
  EXPECT_THAT(messages_of({"runtime/core/log.cpp", "#include <left_pad/left_pad.h>\n"}),
              ElementsAre(HasSubstr("in no row of the table")));
}

TEST(HouseRules, KeepClientsOfTheLibraryToItsPublicHeaders) {
  const std::string open = "#include \"lockstep/engine.h\"\n", hidden = "#include \"engine/group/state.h\"\n";
  for (const char* client :
       {"launcher/generate/prompt_job.cpp", "launcher/batch/batch_job.cpp", "launcher/commands/generate.cpp"}) {
    EXPECT_THAT(messages_of({client, open}), IsEmpty()) << client;
    EXPECT_THAT(messages_of({client, hidden}), SizeIs(1)) << client;
  }
  EXPECT_THAT(messages_of({"examples/01_generate.cpp", "#include <lockstep/engine.h>\n"}), IsEmpty());
  EXPECT_THAT(messages_of({"examples/01_generate.cpp", hidden}), SizeIs(1));
}

TEST(HouseRules, KeepOtherLibrariesOutOfThePublicHeaders) {
  for (const char* include : {"<nlohmann/json.hpp>", "<caf/all.hpp>", "<mpi.h>", "<CLI/CLI.hpp>"}) {
    EXPECT_THAT(messages_of({"engine/include/lockstep/engine.h", fmt::format("#include {}\n", include)}), SizeIs(1));
  }
}

TEST(HouseRules, WantProjectIncludesQuotedAndFromTheRoot) {
  EXPECT_THAT(messages_of({"runtime/graph/text.cpp", "#include \"graph.h\"\n"}), SizeIs(1));
  EXPECT_THAT(messages_of({"runtime/graph/text.cpp", "#include <runtime/graph/graph.h>\n"}), SizeIs(1));
}

TEST(HouseRules, LetOnlyTheLauncherPrintExitAndReadTheEnvironment) {
  for (const char* line : {"std::cout << 1;", "printf(\"\");", "  std::fprintf(stderr, \"\");", "std::exit(1);",
                           "::_exit(70);", "exit(2);", "std::abort();", "auto home = std::getenv(\"HOME\");"}) {
    EXPECT_THAT(messages_of({"runtime/core/clock.cpp", line}), SizeIs(1)) << line;
    EXPECT_THAT(messages_of({"engine/engine.cpp", line}), SizeIs(1)) << line;
    const bool is_of_environment = std::string_view(line).find("getenv") != std::string_view::npos;
    EXPECT_THAT(messages_of({is_of_environment ? "launcher/process/own_environment.cpp" : "launcher/main.cpp", line}),
                IsEmpty())
        << line;
  }
}

TEST(HouseRules, DoNotMistakeOtherWordsForForbiddenOnes) {
  EXPECT_THAT(messages_of({"runtime/core/clock.cpp",
                           "// never calls exit() or std::abort()\nstd::snprintf(b, n, \"%d\", 1);\n"
                           "flag.abort(reason);\nconst int code = exit_code(kind);\nlog.write(\"getenv\");\n"}),
              IsEmpty());
}

TEST(HouseRules, FindASleepInATest) {
  EXPECT_THAT(messages_of({"tests/actors/coordinator_test.cpp", "std::this_thread::sleep_for(10ms);\n"}),
              ElementsAre(HasSubstr("nothing waits by sleeping")));
}

TEST(HouseRules, FindAViewOfTheStandardLibrary) {
  EXPECT_THAT(messages_of({"runtime/text/tokenizer.cpp", "std::ranges::copy(ids | std::views::values, out);\n"}),
              ElementsAre(HasSubstr("write a loop")));
}

TEST(HouseRules, WantFilesNamedAfterTheirConcept) {
  EXPECT_THAT(messages_of({"runtime/core/utils.h", ""}), SizeIs(1));
  EXPECT_THAT(messages_of({"shards/weight_manager.cpp", ""}), SizeIs(1));
  EXPECT_THAT(messages_of({"runtime/core/utility_of_gains.h", ""}), IsEmpty());
}

TEST(HouseRules, HaveARowForEveryFolder) {
  EXPECT_THAT(messages_of({"attic/old.cpp", ""}), ElementsAre(HasSubstr("no row of the table")));
}

}  // namespace
}  // namespace lockstep::layering
