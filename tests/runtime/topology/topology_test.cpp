#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "runtime/topology/discovery.h"

namespace lockstep::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Machine synthetic(const std::string& description) { return machine_from_synthetic(description).value(); }

Machine from_file(const std::string& name) {
  return machine_from_xml(std::filesystem::path(LOCKSTEP_MACHINES) / name).value();
}

std::vector<int> numbers(int first, int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// The cores of each NUMA node.
std::vector<std::vector<int>> cores_by_node(const Machine& machine) {
  std::vector<std::vector<int>> all;
  for (const NumaNode& node : machine.nodes) {
    std::vector<int>& own = all.emplace_back();
    for (const Core& core : node.cores) own.push_back(core.number());
  }
  return all;
}

TEST(Topology, ReadsThisMachine) {
  const Machine machine = read_machine(Devices::kNone).value();
  EXPECT_GE(machine.cores(), 1);
  EXPECT_GE(machine.packages(), 1);
  EXPECT_GT(machine.memory(), Bytes(0));
  EXPECT_THAT(machine.devices, IsEmpty());
  EXPECT_TRUE(read_machine(Devices::kPci).has_value());
}

TEST(Topology, GivesEachNumaNodeTheCoresBesideIt) {
  const Machine sockets = synthetic("package:2 numa:1(memory=1073741824) core:4 pu:1");
  EXPECT_EQ(sockets.packages(), 2);
  EXPECT_THAT(cores_by_node(sockets), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_EQ(sockets.memory(), Bytes(int64_t{2} << 30));
  const Machine clusters = synthetic("package:2 group:2 numa:1 core:2 pu:1");  // sub-NUMA clustering
  EXPECT_EQ(clusters.packages(), 2);
  EXPECT_THAT(cores_by_node(clusters),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_EQ(clusters.nodes[2].package, 1);
  EXPECT_THAT(cores_by_node(synthetic("package:2 core:2 pu:1")), ElementsAre(ElementsAre(0, 1, 2, 3)));
}

TEST(Topology, KeepsNeighboursTogetherWhereTheNumbersOfCoresAlternateBetweenPackages) {
  const Machine machine = synthetic("package:2 numa:1 core:2 pu:1(indexes=0,2,1,3)");
  EXPECT_THAT(cores_by_node(machine), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(machine.cores_of(numbers(0, 4)),
              ElementsAre(CoreThread{0, 0}, CoreThread{2, 2}, CoreThread{1, 1}, CoreThread{3, 3}));
}

TEST(Topology, NamesACoreByItsLowestHardwareThread) {
  const Machine machine = synthetic("package:1 core:2 pu:2(indexes=0,2,1,3)");  // 0 and 2 are siblings
  EXPECT_THAT(machine.cores_of(numbers(0, 4)), ElementsAre(CoreThread{0, 0}, CoreThread{1, 1}));
  EXPECT_THAT(machine.cores_of(std::vector<int>{2}), ElementsAre(CoreThread{0, 2}));
  EXPECT_EQ(to_string(machine), "1 package, 1 NUMA node, 2 cores of 2 hardware threads");
}

TEST(Topology, CountsHardwareThreadsOfAnUnknownMachineAsCores) {
  EXPECT_THAT(Machine().cores_of(std::vector<int>{7, 3}), ElementsAre(CoreThread{3, 3}, CoreThread{7, 7}));
  EXPECT_EQ(to_string(Machine()), "an unknown machine");
}

TEST(Topology, DividesHardwareThreadsByWholeCoresThatAreNeighbours) {
  const Machine machine = synthetic("package:2 numa:1 core:2 pu:2(indexes=0,4,2,6,1,5,3,7)");  // 0 4 │ 2 6 ‖ 1 5 │ 3 7
  EXPECT_THAT(machine.divide(numbers(0, 8), 2), ElementsAre(ElementsAre(0, 4, 2, 6), ElementsAre(1, 5, 3, 7)));
  EXPECT_THAT(machine.divide(numbers(0, 8), 3),
              ElementsAre(ElementsAre(0, 4), ElementsAre(2, 6), ElementsAre(1, 5, 3, 7)));
  EXPECT_THAT(machine.divide(std::vector<int>{0, 1, 5}, 2), ElementsAre(ElementsAre(0), ElementsAre(1, 5)));
  EXPECT_THAT(machine.divide(std::vector<int>{2, 3}, 3), ElementsAre(ElementsAre(2), ElementsAre(2), ElementsAre(3)));
  EXPECT_THAT(Machine().divide(std::vector<int>{8, 9}, 2), ElementsAre(ElementsAre(8), ElementsAre(9)));
  EXPECT_THAT(machine.divide(std::vector<int>(), 2), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(Topology, KnowsTheCoresNearEachDevice) {
  const Machine machine = from_file("eight_gpus.xml");
  EXPECT_EQ(machine.processor, "A Processor");
  EXPECT_THAT(machine.devices, SizeIs(8));
  ASSERT_NE(machine.find_device("0000:01:00.0"), nullptr);
  EXPECT_EQ(machine.find_device("0000:01:00.0")->cores, numbers(0, 8));
  EXPECT_EQ(machine.find_device("0000:08:00.0")->cores, numbers(8, 8));
  EXPECT_EQ(machine.find_device("0000:09:00.0"), nullptr);
  EXPECT_EQ(where(machine, machine.find_device("0000:05:00.0")->cores), "NUMA node 1");
  EXPECT_EQ(where(machine, numbers(7, 2)), "NUMA nodes 0, 1");
  EXPECT_EQ(where(machine, {}), "this machine");
}

TEST(Topology, RefusesWhatIsNoMachineAndSaysHowToWriteOne) {
  const Error text = machine_from_synthetic("a machine").error();
  EXPECT_EQ(text.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(text.message, HasSubstr("cannot read the machine 'a machine'"));
  const Error file = machine_from_xml("nothing.xml").error();
  EXPECT_THAT(file.message, HasSubstr("nothing.xml"));
  EXPECT_THAT(file.message, HasSubstr("lstopo FILE.xml"));
}

}  // namespace
}  // namespace lockstep::topology
