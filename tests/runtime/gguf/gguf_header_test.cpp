#include "runtime/gguf/gguf_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/gguf/written_gguf.h"

namespace lockstep::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0, kQ8 = 8;

Error error_of(const std::string& bytes) {
  const auto header = read_header(source_of(bytes));
  return header.has_value() ? Error{ErrorKind::kInternal, "it was read"} : header.error();
}

void expect_damaged(const std::string& bytes, std::string_view message) {
  const Error error = error_of(bytes);
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument) << error.message;
  EXPECT_THAT(error.message, HasSubstr(std::string(message)));
}

std::string file_of(std::string_view rest, uint64_t tensors, uint64_t keys, uint32_t version = 3) {
  return "GGUF" + WrittenGguf::raw(version) + WrittenGguf::raw(tensors) + WrittenGguf::raw(keys) + std::string(rest);
}

TEST(GgufHeader, HasKeysAndTensorsOfBothVersions) {
  for (const uint32_t version : {2U, 3U}) {
    const std::string bytes = WrittenGguf(version)
                                  .text("general.architecture", "llama")
                                  .texts("tokens", {"a", "", "bc"})
                                  .floats("x", {3, 2}, {1, 2, 3, 4, 5, 6})
                                  .tensor("q", {64}, kQ8, std::string(68, 'q'))
                                  .bytes();
    const GgufHeader header = read_header(source_of(bytes)).value();
    EXPECT_EQ(header.version, version);
    EXPECT_EQ(header.find("general.architecture")->bytes, WrittenGguf::raw_text("llama"));
    EXPECT_EQ(header.find("tokens")->count, 3);
    EXPECT_EQ(header.find("other"), nullptr);
    const TensorRecord* const tensor = header.find_tensor("x");
    ASSERT_NE(tensor, nullptr);
    EXPECT_THAT(tensor->shape, ElementsAre(2, 3));
    EXPECT_EQ(tensor->type->name, "F32");
    EXPECT_EQ(tensor->bytes, 24);
    EXPECT_EQ(tensor->offset % 32, 0);
    EXPECT_EQ(header.find_tensor("q")->offset, tensor->offset + 32);
    EXPECT_EQ(header.find_tensor("q")->bytes, 68);
  }
}

TEST(GgufHeader, HasTensorsAtMultiplesOfTheAlignment) {
  const std::string bytes =
      WrittenGguf(3, 64).number("general.alignment", 64).floats("x", {1}, {1}).floats("y", {1}, {2}).bytes();
  const GgufHeader header = read_header(source_of(bytes)).value();
  EXPECT_EQ(header.find_tensor("y")->offset, header.find_tensor("x")->offset + 64);
  EXPECT_EQ(header.find_tensor("x")->offset % 64, 0);
}

TEST(GgufHeader, CutAnywhereIsAnError) {
  const std::string bytes = WrittenGguf().text("a", "b").texts("c", {"d", "e"}).floats("x", {2}, {1, 2}).bytes();
  for (size_t size = 0; size + 24 < bytes.size(); ++size) {
    EXPECT_EQ(error_of(bytes.substr(0, size)).kind, ErrorKind::kInvalidArgument) << size;
  }
}

TEST(GgufHeader, OfAnotherFormatIsRefused) {
  expect_damaged("PK\3\4 and more bytes of a zip file", "expected the four letters GGUF");
  EXPECT_EQ(error_of(file_of("", 0, 0, 1)).kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error_of(file_of("", 0, 0, 4)).message, HasSubstr("found version 4, expected 2 or 3"));
  EXPECT_THAT(error_of(file_of("", 0, 0, 0x03000000)).message, HasSubstr("found big-endian numbers"));
}

TEST(GgufHeader, CountsBeyondTheFileAreRefusedBeforeMemoryIsTaken) {
  expect_damaged(file_of("", uint64_t{1} << 60, 0), "found 1152921504606846976 tensors, expected at most 0");
  expect_damaged(file_of("", 0, uint64_t{1} << 60), "keys, expected at most 0");
  expect_damaged(file_of(WrittenGguf::raw<uint64_t>(uint64_t{1} << 62) + "name and more", 0, 1),
                 "found the name of a key of 4611686018427387904 bytes, expected at most");
  const std::string array = WrittenGguf::raw<uint32_t>(5) + WrittenGguf::raw<uint64_t>(uint64_t{1} << 61);
  expect_damaged(WrittenGguf().key("list", ValueType::kArray, array).bytes(), "elements of key list, expected at most");
  expect_damaged(WrittenGguf().key("text", ValueType::kString, WrittenGguf::raw<uint64_t>(1000)).bytes(),
                 "found a value of key text of 1000 bytes, expected at most");
}

TEST(GgufHeader, NestedArraysAreRefused) {
  const std::string nested = WrittenGguf::raw<uint32_t>(9) + WrittenGguf::raw<uint64_t>(1);
  const Error error = error_of(WrittenGguf().key("deep", ValueType::kArray, nested).bytes());
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("found an array of arrays in key deep"));
}

TEST(GgufHeader, BadKeysAreRefused) {
  expect_damaged(WrittenGguf().number("twice", 1).number("twice", 2).bytes(), "found key twice twice");
  expect_damaged(WrittenGguf().key("odd", 13U, "1234").bytes(), "found type 13 of key odd, expected 0 to 12");
  expect_damaged(WrittenGguf().key("flag", ValueType::kBool, "\2").bytes(), "found a boolean of key flag");
  expect_damaged(WrittenGguf().number("", 1).bytes(), "found the name of a key of 0 bytes, expected 1 to 65535");
  for (const uint32_t alignment : {0U, 24U}) {
    expect_damaged(WrittenGguf().number("general.alignment", alignment).bytes(), "expected a power of two");
  }
  expect_damaged(WrittenGguf().text("general.alignment", "32").bytes(), "expected a power of two of type u32");
}

TEST(GgufHeader, BadShapesAreRefused) {
  expect_damaged(WrittenGguf().tensor("x", {}, kF32, "").bytes(), "found 0 dimensions of tensor x, expected 1 to 4");
  expect_damaged(WrittenGguf().tensor("x", {1, 1, 1, 1, 1}, kF32, "1234").bytes(), "found 5 dimensions of tensor x");
  expect_damaged(WrittenGguf().tensor("x", {0, 4}, kF32, "").bytes(), "found a dimension of 0 elements in tensor x");
  expect_damaged(WrittenGguf().tensor("x", {uint64_t{1} << 40, uint64_t{1} << 40}, kF32, "").bytes(),
                 "elements in tensor x, expected 1 to 2^63 - 1 in all");
  expect_damaged(WrittenGguf().tensor("x", {33}, kQ8, std::string(34, ' ')).bytes(),
                 "found 33 columns of tensor x, expected a multiple of 32 for Q8_0");
}

TEST(GgufHeader, UnknownTypesAreRefusedByName) {
  const Error error = error_of(WrittenGguf().tensor("x", {32}, 999, std::string(32, ' ')).bytes());
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("found type 999 of tensor x"));
}

TEST(GgufHeader, TensorsOutsideTheDataAreRefused) {
  expect_damaged(WrittenGguf().tensor_at("x", {8}, kF32, 32, std::string(32, ' ')).bytes(), "it is truncated");
  expect_damaged(WrittenGguf().tensor_at("x", {8}, kF32, 4, std::string(64, ' ')).bytes(),
                 "found tensor x at byte 4 of the data, expected a multiple of 32");
  expect_damaged(WrittenGguf().tensor_at("x", {8}, kF32, uint64_t{1} << 63, std::string(64, ' ')).bytes(),
                 "expected it inside a file");
  expect_damaged(WrittenGguf().tensor("x", {uint64_t{1} << 61}, kF32, std::string(64, ' ')).bytes(),
                 "expected it inside a file");
}

TEST(GgufHeader, TensorsThatOverlapOrRepeatAreRefused) {
  expect_damaged(WrittenGguf()
                     .floats("x", std::vector<uint64_t>{16}, std::vector<float>(16))
                     .tensor_at("y", {8}, kF32, 32, "")
                     .bytes(),
                 "expected it after tensor x");
  expect_damaged(WrittenGguf().floats("x", {1}, {1}).floats("x", {1}, {1}).bytes(), "found tensor x twice");
}

}  // namespace
}  // namespace lockstep::gguf
