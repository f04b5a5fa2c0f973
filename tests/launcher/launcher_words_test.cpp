// Commands that start ranks, as words.
#include "launcher/process/launcher_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words(std::string_view text) { return split_words(text, "--launcher").value(); }

TEST(LauncherWords, AreSplitAsAShellSplitsPlainQuoting) {
  EXPECT_THAT(words("  mpirun -n\t2 "), ElementsAre("mpirun", "-n", "2"));
  EXPECT_THAT(words(""), ElementsAre());
  EXPECT_THAT(words("sh -c 'a \"b\" \\c' ''"), ElementsAre("sh", "-c", "a \"b\" \\c", ""));
  EXPECT_THAT(words("a\"b c\"d \"x\\\"y\\n\" e\\ f"), ElementsAre("ab cd", "x\"y\\n", "e f"));
  EXPECT_THAT(words("$HOME *"), ElementsAre("$HOME", "*"));
}

TEST(LauncherWords, NameTheOptionWhoseQuoteIsNotClosed) {
  for (const char* open : {"'a", "\"a", "a 'b\" c"}) {
    const auto split = split_words(open, "--launcher");
    ASSERT_FALSE(split.has_value()) << open;
    EXPECT_EQ(split.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(split.error().message, HasSubstr("--launcher: found a quote"));
  }
}

TEST(LauncherWords, GetTheNumberOfRanksWhereverTheyNameIt) {
  EXPECT_THAT(with_ranks(words("srun -n{ranks} -c {ranks} --x={ranks},{ranks}"), 3),
              ElementsAre("srun", "-n3", "-c", "3", "--x=3,3"));
  EXPECT_TRUE(name_ranks(words("mpirun -n {ranks}")));
  EXPECT_FALSE(name_ranks(words("mpirun -n 2 {rank}")));
}

TEST(LauncherWords, NameLostHostsOnlyWhileThereAreAny) {
  const auto srun = words("srun --exclude={lost_hosts} -n {ranks}");
  EXPECT_THAT(with_ranks(srun, 2), ElementsAre("srun", "-n", "2"));
  EXPECT_THAT(with_ranks(srun, 2, {"node7", "b"}), ElementsAre("srun", "--exclude=b,node7", "-n", "2"));
  EXPECT_TRUE(name_lost_hosts(srun));
  EXPECT_FALSE(name_lost_hosts(words("srun -n {ranks}")));
}

}  // namespace
}  // namespace lockstep::launcher
