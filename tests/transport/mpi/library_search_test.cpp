#include "transport/mpi/library_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <map>

#include "tests/temporary_directory.h"

namespace lockstep::transport::mpi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(NameOf, IsTheImplementationAndItsVersion) {
  EXPECT_EQ(name_of("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), "Open MPI 4.1.4");
  EXPECT_EQ(name_of("MPICH Version:\t4.0.2\nMPICH Release date:\tThu"), "MPICH 4.0.2");
  EXPECT_EQ(name_of("MPICH Version:      5.0.2\nMPICH Release date: x"), "MPICH 5.0.2");
  EXPECT_EQ(name_of("Intel(R) MPI Library 2021.19 for Linux* OS\n"), "Intel(R) MPI Library 2021.19 for Linux* OS");
}

TEST(FamilyOf, IsWhoseBinaryInterfaceTheLibraryHas) {
  EXPECT_EQ(family_of("Open MPI v5.0.11, package: x"), Family::kOpenMpi);
  EXPECT_EQ(family_of("MPICH Version:\t4.0.2"), Family::kMpich);
  EXPECT_EQ(family_of("Intel(R) MPI Library 2021.19 for Linux* OS"), Family::kMpich);
  EXPECT_EQ(family_of("MPI VERSION    : CRAY MPICH version 8.1.28"), Family::kMpich);
  EXPECT_EQ(family_of("Another MPI 1.0"), std::nullopt);
}

struct Order {
  const char* name;
  LaunchEnvironment launch;
  std::vector<Family> families;
};

class Preference : public ::testing::TestWithParam<Order> {};

TEST_P(Preference, FollowsTheLauncher) {
  std::vector<Family> families;
  for (const Candidate& candidate : candidates_for(GetParam().launch, {})) {
    if (families.empty() || families.back() != candidate.family) families.push_back(candidate.family);
  }
  EXPECT_EQ(families, GetParam().families);
}

const std::vector<Family> kOpenMpiFirst = {Family::kOpenMpi, Family::kMpich};
const std::vector<Family> kMpichFirst = {Family::kMpich, Family::kOpenMpi};

INSTANTIATE_TEST_SUITE_P(
    Launchers, Preference,
    ::testing::Values(Order{"None", {}, kOpenMpiFirst},
                      Order{"OpenMpi", {.launcher = Launcher::kOpenMpi, .speaks_pmix = true}, kOpenMpiFirst},
                      Order{"Hydra", {.launcher = Launcher::kPmi, .speaks_pmi = true}, kMpichFirst},
                      Order{"SrunWithPmix", {.launcher = Launcher::kSlurm, .speaks_pmix = true}, kOpenMpiFirst},
                      Order{"SrunWithPmi2", {.launcher = Launcher::kSlurm, .speaks_pmi = true}, kMpichFirst},
                      Order{"SrunWithNeither", {.launcher = Launcher::kSlurm}, kOpenMpiFirst},
                      Order{"AnotherPmix", {.launcher = Launcher::kPmix, .speaks_pmix = true}, kOpenMpiFirst}),
    [](const auto& row) { return row.param.name; });

TEST(Candidates, BesideTheLauncherComeBeforeThoseOfTheSystem) {
  EXPECT_THAT(
      candidates_for({.launcher = Launcher::kPmi}, {"env/lib"}),
      ElementsAre(Candidate{Family::kMpich, "env/lib/libmpich.so.12"},
                  Candidate{Family::kMpich, "env/lib/libmpi.so.12"},
                  Candidate{Family::kMpich, "env/lib/libmpi_cray.so.12"}, Candidate{Family::kMpich, "libmpich.so.12"},
                  Candidate{Family::kMpich, "libmpi.so.12"}, Candidate{Family::kMpich, "libmpi_cray.so.12"},
                  Candidate{Family::kOpenMpi, "env/lib/libmpi.so.40"}, Candidate{Family::kOpenMpi, "libmpi.so.40"}));
}

/// The output of a program whose parent is called `launcher`, a shell in `folder`/bin.
std::string folders_below(const TemporaryDirectory& folder, const std::string& launcher) {
  const std::filesystem::path bin = folder.path() / "bin";
  std::filesystem::create_directories(bin);
  std::filesystem::copy_file("/bin/sh", bin / launcher, std::filesystem::copy_options::overwrite_existing);
  const std::string command = (bin / launcher).string() + " -c '" LOCKSTEP_LAUNCHER_FOLDERS "; true'";
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text(4096, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe));
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

TEST(LauncherFolders, AreBesideTheLauncherAboveThisProcess) {
  const TemporaryDirectory folder;
  EXPECT_THAT(folders_below(folder, "mpiexec.hydra"), HasSubstr((folder.path() / "lib\n").string()));
  EXPECT_THAT(folders_below(folder, "some_shell"), ::testing::Not(HasSubstr((folder.path() / "lib").string())));
}

TEST(LibraryChoice, TakesTheUsersLibraryFromTheEnvironment) {
  const EnvironmentLookup lookup = [](std::string_view name) -> std::optional<std::string> {
    if (name == "LOCKSTEP_MPI_LIBRARY") return "some/libmpi.so";
    return std::nullopt;
  };
  EXPECT_EQ(library_choice(lookup, {}).file, "some/libmpi.so");
  EXPECT_THAT(library_choice([](auto) { return std::nullopt; }, {}).file.string(), IsEmpty());
}

struct Unusable {
  const char* name;
  const char* file;
  std::vector<const char*> words;
};

class UnusableLibrary : public ::testing::TestWithParam<Unusable> {};

TEST_P(UnusableLibrary, IsRefusedByName) {
  const auto found = choose_library({.file = GetParam().file});
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().kind, ErrorKind::kFailedPrecondition);
  for (const char* const word : GetParam().words) EXPECT_THAT(found.error().message, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Files, UnusableLibrary,
    ::testing::Values(Unusable{"NotThere", "no/such/libmpi.so.40", {"no/such/libmpi.so.40: cannot open"}},
                      Unusable{"NoMpi", "libm.so.6", {"found libm.so.6", "MPI_Get_library_version"}},
                      Unusable{"OfNeitherFamily", LOCKSTEP_STRANGE_MPI, {"found Strange MPI 1.0", "MPICH ABI"}}),
    [](const auto& row) { return row.param.name; });

TEST(Adopt, IsRefusedWhereNoMpiIsInitialised) {
  const auto adopted = adopt(0, {});
  ASSERT_FALSE(adopted.has_value());
  EXPECT_EQ(adopted.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(adopted.error().message, HasSubstr("MPI_Init_thread"));
}

}  // namespace
}  // namespace lockstep::transport::mpi
