#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/drivers.h"
#include "launcher/measure/doctor/doctor_report.h"
#include "launcher/measure/doctor/judgements.h"
#include "launcher/measure/doctor/rank_facts.h"
#include "launcher/measure/doctor/stage_reporter.h"
#include "launcher/measure/doctor/stage_table.h"
#include "launcher/measure/doctor/stages.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

/// `per_host[i]` ranks on node i, with a core and a thread each.
group::Placement placement_of(const std::vector<int>& per_host) {
  group::Placement placement;
  placement.launcher = transport::Launcher::kOpenMpi;
  for (size_t node = 0; node < per_host.size(); ++node) {
    for (int local = 0; local < per_host[node]; ++local) {
      placement.ranks.push_back({.place = {.rank = static_cast<int>(placement.ranks.size()),
                                           .host = "node" + std::to_string(node),
                                           .local_rank = local,
                                           .local_size = per_host[node],
                                           .cores = {local},
                                           .node = static_cast<int>(node),
                                           .host_cores = per_host[node]},
                                 .threads = 1});
    }
  }
  return placement;
}

RankFacts healthy_facts() {
  return {.program = "version 1\ncompiler x\nbuild aa\n",
          .memory_bytes = 16 * kGiB,
          .available_bytes = 8 * kGiB,
          .memory_limit = std::nullopt,
          .core_limit = std::nullopt,
          .open_files = 1024,
          .locked_bytes = 8 << 20,
          .shm_bytes = kGiB,
          .shm_free = kGiB,
          .visible = {}};
}

transport::LaunchEnvironment started_by(transport::Launcher launcher, int size) {
  transport::LaunchEnvironment environment;
  environment.launcher = launcher;
  environment.size = size;
  environment.speaks_pmix = launcher == transport::Launcher::kOpenMpi;
  return environment;
}

Check named(std::string name, CheckStatus status, std::string found = "", std::string fix = "") {
  return {.name = std::move(name),
          .status = status,
          .seconds = 0.5,
          .found = std::move(found),
          .expected = "",
          .fix = std::move(fix),
          .table = ""};
}

TEST(JudgeLaunch, SaysWhoStartedHowMany) {
  const Check check = judge_launch(
      {.environment = started_by(transport::Launcher::kOpenMpi, 4), .tp = std::nullopt, .library = "Open MPI 4.1.4"});
  EXPECT_EQ(check.status, CheckStatus::kOk);
  EXPECT_THAT(check.found, AllOf(HasSubstr("4 ranks"), HasSubstr("mpirun"), HasSubstr("Open MPI 4.1.4")));
}

TEST(JudgeLaunch, RefusesThreadsUnderALauncher) {
  const Check check = judge_launch({.environment = started_by(transport::Launcher::kOpenMpi, 2),
                                    .launch = Launch::kThreads,
                                    .tp = 2,
                                    .library = ""});
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_THAT(check.fix, HasSubstr("--launch threads"));
}

TEST(JudgeLaunch, RefusesASlurmStepThatTheMpiCannotHear) {
  auto environment = started_by(transport::Launcher::kSlurm, 2);
  environment.in_slurm_step = true;
  const Check check = judge_launch({.environment = environment, .tp = std::nullopt, .library = "Open MPI 4.1.4"});
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_THAT(check.fix, HasSubstr("srun --mpi=pmix"));
}

TEST(JudgeLaunch, WarnsOfOneRankInsideASlurmJob) {
  const Check check =
      judge_launch({.environment = {}, .tp = std::nullopt, .library = "Open MPI 4.1.4", .in_slurm_job = true});
  EXPECT_EQ(check.status, CheckStatus::kWarning);
  EXPECT_EQ(check.fix, "srun --mpi=pmix lockstep doctor");
}

TEST(JudgeLaunch, RefusesAnotherNumberOfRanksThanWanted) {
  const Check check = judge_launch({.environment = {}, .tp = 4, .library = "Open MPI 4.1.4"});
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_THAT(check.fix, HasSubstr("mpirun -n 4 lockstep doctor"));
}

TEST(JudgePlaces, ShowsTheTableAndWarnsWithTheFlag) {
  group::Placement placement = placement_of({2});
  EXPECT_EQ(judge_places(placement).status, CheckStatus::kOk);
  EXPECT_THAT(judge_places(placement).table, HasSubstr("rank  host"));
  placement.ranks[1].place.cores = {0};
  const Check check = judge_places(placement);
  EXPECT_EQ(check.status, CheckStatus::kWarning);
  EXPECT_THAT(check.fix, HasSubstr("--bind-to none"));
}

TEST(JudgeHosts, WarnsWhenAContainerGivesLessTimeThanThreadsTake) {
  std::vector<RankFacts> facts(2, healthy_facts());
  EXPECT_EQ(judge_hosts(placement_of({2}), facts).status, CheckStatus::kOk);
  for (RankFacts& own : facts) own.core_limit = 1.0;
  const Check check = judge_hosts(placement_of({2}), facts);
  EXPECT_EQ(check.status, CheckStatus::kWarning);
  EXPECT_THAT(check.found, HasSubstr("at most 1 cores' time"));
}

TEST(JudgeHosts, WarnsWhenOtherProgramsUseTheCores) {
  std::vector<RankFacts> facts(2, healthy_facts());
  facts[0].core_pressure = facts[1].core_pressure = 0.1;
  EXPECT_EQ(judge_hosts(placement_of({2}), facts).status, CheckStatus::kOk);
  facts[0].core_pressure = facts[1].core_pressure = 0.456;
  const Check check = judge_hosts(placement_of({2}), facts);
  EXPECT_EQ(check.status, CheckStatus::kWarning);
  EXPECT_THAT(check.found, HasSubstr("in the last 10 s work waited there for a core 46 % of the time"));
  EXPECT_EQ(check.expected, "no other programs on the cores of node0");
}

TEST(JudgeHosts, WarnsWhenAJobMayUseTooLittleMemory) {
  std::vector<RankFacts> facts(2, healthy_facts());
  for (RankFacts& own : facts) own.memory_limit = kGiB;
  const Check check = judge_hosts(placement_of({2}), facts);
  EXPECT_EQ(check.status, CheckStatus::kWarning);
  EXPECT_THAT(check.expected, HasSubstr("1.00 GiB for each rank on node0"));
}

TEST(JudgeLimits, RefusesTooFewOpenFilesAndNamesTheRank) {
  std::vector<RankFacts> facts(2, healthy_facts());
  EXPECT_EQ(judge_limits(placement_of({1, 1}), facts).status, CheckStatus::kOk);
  facts[1].open_files = 32;
  const Check check = judge_limits(placement_of({1, 1}), facts);
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_EQ(check.found, "rank 1 on node1 may open 32 files");
  EXPECT_THAT(check.fix, HasSubstr("ulimit -n"));
}

TEST(JudgeLimits, WarnsOfInfiniBandThatCannotLockMemory) {
  std::vector<RankFacts> facts(1, healthy_facts());
  facts[0].has_infiniband = true;
  EXPECT_EQ(judge_limits(placement_of({1}), facts).status, CheckStatus::kWarning);
  facts[0].locked_bytes = -1;
  EXPECT_EQ(judge_limits(placement_of({1}), facts).status, CheckStatus::kOk);
}

TEST(JudgeProgram, NamesTheRanksThatRunAnother) {
  std::vector<RankFacts> facts(3, healthy_facts());
  EXPECT_EQ(judge_program(placement_of({3}), facts).status, CheckStatus::kOk);
  facts[2].program = "version 1\ncompiler x\nbuild bb";
  const Check check = judge_program(placement_of({3}), facts);
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_THAT(check.found, AllOf(HasSubstr("rank 2 runs another program"), HasSubstr("build bb")));
  EXPECT_THAT(check.expected, HasSubstr("build aa"));
}

TEST(JudgeDevices, SaysWhatIsThereAndNotUsed) {
  std::vector<RankFacts> facts(1, healthy_facts());
  EXPECT_THAT(judge_devices(placement_of({1}), facts).found,
              AllOf(HasSubstr("this build has the backends cpu"), Not(HasSubstr("not used"))));
  facts[0].installed["cuda"] = 4;
  facts[0].visible["CUDA_VISIBLE_DEVICES"] = "0,1";
  const bool is_built = engine::find_driver("cuda").has_value();
  EXPECT_THAT(judge_devices(placement_of({1}), facts).found,
              AllOf(HasSubstr(is_built ? "4 GPUs on node0 (--backend cuda)" : "4 GPUs on node0 (not used: no cuda)"),
                    HasSubstr("CUDA_VISIBLE_DEVICES=0,1")));
}

TEST(JudgeDevices, TellsWhatDriversSayAndWarnsOfThoseThatDoNotWork) {
  std::vector<RankFacts> facts(2, healthy_facts());
  facts[1].devices["cuda"] = {"driver of CUDA 13.0", "GPU 0: Some GPU, 79.00 GiB"};
  Check check = judge_devices(placement_of({1, 1}), facts);
  EXPECT_EQ(check.status, CheckStatus::kOk);
  EXPECT_THAT(check.found, HasSubstr("cuda on node1: driver of CUDA 13.0; GPU 0: Some GPU, 79.00 GiB"));
  facts[0].device_errors["cuda"] = "[runtime/cuda] cannot load the CUDA driver";
  check = judge_devices(placement_of({1, 1}), facts);
  EXPECT_EQ(check.status, CheckStatus::kWarning);
  EXPECT_THAT(check.found, HasSubstr("cuda on node0 does not work: [runtime/cuda] cannot load the CUDA driver"));
}

TEST(JudgeShmSpace, ComparesEachHostWithWhatItsRanksNeed) {
  std::vector<RankFacts> facts(3, healthy_facts());
  facts[2].shm_free = 0;  // a host of one rank needs none
  EXPECT_EQ(judge_shm_space(placement_of({2, 1}), facts).status, CheckStatus::kOk);
  facts[0].shm_free = shm_need(2) - 1;
  const Check check = judge_shm_space(placement_of({2, 1}), facts);
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_THAT(check.fix, AllOf(HasSubstr("--shm-size"), HasSubstr("--communicator mpi")));
}

TEST(JudgeClocks, OnlySaysHowFarTheyAreApart) {
  const std::vector<double> seconds = {0.0, -0.0042};
  const Check check = judge_clocks(placement_of({1, 1}), seconds);
  EXPECT_EQ(check.status, CheckStatus::kOk);
  EXPECT_THAT(check.found, HasSubstr("4.2 ms (rank 1 on node1)"));
}

TEST(JudgeModel, NamesTheFirstFileThatDiffersAndTheRank) {
  const ModelFacts good{
      .problem = "", .files = {{"a.safetensors", 10}, {"config.json", 5}}, .sample_bytes = 10, .sample_seconds = 1e-6};
  std::vector<ModelFacts> facts(2, good);
  EXPECT_EQ(judge_model(placement_of({2}), facts, "/m").status, CheckStatus::kOk);
  facts[1].files[0].second = 9;
  Check check = judge_model(placement_of({2}), facts, "/m");
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_EQ(check.found, "rank 1 on node0 has another a.safetensors: 9 bytes");
  EXPECT_EQ(check.expected, "10 bytes as on rank 0");
  facts[1].files.erase(facts[1].files.begin());
  EXPECT_THAT(judge_model(placement_of({2}), facts, "/m").found, HasSubstr("a.safetensors: no such file"));
  facts[1].problem = "/m cannot be opened";
  EXPECT_THAT(judge_model(placement_of({2}), facts, "/m").found, HasSubstr("rank 1 on node0: /m cannot be opened"));
}

TEST(RankFacts, AreReadBackAsTheyWereWritten) {
  RankFacts facts = healthy_facts();
  facts.core_limit = 1.5;
  facts.core_pressure = 0.25;
  facts.memory_limit = kGiB;
  facts.has_infiniband = true;
  facts.visible["CUDA_VISIBLE_DEVICES"] = "0";
  facts.installed["neuron"] = 2;
  facts.devices["cuda"] = {"driver of CUDA 13.0", "GPU 0: one, 80 GiB"};
  facts.device_errors["neuron"] = "no driver";
  EXPECT_EQ(parse_facts(to_text(facts), 0).value(), facts);
  EXPECT_EQ(parse_facts("no JSON", 3).error().origin_rank, 3);
}

TEST(ControlGroups, TellTheirLimits) {
  EXPECT_EQ(parse_cpu_max("150000 100000"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_memory_max("1073741824"), kGiB);
  EXPECT_EQ(parse_memory_max("max"), std::nullopt);
  EXPECT_EQ(parse_memory_max("9223372036854771712"), std::nullopt);  // version 1's value for no limit
}

TEST(FailedCheck, TakesAMessageApart) {
  const Check check = failed_check({ErrorKind::kUnavailable,
                                    "[transport] rank 1: cannot listen: found 'busy; really', expected a free port; "
                                    "name another"});
  EXPECT_EQ(check.status, CheckStatus::kFailed);
  EXPECT_EQ(check.found, "rank 1: cannot listen: found 'busy; really'");
  EXPECT_EQ(check.expected, "a free port");
  EXPECT_EQ(check.fix, "name another");
  EXPECT_EQ(failed_check({ErrorKind::kInternal, "odd"}).found, "odd");
  const Check other = failed_check({ErrorKind::kUnavailable, "[a] b: found c, expected d; start (e; f), or g"});
  EXPECT_EQ(other.expected, "d");
  EXPECT_EQ(other.fix, "start (e; f), or g");
}

TEST(WhoIsMissing, NamesRanksThatAreUnheardSilentOrBehind) {
  const TimePoint now(std::chrono::seconds(100));
  const std::vector<std::string> stages = {"launch", "MPI start", "places"};
  const std::vector<RankSign> signs = {{2, now}, {}, {1, now}, {2, now - std::chrono::seconds(9)}};
  EXPECT_THAT(who_is_missing(signs, 2, stages, now),
              ElementsAre("rank 1 has not been heard of", "rank 2 is still in 'MPI start'",
                          "rank 3 has been silent for 9.0 s, last in 'places' (stopped, or gone)"));
}

TEST(StageTable, KeepsTheLastStageOfEachRank) {
  ManualClock clock;
  StageTable board(1, clock);
  board.note(0, 3);
  board.note(0, 2);   // late
  board.note(7, 1);   // no such rank
  board.note(0, -5);  // nonsense
  EXPECT_EQ(board.signs().size(), 1u);
  EXPECT_EQ(board.signs()[0].stage, 3);
  board.grow(2);
  EXPECT_EQ(board.signs()[1].stage, -1);
}

TEST(StageBeacon, CarriesStagesToRank0BeforeAndAfterTheNetworkIsKnown) {
  const SteadyClock clock;
  const std::string job = "job of a test " + std::to_string(getpid());
  StageTable board(3, clock), others(3, clock);
  StageBeacon first(board, 0, job), second(others, 1, job), far(others, 2, job + " unheard");
  const auto heard = [&](int rank, int stage) {
    const Deadline deadline(clock, std::chrono::seconds(30));
    while (board.signs()[static_cast<size_t>(rank)].stage != stage && !deadline.has_passed()) std::this_thread::yield();
    return board.signs()[static_cast<size_t>(rank)].stage == stage;
  };
  second.announce(4);
  EXPECT_TRUE(heard(1, 4));
  far.announce(5);
  EXPECT_EQ(board.signs()[2].stage, -1);
  far.add_targets(first.listen());
  EXPECT_TRUE(heard(2, 5));
}

TEST(ExpiredCheck, SaysWhoIsMissingAndWhatToDo) {
  const Check early = expired_check(kMpiStage, {"rank 1 has not been heard of"}, 10.0);
  EXPECT_EQ(early.name, "MPI start");
  EXPECT_EQ(early.status, CheckStatus::kFailed);
  EXPECT_EQ(early.found, "rank 1 has not been heard of");
  EXPECT_THAT(early.fix, HasSubstr("every rank was started"));
  EXPECT_THAT(expired_check(kEarlyStages, {}, 10.0).found, HasSubstr("every rank is in it"));
}

TEST(DoctorReport, SkipsWhatCouldNotBeReached) {
  DoctorReport report;
  report.checks.push_back(named("launch", CheckStatus::kFailed));
  skip_rest(report, "the launch is wrong");
  ASSERT_EQ(report.checks.size(), stages().size());
  EXPECT_EQ(report.checks.back().status, CheckStatus::kSkipped);
  EXPECT_EQ(report.checks.back().found, "the launch is wrong");
  EXPECT_EQ(report.verdict(), CheckStatus::kFailed);
}

DoctorReport measured_report() {
  DoctorReport report{.world_size = 4, .launcher = "mpirun -n 4"};
  report.hosts.resize(1);
  for (const auto& [name, scale] : {std::pair("mpi", 3.1), {"shm", 1.0}}) {
    for (const int64_t bytes : {int64_t{8}, int64_t{8192}}) {
      report.collectives.push_back({name, "all_reduce", bytes, 2.0 * scale, 4.0 * scale});
      report.collectives.push_back({name, "all_gather", bytes, 1.0 * scale, 2.0 * scale});
    }
  }
  report.limits = LimitsLine{.read_bytes_per_s = 1e10, .flops_per_s = 1e12, .precision = "bfloat16"};
  return report;
}

TEST(ClosingWords, CompareTheWaysAndSayWhatToTypeNext) {
  DoctorReport report = measured_report();
  EXPECT_THAT(closing_words(report),
              AllOf(HasSubstr("4 ranks on 1 host: everything works; shm is 3.1x faster than mpi at 8 KiB"),
                    HasSubstr("next: mpirun -n 4 lockstep generate --communicator auto --model DIR")));
  report.checks.push_back(named("places", CheckStatus::kWarning, "narrow", "bind wider"));
  EXPECT_THAT(closing_words(report), AllOf(HasSubstr("works, but could be better (places)"),
                                           HasSubstr("first: bind wider"), HasSubstr("next: mpirun")));
  report.checks.push_back(named("mpi", CheckStatus::kFailed, "broken", "mend it"));
  EXPECT_THAT(closing_words(report), AllOf(HasSubstr("not ready: mpi failed"), HasSubstr("first: mend it"),
                                           HasSubstr("run lockstep doctor again"), Not(HasSubstr("next:"))));
}

TEST(ClosingWords, OfThreadsNameNoLauncher) {
  DoctorReport report{.world_size = 2, .launcher = "", .threads = true};
  EXPECT_THAT(closing_words(report), HasSubstr("next: lockstep generate --launch threads --tp 2"));
}

TEST(DoctorJson, HasVerdictChecksAndTheProbeOfAPlan) {
  DoctorReport report = measured_report();
  report.checks.push_back(named("places", CheckStatus::kFailed, "x", "y"));
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["verdict"], "failed");
  EXPECT_EQ(json["world_size"], 4);
  EXPECT_EQ(json["checks"][0]["status"], "failed");
  EXPECT_EQ(json["checks"][0]["fix"], "y");
  EXPECT_EQ(json["probe"]["read_bytes_per_s"], 1e10);
  ASSERT_EQ(json["probe"]["collectives"].size(), 2u);
  EXPECT_EQ(json["probe"]["collectives"][1]["bytes"], 8192);
  EXPECT_NEAR(json["probe"]["collectives"][1]["seconds"].get<double>(), 3e-6, 1e-12);  // sum and gather, by shm
  EXPECT_NEAR(json["collectives"][0]["bytes_per_s"].get<double>(), 8 / 6.2e-6, 1);
}

TEST(CheckLines, PutFixAndTableBelow) {
  Check check = named("places", CheckStatus::kWarning, "two on one", "bind wider");
  check.table = "rank\n0";
  const std::string lines = to_lines(check);
  EXPECT_THAT(lines, AllOf(HasSubstr("warning  places"), HasSubstr("0.50 s  two on one\n"),
                           HasSubstr("fix: bind wider\n"), HasSubstr("  rank\n")));
  EXPECT_THAT(to_lines(named("a", CheckStatus::kOk, "b")), Not(HasSubstr("fix:")));
}

TEST(CheckLines, OfChecksThatAreSkippedForOneReasonAreOne) {
  const std::vector<Check> checks = {named("a", CheckStatus::kFailed, "x"), named("b", CheckStatus::kSkipped, "y"),
                                     named("c", CheckStatus::kSkipped, "y"), named("d", CheckStatus::kSkipped, "z")};
  EXPECT_THAT(to_lines(checks),
              AllOf(HasSubstr("FAILED   a"), HasSubstr("skipped  b, c: y\n"), HasSubstr("skipped  d")));
}

TEST(LauncherWords, AreThoseOfTheLauncherAtHand) {
  EXPECT_EQ(launcher_words(started_by(transport::Launcher::kOpenMpi, 2), 2), "mpirun -n 2");
  EXPECT_EQ(launcher_words(started_by(transport::Launcher::kSlurm, 2), 2), "srun --mpi=pmi2 -n 2");
  EXPECT_THAT(launcher_words({}, 1), IsEmpty());
}

}  // namespace
}  // namespace lockstep::launcher
