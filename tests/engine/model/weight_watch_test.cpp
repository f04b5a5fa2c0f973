// Tests of the watch over weights in memory: a change of any weight is named, wherever in it.
#include "engine/model/weight_watch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::model {
namespace {

using std::chrono::milliseconds;

/// Memory that is changed through other addresses than those at which the watch reads it.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes), file_(memfd_create("weights", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
    read_ = map(PROT_READ);
    written_ = map(PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < bytes; ++i) written_[i] = static_cast<std::byte>(i * 31);
  }
  ~Memory() {
    munmap(read_, bytes_);
    munmap(written_, bytes_);
    close(file_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::span<const std::byte> at(size_t begin, size_t bytes) const { return {read_ + begin, bytes}; }
  void flip(size_t place) { written_[place] ^= std::byte{1}; }

 private:
  std::byte* map(int protection) const {
    return static_cast<std::byte*>(mmap(nullptr, bytes_, protection, MAP_SHARED, file_, 0));
  }

  size_t bytes_;
  int file_;
  std::byte *read_, *written_;
};

constexpr size_t kBlock = size_t{1} << 20;

TEST(WeightWatch, NamesTheWeightThatChangesAtItsFirstAndItsLastByteAndInAnyBlock) {
  constexpr size_t kNorm = 96, kMatrix = 2 * kBlock + 1000;
  Memory memory(kNorm + kMatrix + 1);
  const std::vector<device::ResidentWeight> weights = {
      {"norm", memory.at(0, kNorm)}, {"matrix", memory.at(kNorm, kMatrix)}, {"last", memory.at(kNorm + kMatrix, 1)}};
  for (const auto& [place, name] : std::vector<std::pair<size_t, std::string>>{{0, "norm"},
                                                                               {kNorm - 1, "norm"},
                                                                               {kNorm, "matrix"},
                                                                               {kNorm + kBlock, "matrix"},
                                                                               {kNorm + 2 * kBlock - 1, "matrix"},
                                                                               {kNorm + kMatrix - 1, "matrix"},
                                                                               {kNorm + kMatrix, "last"}}) {
    SCOPED_TRACE(place);
    std::promise<std::string> changed;
    auto found = changed.get_future();
    const WeightWatch watch(weights, milliseconds(5),
                            [&](std::string_view weight) { changed.set_value(std::string(weight)); });
    // A change before the first sum is not one; later each is, for as long as it is there.
    for (int tries = 0; tries < 400 && found.wait_for(milliseconds(50)) != std::future_status::ready; ++tries) {
      memory.flip(place);
    }
    ASSERT_EQ(found.wait_for(milliseconds(0)), std::future_status::ready);
    EXPECT_EQ(found.get(), name);
  }
}

TEST(WeightWatch, EndsAtOnceHoweverLongItsPeriodIs) {
  const Memory memory(kBlock + 7);
  for (const auto& weights : {std::vector<device::ResidentWeight>(), {{"matrix", memory.at(0, kBlock + 7)}}}) {
    const WeightWatch watch(weights, std::chrono::hours(10), [](auto) { FAIL(); });
  }
}

}  // namespace
}  // namespace lockstep::model
