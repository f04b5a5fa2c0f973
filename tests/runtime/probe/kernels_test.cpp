#include "runtime/probe/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <set>

namespace lockstep::probe {
namespace {

using ::testing::SizeIs;

/// 64-bit words at an address that every kernel can load from.
class Words {
 public:
  explicit Words(size_t count) : storage_(count * 8 + 64) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    first_ = storage_.data() + (64 - address % 64) % 64;
    for (size_t i = 0; i < count; ++i) set(i, (i + 1) * 0x9e3779b97f4a7c15ull);
  }
  void set(size_t i, uint64_t word) { std::memcpy(first_ + i * 8, &word, 8); }
  uint64_t get(size_t i) const {
    uint64_t word = 0;
    std::memcpy(&word, first_ + i * 8, 8);
    return word;
  }
  const std::byte* data() const { return first_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* first_;
};

constexpr size_t kCount = 3 * kReadGranule / 8;

std::vector<ReadKernel> all_read_kernels() {
  std::vector<ReadKernel> kernels = read_kernels();
  for (const ReadKernel& kernel : portable_read_kernels()) kernels.push_back(kernel);
  return kernels;
}

std::vector<DotKernel> all_dot_kernels() {
  std::vector<DotKernel> kernels = dot_kernels(Precision::kFloat32);
  for (const Precision precision : {Precision::kBFloat16, Precision::kInt8}) {
    for (const DotKernel& kernel : dot_kernels(precision)) kernels.push_back(kernel);
  }
  for (const DotKernel& kernel : portable_dot_kernels()) kernels.push_back(kernel);
  return kernels;
}

TEST(ReadKernels, GiveTheExclusiveOrOfAllWords) {
  const Words words(kCount);
  uint64_t expected = 0;
  for (size_t i = 0; i < kCount; ++i) expected ^= words.get(i);
  for (const ReadKernel& kernel : all_read_kernels()) {
    EXPECT_EQ(kernel.run(words.data(), kCount * 8), expected) << kernel.name;
  }
}

TEST(ReadKernels, ReadEveryCacheLine) {
  Words words(kCount);
  for (size_t i = 0; i < kCount; ++i) words.set(i, 0);
  const auto kernels = all_read_kernels();
  for (size_t line = 0; line < kCount; line += 8) {
    words.set(line + line / 8 % 8, 1);  // one word of the line, a different one each time
    if (line % (5 * 8) != 0) continue;  // a fifth of the lines is also tried alone
    for (const ReadKernel& kernel : kernels) {
      ASSERT_EQ(kernel.run(words.data(), kCount * 8), (line / 8 + 1) % 2) << kernel.name << ", line " << line / 8;
    }
  }
}

TEST(ReadKernels, AreAtLeastFourWithDifferentNames) {
  for (const auto& kernels :
       {read_kernels(), std::vector<ReadKernel>(portable_read_kernels().begin(), portable_read_kernels().end())}) {
    std::set<std::string_view> names;
    for (const ReadKernel& kernel : kernels) names.insert(kernel.name);
    EXPECT_GE(names.size(), 4u);
    EXPECT_THAT(names, SizeIs(kernels.size()));
  }
}

TEST(DotKernels, CountEveryMultiplyAdd) {
  constexpr int64_t kRounds = 1000;
  for (const DotKernel& kernel : all_dot_kernels()) {
    const double multiply_adds = static_cast<double>(kernel.flops_per_round) / 2 * kRounds;
    EXPECT_EQ(kernel.run(kRounds, 1.0f, 0.5f), multiply_adds * 0.5) << kernel.name;
    EXPECT_EQ(kernel.run(kRounds, -2.0f, 0.25f), multiply_adds * -0.5) << kernel.name;
    EXPECT_EQ(kernel.run(0, 1.0f, 1.0f), 0.0) << kernel.name;
  }
}

TEST(Kernels, UseNoOtherInstructionsThanAllowed) {
  const auto has = [](const auto& kernels, std::string_view word) {
    return std::ranges::any_of(kernels,
                               [&](const auto& kernel) { return kernel.name.find(word) != std::string::npos; });
  };
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    EXPECT_FALSE(has(dot_kernels(precision, Instructions::kAvx2), "512"));
    EXPECT_FALSE(has(dot_kernels(precision, Instructions::kAvx512Bf16), "tile"));
  }
  EXPECT_TRUE(dot_kernels(Precision::kBFloat16, Instructions::kAvx512).empty());
  EXPECT_FALSE(has(read_kernels(Instructions::kAvx2), "512"));
  EXPECT_EQ(read_kernels(Instructions::kPortable).size(), portable_read_kernels().size());
  EXPECT_EQ(dot_kernels(Precision::kFloat32, Instructions::kPortable).size(), portable_dot_kernels().size());
  EXPECT_GE(read_kernels(Instructions::kAvx2).size(), 4u);
}

TEST(DotKernels, HaveThePrecisionThatWasAskedFor) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    for (const DotKernel& kernel : dot_kernels(precision)) EXPECT_EQ(kernel.precision, precision) << kernel.name;
  }
  EXPECT_FALSE(dot_kernels(Precision::kFloat32).empty());
}

}  // namespace
}  // namespace lockstep::probe
