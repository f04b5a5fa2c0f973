// Tests of read-ahead by the contents of the page cache afterwards.
#include "runtime/checkpoint/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kData = int64_t{9} << 20;
constexpr int64_t kBlock = int64_t{1} << 20;  // at most: how finely the files are divided
constexpr Bytes kPlenty(int64_t{1} << 30);

/// By system calls of this process.
int64_t bytes_read_so_far() {
  std::ifstream file("/proc/self/io");
  std::string key;
  int64_t bytes = 0;
  while (file >> key >> bytes && key != "rchar:") {
  }
  return bytes;
}

/// A model directory whose weights are on the disk only, where the file system can do that.
class StoredModel {
 public:
  StoredModel() {
    directory_.write("config.json", "{}");
    directory_.write_safetensors("model.safetensors",
                                 R"({"w":{"dtype":"U8","shape":[)" + std::to_string(kData) + R"(],"data_offsets":[0,)" +
                                     std::to_string(kData) + "]}}",
                                 std::string(static_cast<size_t>(kData), 'w'));
    descriptor_ = ::open((path() / "model.safetensors").c_str(), O_RDONLY | O_CLOEXEC);
    ::fdatasync(descriptor_);
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  }
  ~StoredModel() { ::close(descriptor_); }
  StoredModel(const StoredModel&) = delete;
  StoredModel& operator=(const StoredModel&) = delete;

  const std::filesystem::path& path() const { return directory_.path(); }

  /// Of the pages of the file, 0 to 1.
  double part_in_memory() const {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const auto bytes = static_cast<size_t>(std::filesystem::file_size(path() / "model.safetensors"));
    void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
    std::vector<unsigned char> there((bytes + page - 1) / page);
    EXPECT_EQ(::mincore(map, bytes, there.data()), 0);
    ::munmap(map, bytes);
    double present = 0;
    for (const unsigned char flags : there) present += flags & 1;
    return present / static_cast<double>(there.size());
  }

 private:
  TemporaryDirectory directory_;
  int descriptor_ = -1;
};

TEST(ReadAhead, BringsAllOfTheFilesIntoMemory) {
  const StoredModel model;
  if (model.part_in_memory() > 0.1) GTEST_SKIP() << "this file system keeps its files in memory";
  ReadAhead ahead(model.path(), {}, kPlenty);
  ahead.finish();
  EXPECT_TRUE(ahead.is_reading());
  EXPECT_EQ(model.part_in_memory(), 1.0);
}

TEST(ReadAhead, DividesTheFilesBetweenTheProcessesOfAHost) {
  for (const int index : {0, 1, 2}) {
    const StoredModel model;
    if (model.part_in_memory() > 0.1) GTEST_SKIP() << "this file system keeps its files in memory";
    const int64_t before = bytes_read_so_far();
    ReadAhead(model.path(), {.index = index, .of = 3}, kPlenty).finish();
    const int64_t read = bytes_read_so_far() - before;
    EXPECT_GE(read, kData / 3 - kBlock) << index;
    EXPECT_LE(read, kData / 3 + kBlock) << index;
  }
}

TEST(ReadAhead, LeavesFilesThatAreInMemoryOrTooLargeForItOrNotThere) {
  const StoredModel model;
  ReadAhead too_large(model.path(), {}, Bytes(kData));
  too_large.finish();
  EXPECT_FALSE(too_large.is_reading());
  ReadAhead(model.path(), {}, kPlenty).finish();
  ReadAhead again(model.path(), {}, kPlenty);
  again.finish();
  EXPECT_FALSE(again.is_reading());
  ReadAhead nowhere(model.path() / "no such folder", {}, kPlenty);
  nowhere.finish();
  EXPECT_FALSE(nowhere.is_reading());
}

TEST(ReadAhead, EndsWhenNobodyWantsItAnyMore) {
  const StoredModel model;
  const ReadAhead ahead(model.path(), {}, kPlenty);
}

}  // namespace
}  // namespace lockstep::checkpoint
