#include "runtime/journal/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::journal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

/// Records of 8, 24 and 16 bytes, with magic bytes in front.
struct ThreeRecords {
  Bytes bytes{magic().begin(), magic().end()};
  std::vector<int64_t> offsets;

  ThreeRecords() {
    for (const size_t words : {1, 3, 2}) {
      offsets.push_back(std::ssize(bytes));
      Bytes payload(8 * words);
      for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(17 * words + i);
      const Bytes framed = frame(offsets.back(), payload);
      bytes.insert(bytes.end(), framed.begin(), framed.end());
    }
  }
};

Medium medium_of(const Bytes& bytes) {
  return {.size = std::ssize(bytes), .read = [&bytes](int64_t offset, std::span<std::byte> to) -> Result<void> {
            std::copy_n(bytes.begin() + offset, to.size(), to.begin());
            return ok();
          }};
}

struct Walk {
  Result<Frames> frames;
  std::vector<int64_t> offsets;
};

Walk walk(const Bytes& bytes) {
  std::vector<int64_t> offsets;
  auto frames = walk_records(medium_of(bytes), [&](int64_t offset, auto) -> Result<void> {
    offsets.push_back(offset);
    return ok();
  });
  return {std::move(frames), std::move(offsets)};
}

TEST(Frames, GiveBackEveryRecord) {
  const ThreeRecords three;
  const Walk walked = walk(three.bytes);
  ASSERT_TRUE(walked.frames.has_value());
  EXPECT_EQ(walked.offsets, three.offsets);
  EXPECT_EQ(walked.frames.value().end, std::ssize(three.bytes));
  EXPECT_EQ(walked.frames.value().dropped, 0);
}

TEST(Frames, DropALastRecordThatIsTornAtAnyByte) {
  const ThreeRecords three;
  for (int64_t size = three.offsets[2] + 1; size < std::ssize(three.bytes); ++size) {
    const Walk walked = walk(Bytes(three.bytes.begin(), three.bytes.begin() + size));
    ASSERT_TRUE(walked.frames.has_value()) << size;
    EXPECT_THAT(walked.offsets, ElementsAre(three.offsets[0], three.offsets[1])) << size;
    EXPECT_EQ(walked.frames.value().end, three.offsets[2]) << size;
    EXPECT_EQ(walked.frames.value().dropped, size - three.offsets[2]) << size;
  }
}

TEST(Frames, DropALastRecordWhoseBytesDidNotAllReachTheDisk) {
  const ThreeRecords three;
  for (int64_t zeros = three.offsets[2]; zeros < std::ssize(three.bytes); ++zeros) {
    Bytes bytes = three.bytes;
    std::fill(bytes.begin() + zeros, bytes.end(), std::byte{0});
    bytes.resize(bytes.size() + 64);  // a file system may have made room already
    const Walk walked = walk(bytes);
    ASSERT_TRUE(walked.frames.has_value()) << zeros;
    EXPECT_EQ(walked.frames.value().end, three.offsets[2]) << zeros;
  }
}

TEST(Frames, NoticeEveryFlippedBitBeforeTheLastRecord) {
  const ThreeRecords three;
  for (int64_t at = kMagicBytes; at < three.offsets[2]; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bytes = three.bytes;
      bytes[static_cast<size_t>(at)] ^= static_cast<std::byte>(1 << bit);
      const Walk walked = walk(bytes);
      ASSERT_FALSE(walked.frames.has_value()) << at << " bit " << bit;
      const int64_t hit = at < three.offsets[1] ? three.offsets[0] : three.offsets[1];
      EXPECT_EQ(walked.frames.error().kind, ErrorKind::kInvalidArgument);
      EXPECT_THAT(walked.frames.error().message, HasSubstr("at byte " + std::to_string(hit) + ":")) << at;
    }
  }
}

TEST(Frames, NoticeARecordThatIsMissingOrInAnotherPlace) {
  const ThreeRecords three;
  Bytes missing = three.bytes;
  missing.erase(missing.begin() + three.offsets[0], missing.begin() + three.offsets[1]);
  // The remaining bytes are not at their original positions, so none of them is valid.
  EXPECT_TRUE(walk(missing).offsets.empty());
  Bytes twice = three.bytes;
  twice.insert(twice.begin() + three.offsets[1], three.bytes.begin() + three.offsets[0],
               three.bytes.begin() + three.offsets[1]);
  EXPECT_THAT(walk(twice).offsets, ElementsAre(three.offsets[0]));
}

TEST(Frames, FindAWholeRecordBeyondTheFirstBlockThatIsSearched) {
  Bytes bytes(magic().begin(), magic().end());
  const auto add = [&](size_t size) {
    const Bytes framed = frame(std::ssize(bytes), Bytes(size, std::byte{5}));
    bytes.insert(bytes.end(), framed.begin(), framed.end());
  };
  add(200000);
  add(8);
  bytes[100] ^= std::byte{1};
  EXPECT_FALSE(walk(bytes).frames.has_value());
}

}  // namespace
}  // namespace lockstep::journal
