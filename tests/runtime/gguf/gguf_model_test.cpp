#include "runtime/gguf/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/runtime/gguf/written_gguf.h"

namespace lockstep::gguf {
namespace {

using ::testing::HasSubstr;

class GgufModelFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(std::string_view name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  static WrittenGguf part(uint16_t index, uint16_t count, int32_t tensors) {
    WrittenGguf file;
    file.key("split.no", ValueType::kUInt16, WrittenGguf::raw(index));
    file.key("split.count", ValueType::kUInt16, WrittenGguf::raw(count));
    file.key("split.tensors.count", ValueType::kInt32, WrittenGguf::raw(tensors));
    return file;
  }

  std::filesystem::path folder_;
};

TEST_F(GgufModelFiles, OneFileIsAModel) {
  const auto path = write("m.gguf", WrittenGguf().floats("x", {1}, {1}).bytes());
  EXPECT_TRUE(is_gguf(path));
  EXPECT_FALSE(is_gguf(folder_));
  const GgufModel model = read_model(path).value();
  EXPECT_EQ(model.parts.size(), 1);
  EXPECT_NE(model.find_tensor("x"), nullptr);
}

TEST_F(GgufModelFiles, TheFirstPartLeadsToTheOthers) {
  const auto first = write("m-00001-of-00002.gguf", part(0, 2, 2).floats("x", {1}, {1}).bytes());
  write("m-00002-of-00002.gguf", part(1, 2, 2).floats("y", {1}, {1}).bytes());
  const GgufModel model = read_model(first).value();
  EXPECT_EQ(model.parts.size(), 2);
  EXPECT_NE(model.find_tensor("y"), nullptr);
}

TEST_F(GgufModelFiles, AnotherPartThanTheFirstIsRefused) {
  const auto second = write("m-00002-of-00002.gguf", part(1, 2, 1).bytes());
  const auto model = read_model(second);
  ASSERT_FALSE(model.has_value());
  EXPECT_THAT(model.error().message, HasSubstr("found part 2 of 2, expected the first"));
  const auto renamed = write("other.gguf", part(0, 2, 1).bytes());
  EXPECT_THAT(read_model(renamed).error().message, HasSubstr("ends in -00001-of-00002.gguf"));
}

TEST_F(GgufModelFiles, PartsThatDoNotBelongTogetherAreRefused) {
  const auto first = write("m-00001-of-00002.gguf", part(0, 2, 2).floats("x", {1}, {1}).bytes());
  EXPECT_EQ(read_model(first).error().kind, ErrorKind::kNotFound);
  const auto expect = [&](const WrittenGguf& second, std::string_view message) {
    write("m-00002-of-00002.gguf", second.bytes());
    const auto model = read_model(first);
    ASSERT_FALSE(model.has_value());
    EXPECT_EQ(model.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(model.error().message, HasSubstr(std::string(message)));
  };
  expect(part(2, 3, 2).floats("y", {1}, {1}), "found part 3 of 3, expected part 2 of 2");
  expect(part(1, 2, 2).floats("x", {1}, {1}), "found tensor x in two parts");
  expect(part(1, 2, 2), "found 1 tensors in 2 parts, expected 2");
  expect(part(7, 2, 2), "found part 7 of 2");
}

}  // namespace
}  // namespace lockstep::gguf
