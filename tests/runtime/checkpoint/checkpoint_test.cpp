#include "runtime/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/model/hashed_weights.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using model::HashedModelLayout;
using model::HashedTensor;
using ::testing::HasSubstr;

const HashedTensor kMatrix{"matrix.weight", {64, 96}};
const HashedTensor kVector{"vector.weight", {40}};
const HashedTensor kTall{"tall.weight", {700, 500}};  // more than one conversion buffer in f32
const std::vector<HashedTensor> kTensors = {kMatrix, kVector, kTall};

void write_model(const TemporaryDirectory& directory, HashedModelLayout layout) {
  model::write_hashed_weights(directory.path(), kTensors, {}, layout);
}

/// The expected slice of a hashed tensor: stored as `stored`, read as `wanted`.
std::vector<std::byte> expected_slice(const HashedTensor& tensor, const std::vector<Range>& ranges, DType stored,
                                      DType wanted) {
  const std::vector<float> all = model::hashed_tensor({}, tensor);
  const int64_t columns = tensor.shape.rank() == 2 ? tensor.shape[1] : 1;
  const Range across = ranges.size() == 2 ? ranges[1] : Range{0, 1};
  std::vector<std::byte> slice;
  for (int64_t row = ranges[0].begin; row < ranges[0].end; ++row) {
    for (int64_t column = across.begin; column < across.end; ++column) {
      const float* value = &all[static_cast<size_t>(row * columns + column)];
      std::byte kept[4], read[4];
      convert_elements(reinterpret_cast<const std::byte*>(value), DType::kFloat32, kept, stored, 1);
      convert_elements(kept, stored, read, wanted, 1);
      slice.insert(slice.end(), read, read + size_of(wanted));
    }
  }
  return slice;
}

std::vector<std::byte> read_slice(const Checkpoint& checkpoint, const HashedTensor& tensor,
                                  const std::vector<Range>& ranges, DType dtype) {
  int64_t elements = 1;
  for (const Range& range : ranges) elements *= range.size();
  std::vector<std::byte> slice(static_cast<size_t>(elements) * size_of(dtype));
  const auto read = checkpoint.read(tensor.name, tensor.shape, ranges, dtype, slice);
  EXPECT_TRUE(read.has_value()) << read.error().message;
  return slice;
}

TEST(Checkpoint, ReadsEverySliceInEveryTypeFromOneFileAndFromShards) {
  for (const DType stored : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int files : {1, 2}) {
      const TemporaryDirectory directory;
      write_model(directory, {stored, files});
      const auto checkpoint = open_checkpoint(directory.path()).value();
      for (const DType wanted : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        const std::pair<HashedTensor, std::vector<Range>> slices[] = {
            {kMatrix, {{0, 64}, {0, 96}}}, {kMatrix, {{5, 37}, {0, 96}}}, {kMatrix, {{0, 64}, {48, 96}}},
            {kMatrix, {{63, 64}, {1, 2}}}, {kMatrix, {{7, 7}, {0, 96}}},  {kVector, {{0, 40}}},
            {kVector, {{13, 14}}},         {kTall, {{0, 700}, {0, 500}}}, {kTall, {{1, 699}, {3, 253}}}};
        for (const auto& [tensor, ranges] : slices) {
          EXPECT_EQ(read_slice(*checkpoint, tensor, ranges, wanted), expected_slice(tensor, ranges, stored, wanted))
              << tensor.name << " " << to_string(ranges[0]) << " of " << files << " files";
        }
      }
    }
  }
}

TEST(Checkpoint, KnowsWhichTensorsAreThere) {
  const TemporaryDirectory directory;
  write_model(directory, {DType::kFloat32, 3});
  const auto checkpoint = open_checkpoint(directory.path()).value();
  EXPECT_TRUE(checkpoint->contains("matrix.weight"));
  EXPECT_FALSE(checkpoint->contains("lm_head.weight"));
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
}

TEST(Checkpoint, KnowsInWhichOrderTensorsLieInAllFiles) {
  const TemporaryDirectory directory;
  for (const int files : {1, 3}) {
    write_model(directory, {DType::kFloat32, files});
    const auto checkpoint = open_checkpoint(directory.path()).value();
    std::vector<std::pair<int64_t, int64_t>> places;  // from the first byte to the last of each
    for (const auto& [name, entry] : checkpoint->tensors()) {
      const int64_t place = checkpoint->place_of(name);
      places.emplace_back(place, place + entry.bytes);
      if (files == 1) {
        EXPECT_EQ(place, entry.offset);
      }
    }
    std::ranges::sort(places);
    EXPECT_GE(places[1].first, places[0].second);
    EXPECT_GE(places[2].first, places[1].second);
    EXPECT_LE(places[2].second, checkpoint->bytes_of_files());
    std::filesystem::remove(directory.path() / "model.safetensors");
  }
}

TEST(Checkpoint, ReadsOnlyTheBytesOfARanksOwnSlices) {
  const TemporaryDirectory directory;
  write_model(directory, {DType::kBFloat16, 1});
  const int64_t whole = int64_t{2} * (64 * 96 + 700 * 500);
  for (const DType wanted : {DType::kBFloat16, DType::kFloat32}) {
    for (const bool by_rows : {true, false}) {
      const auto checkpoint = open_checkpoint(directory.path()).value();
      const int64_t headers = checkpoint->bytes_read();
      for (const HashedTensor& tensor : {kMatrix, kTall}) {
        const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
        const std::vector<Range> first = {{0, by_rows ? rows / 2 : rows}, {0, by_rows ? columns : columns / 2}};
        read_slice(*checkpoint, tensor, first, wanted);
      }
      EXPECT_EQ(checkpoint->bytes_read() - headers, whole / 2);
      EXPECT_LT(headers, 1000);
    }
  }
}

TEST(Checkpoint, IsReadByManyThreadsAtOnce) {
  const TemporaryDirectory directory;
  write_model(directory, {DType::kBFloat16, 2});
  const auto checkpoint = open_checkpoint(directory.path()).value();
  const std::vector<Range> columns = {{0, 700}, {100, 400}};
  const auto expected = expected_slice(kTall, columns, DType::kBFloat16, DType::kFloat32);
  std::vector<std::vector<std::byte>> found(4);
  std::vector<std::thread> readers;
  for (auto& slice : found) {
    readers.emplace_back([&] { slice = read_slice(*checkpoint, kTall, columns, DType::kFloat32); });
  }
  for (std::thread& reader : readers) reader.join();
  for (const auto& slice : found) EXPECT_EQ(slice, expected);
}

TEST(Checkpoint, HasTheFingerprintOfItsHeaders) {
  const TemporaryDirectory here, copy, other, sharded;
  write_model(here, {DType::kBFloat16, 1});
  write_model(copy, {DType::kBFloat16, 1});
  write_model(other, {DType::kFloat16, 1});
  write_model(sharded, {DType::kBFloat16, 2});
  const uint64_t print = open_checkpoint(here.path()).value()->fingerprint();
  EXPECT_EQ(open_checkpoint(copy.path()).value()->fingerprint(), print);
  EXPECT_NE(open_checkpoint(other.path()).value()->fingerprint(), print);
  EXPECT_NE(open_checkpoint(sharded.path()).value()->fingerprint(), print);
}

void expect_failure(const Result<void>& result, ErrorKind kind, const std::vector<std::string>& words) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, kind) << result.error().message;
  for (const std::string& word : words) EXPECT_THAT(result.error().message, HasSubstr(word));
}

TEST(Checkpoint, NamesFileTensorFoundAndExpectedWhenAShapeIsWrong) {
  const TemporaryDirectory directory;
  write_model(directory, {});
  const auto checkpoint = open_checkpoint(directory.path()).value();
  const std::vector<Range> ranges = {{0, 1}, {0, 1}};
  std::byte one[4];
  expect_failure(checkpoint->read("matrix.weight", {96, 64}, ranges, DType::kFloat32, one), ErrorKind::kInvalidArgument,
                 {"model.safetensors", "matrix.weight", "found shape [64,96]", "expected [96,64]"});
}

TEST(Checkpoint, NamesTheTensorThatIsMissing) {
  const TemporaryDirectory directory;
  write_model(directory, {});
  const auto checkpoint = open_checkpoint(directory.path()).value();
  const std::vector<Range> ranges = {{0, 1}};
  std::byte one[4];
  expect_failure(checkpoint->read("lm_head.weight", {7}, ranges, DType::kFloat32, one), ErrorKind::kNotFound,
                 {directory.path().string(), "lm_head.weight", "expected one of shape [7]"});
}

TEST(Checkpoint, IgnoresBuffersOfOtherTypesUntilTheyAreRead) {
  const TemporaryDirectory directory;
  directory.write_safetensors("model.safetensors",
                              R"({"mask": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]},
                                  "w": {"dtype": "BF16", "shape": [1], "data_offsets": [2, 4]}})",
                              std::string("\1\0\x80\x3f", 4));
  const auto checkpoint = open_checkpoint(directory.path()).value();
  float one = 0;
  const std::vector<Range> first = {{0, 1}};
  ASSERT_TRUE(
      checkpoint->read("w", {1}, first, DType::kFloat32, std::as_writable_bytes(std::span(&one, 1))).has_value());
  EXPECT_EQ(one, 1.0f);
  expect_failure(checkpoint->read("mask", {2}, first, DType::kFloat32, std::as_writable_bytes(std::span(&one, 1))),
                 ErrorKind::kUnsupported, {"mask", "found type BOOL", "expected F32, BF16 or F16"});
}

TEST(HoldEqualValues, TellsATiedHeadFromOneOfItsOwn) {
  const std::string header = R"({"embed": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
                                 "same": {"dtype": "F32", "shape": [2, 2], "data_offsets": [8, 24]},
                                 "wide": {"dtype": "BF16", "shape": [1, 4], "data_offsets": [24, 32]},
                                 "other": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [32, 40]}})";
  const uint16_t one = 0x3f80;
  const std::vector<uint16_t> ones(4, one), last_differs = {one, one, one, 0};
  const std::vector<float> floats(4, 1.0f);
  std::string data;
  for (const auto bytes : {std::as_bytes(std::span(ones)), std::as_bytes(std::span(floats)),
                           std::as_bytes(std::span(ones)), std::as_bytes(std::span(last_differs))}) {
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const TemporaryDirectory directory;
  directory.write_safetensors("model.safetensors", header, data);
  const auto checkpoint = open_checkpoint(directory.path()).value();
  EXPECT_TRUE(hold_equal_values(*checkpoint, "embed", "same").value());
  EXPECT_FALSE(hold_equal_values(*checkpoint, "embed", "wide").value());
  EXPECT_FALSE(hold_equal_values(*checkpoint, "embed", "other").value());
  EXPECT_TRUE(hold_equal_values(*checkpoint, "embed", "other", Range{0, 1}).value());
  EXPECT_FALSE(hold_equal_values(*checkpoint, "embed", "other", Range{1, 3}).value());
  EXPECT_TRUE(hold_equal_values(*checkpoint, "embed", "same", Range{2, 4}).value());  // rows that neither has
}

TEST(Checkpoint, FailsWhenAFileShrinksAfterItWasOpened) {
  const TemporaryDirectory directory;
  write_model(directory, {});
  const auto checkpoint = open_checkpoint(directory.path()).value();
  std::filesystem::resize_file(directory.path() / "model.safetensors", 2000);
  std::vector<std::byte> all(700 * 500 * 4);
  const std::vector<Range> ranges = {{0, 700}, {0, 500}};
  expect_failure(checkpoint->read("tall.weight", kTall.shape, ranges, DType::kFloat32, all),
                 ErrorKind::kInvalidArgument, {"model.safetensors", "truncated"});
}

void expect_refused(const TemporaryDirectory& directory, ErrorKind kind, const std::vector<std::string>& words) {
  const auto opened = open_checkpoint(directory.path());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind, kind) << opened.error().message;
  for (const std::string& word : words) EXPECT_THAT(opened.error().message, HasSubstr(word));
}

TEST(OpenCheckpoint, SaysWhatItLookedFor) {
  expect_refused(TemporaryDirectory(), ErrorKind::kNotFound, {"model.safetensors", "model.safetensors.index.json"});
}

TEST(OpenCheckpoint, RefusesATruncatedFile) {
  const TemporaryDirectory directory;
  write_model(directory, {});
  const auto file = directory.path() / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  expect_refused(directory, ErrorKind::kInvalidArgument, {"model.safetensors", "tensor ", "found", "expected"});
  std::filesystem::resize_file(file, 5);
  expect_refused(directory, ErrorKind::kInvalidArgument, {"found 5 bytes"});
  std::filesystem::resize_file(file, 0);
  expect_refused(directory, ErrorKind::kInvalidArgument, {"found 0 bytes"});
}

TEST(OpenCheckpoint, RefusesALengthFieldBeyondTheFile) {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", std::string("\x10\0\0\0\0\0\0\0{}", 10));
  expect_refused(directory, ErrorKind::kInvalidArgument, {"found a header of 16 bytes, expected at most 2"});
  directory.write("model.safetensors", std::string(16, '\xff'));
  expect_refused(directory, ErrorKind::kInvalidArgument, {"found a header of 18446744073709551615 bytes"});
}

TEST(OpenCheckpoint, RefusesGarbage) {
  const TemporaryDirectory directory;
  directory.write_safetensors("model.safetensors", "garbage", "");
  expect_refused(directory, ErrorKind::kInvalidArgument, {"model.safetensors", "not JSON"});
}

TEST(OpenCheckpoint, NamesTheShardThatIsMissing) {
  const TemporaryDirectory directory;
  write_model(directory, {DType::kFloat32, 2});
  std::filesystem::remove(directory.path() / "model-00002-of-00002.safetensors");
  expect_refused(directory, ErrorKind::kInvalidArgument,
                 {"index.json", "vector.weight", "found no file model-00002-of-00002.safetensors"});
}

TEST(OpenCheckpoint, NamesTheTensorThatItsShardDoesNotHold) {
  const TemporaryDirectory directory;
  write_model(directory, {DType::kFloat32, 2});
  directory.write("model.safetensors.index.json",
                  R"({"weight_map": {"vector.weight": "model-00001-of-00002.safetensors"}})");
  expect_refused(directory, ErrorKind::kInvalidArgument,
                 {"tensor vector.weight: found no such tensor in model-00001-of-00002.safetensors"});
}

TEST(OpenCheckpoint, RefusesAnIndexThatIsDamagedOrPointsElsewhere) {
  const TemporaryDirectory directory;
  for (const auto& [index, word] : {std::pair<std::string, std::string>{"{", "not JSON"},
                                    {R"({"metadata": {}})", "weight_map: found nothing"},
                                    {R"({"weight_map": {"a": 1}})", "tensor a: found 1"},
                                    {R"({"weight_map": {"a": "../a.safetensors"}})", "beside the index"},
                                    {R"({"weight_map": {"a": ".."}})", "beside the index"}}) {
    directory.write("model.safetensors.index.json", index);
    expect_refused(directory, ErrorKind::kInvalidArgument, {"model.safetensors.index.json", word});
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
