#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/safetensors_header.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStart = 100;  // of the data in the file

Result<std::map<std::string, TensorEntry, std::less<>>> parse(std::string_view header, int64_t data_size) {
  return parse_safetensors_header(std::as_bytes(std::span(header)), kStart, kStart + data_size, "x.safetensors");
}

void expect_damaged(std::string_view header, int64_t data_size, const std::string& complaint) {
  const auto parsed = parse(header, data_size);
  ASSERT_FALSE(parsed.has_value()) << header;
  EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument) << header;
  EXPECT_THAT(parsed.error().message, HasSubstr(complaint)) << header;
  EXPECT_THAT(parsed.error().message, HasSubstr("x.safetensors")) << header;
}

TEST(SafetensorsHeader, GivesTypeShapeAndPlaceOfEveryTensor) {
  const auto tensors = parse(R"({"__metadata__": {"format": "pt"},
                                 "b": {"dtype": "F32", "shape": [2], "data_offsets": [12, 20]},
                                 "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}})",
                             20)
                           .value();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.at("a").type, (TensorType{DType::kBFloat16, {2, 3}}));
  EXPECT_EQ(tensors.at("a").offset, kStart);
  EXPECT_EQ(tensors.at("b").type, (TensorType{DType::kFloat32, {2}}));
  EXPECT_EQ(tensors.at("b").offset, kStart + 12);
  EXPECT_EQ(tensors.at("b").stored_dtype, "F32");
}

TEST(SafetensorsHeader, TakesScalarsEmptyTensorsAndTypesThatNobodyReads) {
  const auto tensors = parse(R"({"scalar": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
                                 "none": {"dtype": "F16", "shape": [0, 4], "data_offsets": [8, 8]},
                                 "small": {"dtype": "F4", "shape": [4], "data_offsets": [8, 10]}})",
                             10)
                           .value();
  EXPECT_FALSE(tensors.at("scalar").can_be_read);
  EXPECT_TRUE(tensors.at("none").can_be_read);
  EXPECT_EQ(tensors.at("small").bytes, 2);
  EXPECT_TRUE(parse("{}", 0).value().empty());
}

TEST(SafetensorsHeader, RefusesWhatIsNotAnObjectOfObjects) {
  expect_damaged("", 0, "not JSON");
  expect_damaged("garbage", 0, "not JSON");
  expect_damaged("[]", 0, "expected a JSON object");
  expect_damaged(R"({"a": 1})", 0, "tensor a: found 1, expected an object");
}

TEST(SafetensorsHeader, RefusesANameThatComesTwice) {
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                     "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})",
                 1, "the key \"a\" twice");
}

TEST(SafetensorsHeader, RefusesAnUnknownType) {
  expect_damaged(R"({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 1]}})", 1, "dtype: found \"F99\"");
  expect_damaged(R"({"a": {"shape": [1], "data_offsets": [0, 1]}})", 1, "dtype: found nothing");
}

TEST(SafetensorsHeader, RefusesShapesAndOffsetsThatAreNotWholeNumbers) {
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}})", 1, "tensor a: shape");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [1.5], "data_offsets": [0, 1]}})", 1, "tensor a: shape");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": 1, "data_offsets": [0, 1]}})", 1, "tensor a: shape");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, "1"]}})", 1, "tensor a: data_offsets");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 18446744073709551615]}})", 1,
                 "tensor a: data_offsets");
}

TEST(SafetensorsHeader, RefusesOffsetsThatAreBackwardsOrOutsideTheFile) {
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}})", 1, "found [1, 0]");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}})", 8, "inside 8 bytes");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0]}})", 1, "found [0]");
}

TEST(SafetensorsHeader, RefusesASizeThatIsNotThatOfTheShape) {
  expect_damaged(R"({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 20]}})", 20,
                 "tensor a: found 20 bytes, expected 24 for F32[2,3]");
  expect_damaged(R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0,
                 "expected another number");
}

TEST(SafetensorsHeader, RefusesOverlapsAndHoles) {
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                     "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}})",
                 6, "tensor b: found it at byte 102, expected byte 104 (an overlap");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                     "b": {"dtype": "U8", "shape": [4], "data_offsets": [6, 10]}})",
                 10, "(a hole");
  expect_damaged(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", 9, "the end of the last tensor");
}

}  // namespace
}  // namespace lockstep::checkpoint
