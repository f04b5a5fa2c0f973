#include "launcher/serve/replicas/start_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/process/exit_record.h"
#include "tests/temporary_directory.h"

namespace lockstep::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
namespace fs = std::filesystem;

class StartRecordsTest : public ::testing::Test {
 protected:
  static void record(const fs::path& folder, int rank, int code) {
    ASSERT_TRUE(launcher::write_exit_record(folder, {.code = code, .rank = rank}).has_value());
  }
  /// Ranks and codes in the replica's folder.
  std::vector<std::pair<int, int>> published() const {
    std::vector<std::pair<int, int>> found;
    for (const auto& one : launcher::read_exit_records(folder_.path())) found.emplace_back(one.rank, one.code);
    return found;
  }

  TemporaryDirectory folder_;
};

TEST_F(StartRecordsTest, OfGroupsThatRunAtOnceAreKeptApart) {
  ReplicaRecords replica(folder_.path());
  const auto old = replica.next();
  auto next = replica.next();
  EXPECT_NE(old->folder(), next->folder());
  EXPECT_TRUE(fs::is_directory(old->folder()) && fs::is_directory(next->folder()));
  record(next->folder(), 2, 7);  // it fails beside the old ranks
  const fs::path failed = next->folder();
  next.reset();
  EXPECT_FALSE(fs::exists(failed));
  EXPECT_THAT(published(), IsEmpty());
  record(old->folder(), 0, 5);
  EXPECT_EQ(launcher::read_exit_records(old->folder()).size(), 1u);  // by which its end is judged
  EXPECT_NE(replica.next()->folder(), failed);
}

TEST_F(StartRecordsTest, OfTheLastGroupThatEndedAreInTheReplicasFolder) {
  record(folder_.path(), 3, 0);  // of an earlier server
  ReplicaRecords replica(folder_.path());
  EXPECT_THAT(published(), IsEmpty());
  for (const int code : {5, 0}) {
    const auto start = replica.next();
    record(start->folder(), code == 5 ? 1 : 0, code);
    start->publish();
    start->publish();  // changes nothing
    EXPECT_THAT(published(), ElementsAre(Pair(code == 5 ? 1 : 0, code)));
  }
  EXPECT_THAT(published(), ElementsAre(Pair(0, 0)));
}

TEST_F(StartRecordsTest, TakeNoFolderThatIsThere) {
  fs::create_directory(folder_.path() / "start-1");
  folder_.write("start-1/notes", "of another");
  {
    const auto start = ReplicaRecords(folder_.path()).next();
    EXPECT_EQ(start->folder(), folder_.path() / "start-2");
  }
  EXPECT_TRUE(fs::exists(folder_.path() / "start-1" / "notes"));
  EXPECT_FALSE(fs::exists(folder_.path() / "start-2"));
}

TEST_F(StartRecordsTest, AreNoneWithoutAFolder) { EXPECT_EQ(ReplicaRecords({}).next(), nullptr); }

}  // namespace
}  // namespace lockstep::serve
