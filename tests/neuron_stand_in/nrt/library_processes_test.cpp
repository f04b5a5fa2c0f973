// Several processes with the library: owners of cores, connecting and leaving, planted faults.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>

#include <filesystem>

#include "tests/neuron_stand_in/nrt/library_fixture.h"

namespace lockstep::stand_in {
namespace {

/// Whether the lock of `core` can be had; held until the process ends.
bool can_claim(const std::filesystem::path& machine, int core) {
  const int file = ::open((machine / fmt::format("core-{}.lock", core)).c_str(), O_RDWR | O_CREAT, 0600);
  return ::flock(file, LOCK_EX | LOCK_NB) == 0;
}

TEST(Cores, BelongToOneProcessAtATime) {
  const std::filesystem::path machine = testing::TempDir() + fmt::format("stand-in-cores-{}", ::getpid());
  std::filesystem::create_directories(machine);
  const auto start_on = [&](const std::string& cores, nrt::NRT_STATUS expected) {
    in_a_process({{"STAND_IN_NRT_MACHINE", machine.string()}, {"NEURON_RT_VISIBLE_CORES", cores}}, [&] {
      EXPECT_EQ(functions().init(nrt::NRT_FRAMEWORK_TYPE_NO_FW, "", ""), expected);
      EXPECT_EQ(can_claim(machine, 2), expected != nrt::NRT_SUCCESS);
    });
  };
  start_on("2-3", nrt::NRT_SUCCESS);
  start_on("2-3", nrt::NRT_SUCCESS);  // the first one's cores are free again
  ASSERT_TRUE(can_claim(machine, 3));
  start_on("2-3", nrt::NRT_LOAD_NOT_ENOUGH_NC);
  start_on("2", nrt::NRT_SUCCESS);
  std::filesystem::remove_all(machine);
}

TEST(Collectives, AddWhatTheRanksGive) {
  for (const uint32_t ranks : {1u, 2u, 4u}) {
    const auto neff = sum_neff(static_cast<int>(ranks));
    on_ranks(static_cast<int>(ranks), {}, [&](uint32_t rank) {
      const SumRun ran = run_sum(started(), rank, ranks, neff, /*times=*/20);
      EXPECT_EQ(ran.loaded, nrt::NRT_SUCCESS);
      EXPECT_EQ(ran.executed, nrt::NRT_SUCCESS);
      EXPECT_THAT(ran.result, testing::ElementsAre(ranks * (ranks + 1) / 2.0f, ranks * 0.5f));
    });
  }
}

TEST(Collectives, OfDifferentModulesAreRefusedAtLoad) {
  on_ranks(2, {}, [](uint32_t rank) {
    const SumRun ran = run_sum(started(), rank, 2, sum_neff(2, rank == 0 ? 1.0 : 2.0));
    EXPECT_EQ(ran.loaded, nrt::NRT_FAILURE);
  });
}

TEST(Collectives, WithoutAPeerEndInTime) {
  on_ranks(2, {{"STAND_IN_NRT_LOAD_LIMIT_S", "1"}}, [](uint32_t rank) {
    if (rank == 1) return;
    EXPECT_EQ(run_sum(started(), 0, 2, sum_neff(2)).loaded, nrt::NRT_TIMEOUT);
  });
  int is_over[2];
  ASSERT_EQ(::pipe(is_over), 0);
  on_ranks(2, {{"NEURON_RT_EXEC_TIMEOUT", "1"}}, [&](uint32_t rank) {
    const SumRun ran = run_sum(started(), rank, 2, sum_neff(2), /*times=*/rank == 0 ? 2 : 1);
    EXPECT_EQ(ran.executed, rank == 0 ? nrt::NRT_TIMEOUT : nrt::NRT_SUCCESS);
    char word = 0;  // rank 1 runs, but does not join until rank 0 has failed
    EXPECT_EQ(rank == 0 ? ::write(is_over[1], &word, 1) : ::read(is_over[0], &word, 1), 1);
  });
  ::close(is_over[0]);
  ::close(is_over[1]);
}

TEST(Collectives, WhosePeerDiesSaySo) {
  for (const uint32_t victim : {0u, 2u}) {
    const Variables variables = {{"STAND_IN_NRT_FAULTS", fmt::format("execute@{}#3=1200", victim)}};
    on_ranks(3, variables, [&](uint32_t rank) {
      const SumRun ran = run_sum(started(), rank, 3, sum_neff(3), /*times=*/5);
      EXPECT_EQ(ran.executed, nrt::NRT_EXEC_HW_ERR_COLLECTIVES);  // planted in the victim, which then ends
    });
  }
}

TEST(PlantedFaults, ComeAtTheirCallOfTheirProcess) {
  in_a_process({{"NEURON_RT_VISIBLE_CORES", "3"},
                {"STAND_IN_NRT_FAULTS", "tensor_allocate@3#2=4; tensor_allocate@4=2; load=10"}},
               [] {
                 const Functions f = started();
                 nrt::nrt_tensor_t* t = nullptr;
                 const auto allocate = [&] {
                   return f.tensor_allocate(nrt::NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "t", &t);
                 };
                 EXPECT_EQ(allocate(), nrt::NRT_SUCCESS);
                 EXPECT_EQ(allocate(), nrt::NRT_RESOURCE);
                 EXPECT_EQ(allocate(), nrt::NRT_SUCCESS);
                 EXPECT_EQ(status_of_load(f, step_neff()), nrt::NRT_UNSUPPORTED_NEFF_VERSION);
               });
  in_a_process({{"STAND_IN_NRT_FAULTS", "load=sometimes"}},
               [] { EXPECT_EQ(functions().init(nrt::NRT_FRAMEWORK_TYPE_NO_FW, "", ""), nrt::NRT_INVALID); });
}

}  // namespace
}  // namespace lockstep::stand_in
