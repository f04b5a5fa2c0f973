#include "launcher/measure/sweep/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "launcher/cli/command_line.h"
#include "launcher/measure/sweep/group_shares.h"
#include "launcher/measure/sweep/launch_trial.h"
#include "launcher/measure/sweep/launch_words.h"
#include "launcher/measure/sweep/slurm_array.h"
#include "launcher/process/launcher_words.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

constexpr PointShape kShape{.tp = 2, .batch = 8, .prompt_tokens = 128, .new_tokens = 16};

TEST(SweepGrid, VariesTheDegreeFastest) {
  const auto grid = make_grid({.tp = {1, 2}, .batch = {1, 8}, .prompt_tokens = {16, 32}, .new_tokens = 4});
  ASSERT_EQ(grid.size(), 8);
  EXPECT_EQ(grid[0], (PointShape{1, 1, 16, 4}));
  EXPECT_EQ(grid[1], (PointShape{2, 1, 16, 4}));
  EXPECT_EQ(grid[2], (PointShape{1, 1, 32, 4}));
  EXPECT_EQ(grid[7], (PointShape{2, 8, 32, 4}));
}

TEST(SweepGrid, VariesTheReplicasAfterTheDegree) {
  const auto grid = make_grid({.tp = {1, 2}, .batch = {8}, .prompt_tokens = {16}, .new_tokens = 4, .replicas = {1, 2}});
  ASSERT_EQ(grid.size(), 4);
  EXPECT_EQ(grid[1], (PointShape{2, 8, 16, 4, 1}));
  EXPECT_EQ(grid[2], (PointShape{1, 8, 16, 4, 2}));
  EXPECT_EQ(grid[3].ranks(), 4);
  EXPECT_EQ(to_string(grid[3]), "2 x tp 2, batch 8, 16 prompt and 4 new tokens");
  EXPECT_EQ(split_name(grid[3]), "2 × TP 2");
}

TEST(SweepGrid, ReadsListsInAscendingOrderWithoutRepeats) {
  EXPECT_THAT(parse_counts("4,1,2,1", "--tp", 1, 8).value(), ElementsAre(1, 2, 4));
  EXPECT_THAT(parse_counts("7", "--tp", 1, 8).value(), ElementsAre(7));
}

TEST(SweepGrid, RefusesWhatIsNoListNamingTheOption) {
  for (const char* wrong : {"", "1,", ",1", "1,,2", "1 2", "x", "0", "9", "-1", "1.5", "99999999999999999999"}) {
    const auto parsed = parse_counts(wrong, "--tp", 1, 8);
    ASSERT_FALSE(parsed.has_value()) << wrong;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("--tp"));
  }
}

TEST(SweepGrid, GivesEveryPointThatDiffersItsOwnKey) {
  const SweepVariant variant{.version = "1", .launch = "", .options = {"--repeats", "2"}};
  std::set<std::string> keys{key_of(kShape, variant)};
  for (const PointShape& other :
       {PointShape{1, 8, 128, 16}, {2, 1, 128, 16}, {2, 8, 64, 16}, {2, 8, 128, 8}, {2, 8, 128, 16, 2}}) {
    EXPECT_TRUE(keys.insert(key_of(other, variant)).second);
  }
  EXPECT_TRUE(keys.insert(key_of(kShape, {"2", "", {"--repeats", "2"}})).second) << "version";
  EXPECT_TRUE(keys.insert(key_of(kShape, {"1", "threads", {"--repeats", "2"}})).second) << "launch";
  EXPECT_TRUE(keys.insert(key_of(kShape, {"1", "", {"--repeats", "3"}})).second) << "options";
}

TEST(SweepGrid, RunsNoPointAgainForAnotherDeadline) {
  const SweepVariant variant{.version = "1", .launch = "", .options = {"--repeats", "2"}};
  EXPECT_EQ(key_of(kShape, variant), key_of(kShape, {"1", "", {"--deadline-s", "9", "--repeats", "2"}}));
}

TEST(LaunchWords, AreReadBackFromTheirQuotedForm) {
  const std::vector<std::string> words{"plain-1.0/x", "", "two words", "it's", "$x \"y\" \\", "{ranks}"};
  EXPECT_EQ(split_words(quoted(words), "--launcher").value(), words);
}

BenchCommandLine bench_line() {
  return {.program = "lockstep", .model = {"--model", "m"}, .options = {"--repeats", "2"}};
}

std::string line(const char* launch, const PointShape& shape) {
  return quoted(group_words(parse_launch_template(launch, shape.tp).value(), bench_line(), shape, "out.json"));
}

TEST(PointWords, StartOneRankAsItIsAndMoreByMpirun) {
  const std::string bench =
      "lockstep bench --model m --tp 2 --batch-size 8 --prompt-tokens 128 --new-tokens 16 --repeats 2";
  EXPECT_EQ(line("", kShape), "mpirun -n 2 " + bench + " --json out.json");
  EXPECT_THAT(line("", {1, 1, 1, 2}), ::testing::StartsWith("lockstep bench --model m --tp 1 "));
  EXPECT_EQ(line("threads", kShape), bench + " --launch threads --json out.json");
  EXPECT_EQ(line("processes", kShape), bench + " --launch processes --json out.json");
}

TEST(PointWords, FillTheRanksIntoATemplate) {
  EXPECT_THAT(line("srun -n{ranks} -c {ranks}", kShape), ::testing::StartsWith("srun -n2 -c 2 lockstep bench "));
  EXPECT_THAT(line("srun -n {ranks}", {1, 1, 1, 2}), ::testing::StartsWith("srun -n 1 lockstep bench "));
}

TEST(PointWords, ShareTheBatchOutAndNameTheEndOfTheBarrier) {
  const PointShape shape{.tp = 1, .batch = 8, .prompt_tokens = 16, .new_tokens = 4, .replicas = 2};
  const LaunchTemplate launch = parse_launch_template("processes", 1).value();
  EXPECT_EQ(quoted(group_words(launch, bench_line(), shape, "out.json", 7)),
            "lockstep bench --model m --tp 1 --batch-size 4 --prompt-tokens 16 --new-tokens 4 --repeats 2 --launch "
            "processes --barrier 7 --json out.json");
}

TEST(PointWords, RefuseReplicasUnderALauncher) {
  const auto refused = check_launch_of_replicas(parse_launch_template("srun -n {ranks}", 2).value(), 2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("found --launch-template \"srun -n '{ranks}'\""));
  EXPECT_TRUE(check_launch_of_replicas(parse_launch_template("srun -n {ranks}", 2).value(), 1).has_value());
  EXPECT_TRUE(check_launch_of_replicas(parse_launch_template("threads", 2).value(), 2).has_value());
}

const std::vector<std::vector<int>> kFiveCores = {{0, 5}, {1, 6}, {2, 7}, {3, 8}, {4, 9}};

TEST(GroupShares, AreWholeCoresAndTheSameNumberOfThem) {
  const auto shares = share_out({.tp = 2, .batch = 8, .replicas = 2}, kFiveCores).value();
  EXPECT_THAT(shares, ElementsAre(GroupShare{4, {0, 5, 1, 6}}, GroupShare{4, {2, 7, 3, 8}}));
}

TEST(GroupShares, LeaveAnOnlyGroupWhereItRunsAlready) {
  EXPECT_THAT(share_out({.tp = 2, .batch = 7}, kFiveCores).value(), ElementsAre(GroupShare{7, {}}));
}

TEST(GroupShares, RefuseWhatCannotBeShared) {
  const auto batch = share_out({.batch = 3, .replicas = 2}, kFiveCores);
  ASSERT_FALSE(batch.has_value());
  EXPECT_THAT(batch.error().message, HasSubstr("found 3 sequences for 2 replicas, expected a multiple"));
  const auto cores = share_out({.batch = 6, .replicas = 6}, kFiveCores);
  ASSERT_FALSE(cores.has_value());
  EXPECT_THAT(cores.error().message, HasSubstr("found 5 for 6 replicas"));
}

TEST(PointWords, RefuseATemplateThatStartsAlwaysTheSameRanks) {
  const auto parsed = parse_launch_template("mpirun -n 2", 4);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_THAT(parsed.error().message, HasSubstr("{ranks}"));
  EXPECT_TRUE(parse_launch_template("env A=1", 1).has_value());
}

std::string trial(const char* launch, int ranks) {
  return quoted(trial_words(parse_launch_template(launch, ranks).value(), ranks));
}

TEST(LaunchTrials, AskMpirunOnlyAboutSeveralRanks) {
  EXPECT_EQ(trial("", 4), "mpirun -n 4 true");
  EXPECT_EQ(trial("env A=1 bin/mpiexec -n {ranks} --bind-to core", 4), "env A=1 bin/mpiexec -n 4 --bind-to core true");
  EXPECT_EQ(trial("", 1), "");
  EXPECT_EQ(trial("threads", 4), "");
  EXPECT_EQ(trial("processes", 4), "");
  EXPECT_EQ(trial("srun -n {ranks}", 4), "");
}

TEST(LaunchTrials, NameTheFlagsWhereThereAreMoreRanksThanSlots) {
  const Machine machine{.host = "node1", .cpu = "a processor", .cores = 2};
  const std::string slots = "There are not enough slots available in the system to satisfy the 4\nslots that were";
  const auto refused = judge_trial(LaunchTemplate{}, 4, machine, slots);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("points of 4 ranks"));
  EXPECT_THAT(refused.error().message, HasSubstr("2 cores"));
  EXPECT_THAT(refused.error().message, HasSubstr("\"mpirun --oversubscribe --bind-to none -n {ranks}\""));
  const auto bound =
      judge_trial(parse_launch_template("mpirun -n {ranks} --bind-to core", 4).value(), 4, machine,
                  "A request was made to bind to that would result in binding more\nprocesses than cpus");
  ASSERT_FALSE(bound.has_value());
  EXPECT_THAT(bound.error().message, HasSubstr("add --oversubscribe --bind-to none to --launch-template"));
  EXPECT_TRUE(judge_trial(LaunchTemplate{}, 4, machine, "mpirun has detected an attempt to run as root.").has_value());
}

const process::EnvironmentMap kCrowded = {{"PATH", "/bin"},
                                          {"HOME", "/x"},
                                          {"OMPI_COMM_WORLD_RANK", "0"},
                                          {"OMPI_MCA_btl", "self"},
                                          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                          {"PMIX_RANK", "0"},
                                          {"PMI_SIZE", "2"},
                                          {"SLURM_CONF", "/etc/s"},
                                          {"SLURM_JOB_ID", "7"},
                                          {"SLURM_JOB_NODELIST", "n[1-2]"},
                                          {"SLURM_STEP_ID", "0"},
                                          {"SLURM_PROCID", "1"}};

TEST(ScrubbedEnvironment, LosesEveryOuterJobAndKeepsWhatUsersSet) {
  EXPECT_THAT(scrubbed(kCrowded, parse_launch_template("mpirun -n {ranks}", 2).value()),
              UnorderedElementsAre(Key("PATH"), Key("HOME"), Key("OMPI_MCA_btl"), Key("OMPI_ALLOW_RUN_AS_ROOT"),
                                   Key("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), Key("SLURM_CONF")));
}

TEST(ScrubbedEnvironment, KeepsTheSlurmJobForSrunButNotItsSteps) {
  const auto clean = scrubbed(kCrowded, parse_launch_template("/usr/bin/srun -n {ranks}", 2).value());
  EXPECT_TRUE(clean.contains("SLURM_JOB_ID"));
  EXPECT_TRUE(clean.contains("SLURM_JOB_NODELIST"));
  EXPECT_FALSE(clean.contains("SLURM_STEP_ID"));
  EXPECT_FALSE(clean.contains("SLURM_PROCID"));
  EXPECT_FALSE(clean.contains("PMIX_RANK"));
}

TEST(SlurmArrayFiles, HaveATaskForEachPoint) {
  const SlurmArray array{.program = "lockstep",
                         .sweep_words = {"--out", "my study", "--tp", "1,4"},
                         .working_folder = "here",
                         .folder = "my study",
                         .points = make_grid({{1, 4}, {1}, {16}, 4}),
                         .threads = 2};
  const std::string script = batch_script(array);
  EXPECT_THAT(script, HasSubstr("#SBATCH --array=0-1\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --ntasks=4\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --cpus-per-task=2\n"));
  EXPECT_THAT(script,
              HasSubstr("exec lockstep sweep --out 'my study' --tp 1,4 --only-point \"$SLURM_ARRAY_TASK_ID\"\n"));
  EXPECT_EQ(points_text(array),
            "0    tp 1, batch 1, 16 prompt and 4 new tokens\n1    tp 4, batch 1, 16 prompt and 4 new tokens\n");
}

TEST(SlurmArrayFiles, KeepTheGroupsOfAPointOnOneMachine) {
  const SlurmArray array{.program = "lockstep",
                         .sweep_words = {},
                         .working_folder = "here",
                         .folder = "study",
                         .points = make_grid({{2}, {8}, {16}, 4, {1, 4}}),
                         .threads = {}};
  EXPECT_THAT(batch_script(array), HasSubstr("#SBATCH --ntasks=8\n#SBATCH --nodes=1\n"));
}

Result<Command> parse(std::vector<const char*> words) {
  words.insert(words.begin(), {"lockstep", "sweep"});
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(SweepCommandLine, HandsOptionsOfBenchOnByName) {
  const auto command = std::get<SweepCommand>(
      parse({"--model", "dir", "--tp", "1,2", "--out", "o", "--repeats=2", "--no-strict", "--dtype", "bfloat16",
             "--point-deadline-s", "9", "--new-tokens", "4", "--retry-failed", "--communicator", "shm"})
          .value());
  EXPECT_THAT(command.shared_options,
              ElementsAre("--communicator", "shm", "--dtype", "bfloat16", "--no-strict", "--repeats", "2"));
  EXPECT_EQ(command.tp, "1,2");
  EXPECT_EQ(command.bench.shape.new_tokens, 4);
  EXPECT_EQ(command.failed_points, FailedPoints::kRetry);
  EXPECT_EQ(command.point_deadline_s, 9.0);
  EXPECT_THAT(command.words, ::testing::SizeIs(17));
}

TEST(SweepCommandLine, KeepsTheReplicasToItself) {
  const auto command =
      std::get<SweepCommand>(parse({"--model", "dir", "--tp", "1,2", "--replicas", "1,2", "--out", "o"}).value());
  EXPECT_EQ(command.replicas, "1,2");
  EXPECT_THAT(command.shared_options, ::testing::IsEmpty());
  EXPECT_FALSE(parse({"--model", "dir", "--out", "o", "--barrier", "3"}).has_value());
}

TEST(SweepCommandLine, RefusesWhatBenchWouldRefuse) {
  for (const std::vector<const char*>& wrong : {std::vector<const char*>{"--out", "o"},
                                                {"--model", "dir"},
                                                {"--model", "dir", "--out", "o", "--repeats", "0"},
                                                {"--model", "dir", "--out", "o", "--json", "f"},
                                                // Every point would write this file.
                                                {"--model", "dir", "--out", "o", "--trace", "f"},
                                                {"--model", "dir", "--out", "o", "--report", "--slurm-array"}}) {
    EXPECT_FALSE(parse(wrong).has_value()) << wrong.back();
  }
  EXPECT_TRUE(parse({"--out", "o", "--report"}).has_value());
}

}  // namespace
}  // namespace lockstep::launcher
