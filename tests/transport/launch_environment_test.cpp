#include "transport/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Result<LaunchEnvironment> read(const Variables& variables) {
  return read_launch_environment([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

struct Case {
  const char* name;
  Variables variables;
  LaunchEnvironment expected;
};

const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Variables kSlurmStep = {{"SLURM_STEP_ID", "0"},
                              {"SLURM_STEP_NUM_TASKS", "8"},
                              {"SLURM_NTASKS", "16"},
                              {"SLURM_PROCID", "5"},
                              {"SLURM_LOCALID", "2"}};

Variables with(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

class LaunchTable : public ::testing::TestWithParam<Case> {};

TEST_P(LaunchTable, TellsLauncherSizeAndRank) {
  const auto found = read(GetParam().variables);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found.value().launcher, GetParam().expected.launcher);
  EXPECT_EQ(found.value().size, GetParam().expected.size);
  EXPECT_EQ(found.value().rank, GetParam().expected.rank);
  EXPECT_EQ(found.value().local_rank, GetParam().expected.local_rank);
}

INSTANTIATE_TEST_SUITE_P(
    Launchers, LaunchTable,
    ::testing::Values(
        Case{"NoLauncher", {}, {}}, Case{"OpenMpi", kOpenMpi, {Launcher::kOpenMpi, 4, 3, 1}},
        Case{"Mpich",
             {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
             {Launcher::kPmi, 2, 1, 1}},
        Case{"PmiWithoutLocalRank", {{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}, {Launcher::kPmi, 2, 0, std::nullopt}},
        Case{"SrunStep", kSlurmStep, {Launcher::kSlurm, 8, 5, 2}},
        Case{"SrunStepThatNamesOnlyTheJobsTasks",
             {{"SLURM_STEP_ID", "3"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}},
             {Launcher::kSlurm, 2, 1, std::nullopt}},
        Case{"SrunStepWithPmix", with(kSlurmStep, {{"PMIX_RANK", "5"}}), {Launcher::kSlurm, 8, 5, 2}},
        Case{"BatchScriptIsNoStep", {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}, {}},
        Case{"InteractiveShellIsNoStep",
             {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
             {}},
        Case{"MpirunInsideASlurmStep", with(kOpenMpi, kSlurmStep), {Launcher::kOpenMpi, 4, 3, 1}},
        Case{"AnotherPmixLauncher", {{"PMIX_RANK", "6"}}, {Launcher::kPmix, std::nullopt, 6, std::nullopt}}),
    [](const auto& row) { return row.param.name; });

TEST(LaunchEnvironment, NamesAVariableThatIsNoNumber) {
  for (const char* const bad : {"", "two", "-1", "3x", "4294967295", "99999999999"}) {
    const auto found = read({{"OMPI_COMM_WORLD_SIZE", bad}, {"OMPI_COMM_WORLD_RANK", "0"}});
    ASSERT_FALSE(found.has_value()) << bad;
    EXPECT_EQ(found.error().kind, ErrorKind::kFailedPrecondition);
    EXPECT_THAT(found.error().message, HasSubstr("OMPI_COMM_WORLD_SIZE"));
  }
}

TEST(LaunchEnvironment, RefusesARankThatIsNotBelowTheNumberOfRanks) {
  const auto whole = read({{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}});
  ASSERT_FALSE(whole.has_value());
  EXPECT_THAT(whole.error().message, AllOf(HasSubstr("PMI_RANK"), HasSubstr("found rank 2 of 2")));
  const auto local = read(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}));
  ASSERT_FALSE(local.has_value());
  EXPECT_THAT(local.error().message, HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK"));
}

TEST(LaunchEnvironment, TellsWhatAnMpiCanAsk) {
  const auto with_pmix = read(with(kSlurmStep, {{"PMIX_RANK", "5"}})).value();
  EXPECT_TRUE(with_pmix.speaks_pmix);
  EXPECT_FALSE(with_pmix.speaks_pmi);
  const auto pmi = read({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}, {"MPI_LOCALNRANKS", "2"}}).value();
  EXPECT_TRUE(pmi.speaks_pmi);
  EXPECT_EQ(pmi.local_size, 2);
  EXPECT_EQ(read(with(kSlurmStep, {{"SLURM_CPUS_ON_NODE", "16"}})).value().job_cores, 16);
}

struct Mismatch {
  const char* name;
  LaunchEnvironment launch;
  const char* library;
  std::vector<const char*> words;
};

class WrongLauncher : public ::testing::TestWithParam<Mismatch> {};

TEST_P(WrongLauncher, IsNamedWithTheLibraryAndWhatFits) {
  const auto checked = check_world(GetParam().launch, /*mpi_rank=*/0, /*mpi_size=*/1, GetParam().library);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(checked.error().message, HasSubstr("found MPI rank 0 of 1, expected rank 1 of 2"));
  EXPECT_THAT(checked.error().message, HasSubstr(GetParam().library));
  for (const char* const word : GetParam().words) EXPECT_THAT(checked.error().message, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(Launchers, WrongLauncher,
                         ::testing::Values(Mismatch{"OpenMpiProgramUnderMpich",
                                                    {Launcher::kPmi, 2, 1},
                                                    "Open MPI 4.1.4",
                                                    {"MPICH's mpiexec", "mpirun.openmpi", "libmpich12"}},
                                           Mismatch{"MpichProgramUnderOpenMpi",
                                                    {Launcher::kOpenMpi, 2, 1},
                                                    "MPICH 4.0.2",
                                                    {"Open MPI's mpirun", "mpirun.mpich", "libopenmpi3"}},
                                           Mismatch{"MpichProgramUnderSlurmWithPmix",
                                                    {Launcher::kSlurm, 2, 1},
                                                    "MPICH 4.0.2",
                                                    {"srun --mpi=pmi2"}},
                                           Mismatch{"AnotherMpi",
                                                    {Launcher::kOpenMpi, 2, 1},
                                                    "Intel(R) MPI Library 2021.10",
                                                    {"the mpiexec of Intel(R) MPI Library 2021.10"}}),
                         [](const auto& row) { return row.param.name; });

TEST(CheckWorld, AcceptsWhatItIsTold) {
  EXPECT_TRUE(check_world({Launcher::kOpenMpi, 2, 1, 1}, 1, 2, "Open MPI 4.1.4").has_value());
  EXPECT_TRUE(check_world({Launcher::kPmix, std::nullopt, 1, std::nullopt}, 1, 2, "Open MPI 4.1.4").has_value());
  EXPECT_TRUE(check_world({}, 1, 2, "Open MPI 4.1.4").has_value());
}

TEST(CheckLauncher, RefusesASlurmStepWithoutPmixBeforeOpenMpiEndsTheProcess) {
  LaunchEnvironment step = read(kSlurmStep).value();
  const auto checked = check_launcher(step, "Open MPI 4.1.4");
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(checked.error().message, HasSubstr("srun --mpi=pmix"));
  EXPECT_TRUE(check_launcher(step, "MPICH 4.0.2").has_value());
  const auto by_pmi2 = read(with(kSlurmStep, {{"PMI_SIZE", "8"}, {"PMI_RANK", "5"}})).value();
  EXPECT_FALSE(check_launcher(by_pmi2, "Open MPI 4.1.4").has_value());
  EXPECT_TRUE(check_launcher(read(with(kOpenMpi, kSlurmStep)).value(), "Open MPI 4.1.4").has_value());
  step.speaks_pmix = true;
  EXPECT_TRUE(check_launcher(step, "Open MPI 4.1.4").has_value());
}

TEST(LaunchEnvironment, OfARankThatLockstepStartedIsWhatItWasGiven) {
  LaunchEnvironment given{.launcher = Launcher::kLockstep, .size = 4, .rank = 2, .local_rank = 2, .local_size = 4};
  given.job = "0123abcd";
  given.meeting = 7;
  std::map<std::string, std::string> variables = launch_variables(given);
  variables["OMPI_COMM_WORLD_SIZE"] = "8";  // of an mpirun around the starter
  variables["OMPI_COMM_WORLD_RANK"] = "3";
  const auto read = read_launch_environment([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
  EXPECT_EQ(read.value(), given);
}

}  // namespace
}  // namespace lockstep::transport
