#include "tests/neuron_stand_in/neff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::stand_in {
namespace {

using ::testing::HasSubstr;

constexpr size_t kDataSizeField = 16, kMajorVersionField = 24, kFeatureField = 544;  // bytes before it

Neff example() {
  return {.name = "decode",
          .target = "trn2",
          .flags = {"--lnc=2", "-O1"},
          .logical_cores = 2,
          .module = std::vector<std::byte>(700, std::byte{7})};
}

void expect_refusal(std::span<const std::byte> bytes, ErrorKind kind, const std::string& words) {
  const auto read = read_neff(bytes);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().kind, kind) << read.error().message;
  EXPECT_THAT(read.error().message, HasSubstr(words));
}

TEST(Neff, IsReadAsItWasWritten) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{512}, size_t{700}}) {
    Neff neff = example();
    neff.module.resize(size);
    const auto bytes = write_neff(neff);
    const auto read = read_neff(bytes);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read.value(), neff);
    EXPECT_EQ(bytes, write_neff(neff));
  }
}

TEST(Neff, SaysInItsHeaderAndInItsDescriptionThatAStandInMadeIt) {
  const auto bytes = write_neff(example());
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const std::string_view all(text, bytes.size());
  EXPECT_EQ(all.find(kNeffMark), 40u);  // the build version's place
  EXPECT_NE(all.find(kNeffMark, kNeffHeaderBytes), std::string_view::npos);
}

TEST(Neff, OfAnotherFormatOrCompilerIsUnsupported) {
  auto bytes = write_neff(example());
  bytes[kFeatureField + 7] = std::byte{0};
  expect_refusal(bytes, ErrorKind::kUnsupported, "feature bits 0x0, expected 0x8000000000000000");
  bytes = write_neff(example());
  bytes[kMajorVersionField] = std::byte{3};
  expect_refusal(bytes, ErrorKind::kUnsupported, "found NEFF version 3.0, expected 2.0");
  expect_refusal(std::vector<std::byte>(4096, std::byte{'x'}), ErrorKind::kUnsupported, "package version");
}

TEST(Neff, CutOffOrDamagedIsInvalid) {
  const auto bytes = write_neff(example());
  for (const size_t size : {size_t{0}, kNeffHeaderBytes - 1, kNeffHeaderBytes, kNeffHeaderBytes + 600}) {
    expect_refusal(std::span(bytes).first(size), ErrorKind::kInvalidArgument, "found");
  }
  auto damaged = bytes;
  damaged[kNeffHeaderBytes + 600] ^= std::byte{1};
  expect_refusal(damaged, ErrorKind::kInvalidArgument, "does not fit the header's hash");
  damaged = bytes;
  damaged[kDataSizeField] ^= std::byte{1};
  expect_refusal(damaged, ErrorKind::kInvalidArgument, "bytes of data, expected");
}

}  // namespace
}  // namespace lockstep::stand_in
