#include "runtime/backends/cpu/weight_loading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <stdexcept>

namespace lockstep::cpu {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// A weight in memory that counts the reads of each row.
class Source final : public device::WeightReader {
 public:
  explicit Source(const TensorType& type) : rows(type.shape.rank() == 0 ? 1 : type.shape[0]) {
    value.kind = graph::ValueKind::kWeight;
    value.name = "w";
    value.type = type;
    bytes.resize(static_cast<size_t>(type.bytes()));
    std::mt19937 random(static_cast<unsigned>(rows));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    asked.resize(static_cast<size_t>(rows));
  }

  Result<void> read(const graph::Value&, Range range, std::span<std::byte> dst) const override {
    if (range.contains(bad_row)) return Error{ErrorKind::kInvalidArgument, "row 5 is damaged"};
    if (range.contains(buggy_row)) throw std::logic_error("a bug");
    const size_t row = bytes.size() / static_cast<size_t>(rows);
    EXPECT_EQ(dst.size(), static_cast<size_t>(range.size()) * row);
    std::memcpy(dst.data(), bytes.data() + static_cast<size_t>(range.begin) * row, dst.size());
    std::lock_guard lock(mutex);
    for (int64_t i = range.begin; i < range.end; ++i) ++asked[static_cast<size_t>(i)];
    most_rows = std::max(most_rows, range.size());
    return ok();
  }
  /// Bytes of the weight as codes, the row as every scale.
  Result<void> read_codes(const graph::Value&, const ColumnGroups& groups, Range range, CodedRows dst) const override {
    EXPECT_EQ(dst.codes.size(), static_cast<size_t>(range.size() * groups.columns));
    EXPECT_EQ(dst.scales.size(), static_cast<size_t>(range.size() * groups.count()));
    for (size_t i = 0; i < dst.codes.size(); ++i) {
      dst.codes[i] = static_cast<uint8_t>(bytes[static_cast<size_t>(range.begin * groups.columns) + i]);
    }
    std::lock_guard lock(mutex);
    for (int64_t row = range.begin; row < range.end; ++row) {
      ++asked[static_cast<size_t>(row)];
      for (int64_t group = 0; group < groups.count(); ++group) {
        dst.scales[static_cast<size_t>((row - range.begin) * groups.count() + group)] = static_cast<float>(row);
      }
    }
    return ok();
  }
  int64_t rows_at_once(const graph::Value&) const override { return at_once; }
  int64_t place_of(const graph::Value&) const override { return 0; }
  void expect(const graph::Value&, Range range) const override {
    std::lock_guard lock(mutex);
    expected += range.size();
  }

  graph::Value value;
  int64_t rows;
  std::vector<std::byte> bytes;
  int64_t at_once = 1, bad_row = -1, buggy_row = -1;
  mutable std::mutex mutex;
  mutable std::vector<int> asked;
  mutable int64_t most_rows = 0, expected = 0;
};

/// Memory for one weight in some packings and, on request, as rows.
struct Loaded {
  Loaded(const Source& source, const std::vector<Packing>& packings, bool with_rows) : place{.value = &source.value} {
    panels.reserve(packings.size());
    for (const Packing& packing : packings) {
      panels.emplace_back(static_cast<size_t>(packing.bytes()), std::byte{0xee});
      place.panels.push_back(panel_form(packing, panels.back().data()));
    }
    if (with_rows) rows.resize(source.bytes.size());
    if (with_rows) place.rows = rows.data();
  }
  std::vector<std::vector<std::byte>> panels;
  std::vector<std::byte> rows;
  WeightPlace place;
};

std::unique_ptr<ThreadTeam> team_of(int threads) { return ThreadTeam::start(threads, {}).value(); }

std::vector<std::byte> packed_alone(const Packing& packing, const Source& source) {
  std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()));
  pack(packing, source.bytes.data(), packed.data());
  return packed;
}

TEST(WeightLoading, PacksWithEveryNumberOfWorkersAsOneAlone) {
  for (const int threads : {1, 2, 3, 5}) {
    const auto team = team_of(threads);
    for (const int64_t n : {1, 15, 64, 65, 300, 1000}) {
      for (const int64_t k : {1, 7, 32, 513}) {
        const Source source({DType::kBFloat16, {n, k}});
        const Packing pairs = Packing::for_leaves(n, k, 5, DType::kBFloat16, true);
        const Packing plain = Packing::for_leaves(n, k, k, DType::kBFloat16, false);
        Loaded loaded(source, {pairs, plain}, /*with_rows=*/true);
        ASSERT_TRUE(load_weights({&loaded.place, 1}, source, *team).has_value());
        EXPECT_EQ(loaded.panels[0], packed_alone(pairs, source)) << n << " x " << k << ", " << threads;
        EXPECT_EQ(loaded.panels[1], packed_alone(plain, source)) << n << " x " << k << ", " << threads;
        EXPECT_EQ(loaded.rows, source.bytes);
        EXPECT_THAT(source.asked, Each(1));
        EXPECT_EQ(source.expected, n);
      }
    }
  }
}

TEST(WeightLoading, PacksCodesWithEveryNumberOfWorkers) {
  for (const int threads : {1, 3}) {
    const auto team = team_of(threads);
    for (const int64_t n : {1, 65, 1000}) {
      Source source({DType::kBFloat16, {2 * n, 513}});
      source.value.format = WeightFormat{.bits = 8, .group = 128};
      const CodedPacking packing{.n = n,
                                 .groups = {.columns = 513, .leaf = 513, .width = 128},
                                 .format = *source.value.format,
                                 .dots = DotKind::kBytes,
                                 .parts = 2};
      std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()), std::byte{0xee});
      WeightPlace place{.value = &source.value};
      place.coded.push_back(coded_form(packing, packed.data()));
      ASSERT_TRUE(load_weights({&place, 1}, source, *team).has_value());
      EXPECT_THAT(source.asked, Each(1));
      std::vector<float> row(513);
      for (int64_t i = 0; i < 2 * n; ++i) {
        decode_coded_row(packing, packed.data(), i, row.data());
        for (size_t k = 0; k < row.size(); k += 100) {
          const auto code = static_cast<uint8_t>(source.bytes[static_cast<size_t>(i) * 513 + k]);
          ASSERT_EQ(row[k], static_cast<float>(i) * (static_cast<float>(code) - 128.0f)) << i << ", " << k;
        }
      }
    }
  }
}

TEST(WeightLoading, PacksStackedExpertsOfWhichNoneEndsWithAPanel) {
  const auto team = team_of(3);
  const Source source({DType::kFloat32, {5 * 70, 33}});
  Packing packing = Packing::for_leaves(70, 33, 33, DType::kFloat32, false);
  packing.parts = 5;
  Loaded loaded(source, {packing}, /*with_rows=*/false);
  ASSERT_TRUE(load_weights({&loaded.place, 1}, source, *team).has_value());
  EXPECT_EQ(loaded.panels[0], packed_alone(packing, source));
  EXPECT_THAT(source.asked, Each(1));
}

TEST(WeightLoading, CutsNothingWhereTwoPackingsDisagreeAboutTheRows) {
  const auto team = team_of(2);
  const Source source({DType::kFloat32, {300, 8}});
  Packing stacked = Packing::for_leaves(100, 8, 8, DType::kFloat32, false);
  stacked.parts = 3;
  const Packing whole = Packing::for_leaves(300, 8, 8, DType::kFloat32, false);
  Loaded loaded(source, {stacked, whole}, /*with_rows=*/false);
  ASSERT_TRUE(load_weights({&loaded.place, 1}, source, *team).has_value());
  EXPECT_EQ(loaded.panels[0], packed_alone(stacked, source));
  EXPECT_EQ(loaded.panels[1], packed_alone(whole, source));
}

TEST(WeightLoading, ReadsWhatIsNotPackedStraightIntoItsPlace) {
  const auto team = team_of(3);
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{100'000}, Shape{1000, 999}, Shape{0, 5}}) {
    const Source source({DType::kBFloat16, shape});
    Loaded loaded(source, {}, /*with_rows=*/true);
    ASSERT_TRUE(load_weights({&loaded.place, 1}, source, *team).has_value()) << to_string(shape);
    EXPECT_EQ(loaded.rows, source.bytes);
    EXPECT_THAT(source.asked, Each(1));
  }
}

TEST(WeightLoading, ReadsAFewRowsAtATimeUnlessMoreBelongTogether) {
  const auto team = team_of(1);
  const TensorType type{DType::kBFloat16, {4096, 2048}};
  const Packing packing = Packing::for_leaves(4096, 2048, 2048, DType::kBFloat16, true);
  Source rows_together(type), transposed(type);
  transposed.at_once = 1000;
  for (Source* source : {&rows_together, &transposed}) {
    Loaded loaded(*source, {packing}, /*with_rows=*/false);
    ASSERT_TRUE(load_weights({&loaded.place, 1}, *source, *team).has_value());
    EXPECT_THAT(source->asked, Each(1));
  }
  EXPECT_LE(rows_together.most_rows * 4096, 1 << 20);  // fits a cache
  EXPECT_GE(transposed.most_rows, 960);                // whole panels of the thousand
}

TEST(WeightLoading, FailsWithTheErrorOfTheReaderOnAnyWorker) {
  for (const int threads : {1, 3}) {
    const auto team = team_of(threads);
    for (const int64_t row : {0, 500, 999}) {
      Source source({DType::kFloat32, {1000, 300}});
      source.bad_row = row;
      Loaded loaded(source, {Packing::for_leaves(1000, 300, 300, DType::kFloat32, false)}, /*with_rows=*/false);
      const auto result = load_weights({&loaded.place, 1}, source, *team);
      ASSERT_FALSE(result.has_value());
      EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
      EXPECT_THAT(result.error().message, HasSubstr("row 5 is damaged"));
    }
  }
}

TEST(WeightLoading, TurnsABugOfAWorkerIntoAnError) {
  const auto team = team_of(2);
  Source source({DType::kFloat32, {1000, 300}});
  source.buggy_row = 999;
  Loaded loaded(source, {Packing::for_leaves(1000, 300, 300, DType::kFloat32, false)}, /*with_rows=*/false);
  const auto result = load_weights({&loaded.place, 1}, source, *team);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::kInternal);
  EXPECT_THAT(result.error().message, HasSubstr("a bug"));
}

}  // namespace
}  // namespace lockstep::cpu
