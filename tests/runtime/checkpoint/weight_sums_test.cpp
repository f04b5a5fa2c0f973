#include "runtime/checkpoint/weight_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "runtime/checkpoint/verified_model.h"
#include "runtime/core/atomic_file.h"
#include "tests/model/stored_tensor.h"
#include "tests/model/tiny_models.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

const std::string kSum(32, 'a');

WeightSums some_sums() {
  WeightSums sums{.files = 0x0123456789abcdef, .tensors = {}};
  sums.tensors["model.norm.weight"] = {"BF16", Shape{4}, {{SummedKind::kBFloat16, {1, 2}}}};
  sums.tensors["lm_head.weight"] = {"I32", Shape{8, 4}, {{SummedKind::kCodes, {3, 4}}, {SummedKind::kFloat32, {5, 6}}}};
  return sums;
}

TEST(WeightSums, AreReadFromTheirText) {
  EXPECT_EQ(parse_weight_sums(to_text(some_sums()), "sums.json").value(), some_sums());
}

TEST(WeightSums, OfBadTextsAreRefusedInWords) {
  const auto with = [](const std::string& tensor) {
    return R"({"format": "lockstep sums 1", "files": "0123456789abcdef", "tensors": {"w": )" + tensor + "}}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "sums.json"},
      {"[]", "expected a JSON object"},
      {"{}", "lockstep sums 1"},
      {R"({"format": "lockstep sums 2"})", "lockstep sums 2"},
      {R"({"format": 1})", "expected \"lockstep sums 1\""},
      {R"({"format": "lockstep sums 1", "files": "12", "tensors": {}})", "16 hexadecimal digits"},
      {R"({"format": "lockstep sums 1", "files": "0123456789abcdef", "tensors": []})", "an object"},
      {R"({"format": "lockstep sums 1", "files": "0123456789abcdef", "tensors": {}, "more": 1})", "more"},
      {with("1"), "tensor w"},
      {with(R"({"dtype": "F32", "sums": {}})"), "a shape of nothing"},
      {with(R"({"dtype": "F32", "shape": [-1], "sums": {}})"), "extents"},
      {with(R"({"dtype": "F32", "shape": [1e30], "sums": {}})"), "extents"},
      {with(R"({"dtype": "F32", "shape": [18446744073709551615], "sums": {}})"), "extents"},
      {with(R"({"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1], "sums": {}})"), "at most 8"},
      {with(R"({"dtype": 5, "shape": [1], "sums": {}})"), "no dtype"},
      {with(R"({"dtype": "F32", "shape": [1], "sums": {"float32": "12"}})"), "32 hexadecimal digits"},
      {with(R"({"dtype": "F32", "shape": [1], "sums": {"int4": ")" + kSum + R"("}})"), "int4"},
      {with(R"({"dtype": "F32", "shape": [1], "sums": {}, "x": 0})"), "expected only dtype, shape, sums"},
      {with(R"({"dtype": "F32", "shape": [1], "sums": {"float32": ")" + kSum + R"(", "float32": ")" + kSum + R"("}})"),
       "float32"},
  };
  for (const auto& [text, words] : cases) {
    const auto sums = parse_weight_sums(text, "sums.json");
    ASSERT_FALSE(sums.has_value()) << text;
    EXPECT_EQ(sums.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(sums.error().message, HasSubstr(words)) << text;
  }
}

TEST(WeightSums, LieBesideTheirModel) {
  EXPECT_EQ(path_of_sums("models/a"), "models/a/lockstep.sums.json");
  const TemporaryDirectory directory;
  const auto file = directory.path() / "b.gguf";
  std::ofstream(file) << "GGUF";
  EXPECT_EQ(path_of_sums(file), directory.path() / "b.gguf.sums.json");
}

/// Parts of a matrix in codes, groups of 4 columns.
TEST(SumOfCodes, OfPartsIsThatOfTheWholeAlsoWhereACutDividesAGroup) {
  constexpr int64_t kRows = 3, kColumns = 32;
  const WeightFormat format{.group = 4, .offset = GroupOffset::kZeros};
  std::vector<uint8_t> codes(kRows * kColumns);
  std::vector<float> scales(kRows * kColumns / 4), offsets(scales.size());
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7 % 16);
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = 1.0f + static_cast<float>(i), offsets[i] = static_cast<float>(i);
  const auto sum_of = [&](Range rows, Range columns) {
    std::vector<uint8_t> own;
    std::vector<float> own_scales, own_offsets;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t k = columns.begin; k < columns.end; ++k)
        own.push_back(codes[static_cast<size_t>(row * kColumns + k)]);
      for (int64_t group = columns.begin / 4; group * 4 < columns.end; ++group) {
        own_scales.push_back(scales[static_cast<size_t>(row * kColumns / 4 + group)]);
        own_offsets.push_back(offsets[static_cast<size_t>(row * kColumns / 4 + group)]);
      }
    }
    return sum_of_codes({own, own_scales, own_offsets}, format, rows, columns);
  };
  const TensorSum whole = sum_of({0, kRows}, {0, kColumns});
  for (const int64_t cut : {8, 10, 16, 22}) {
    TensorSum sum;
    for (const Range rows : {Range{0, 2}, Range{2, kRows}}) {
      sum += sum_of(rows, {0, cut});
      sum += sum_of(rows, {cut, kColumns});
    }
    EXPECT_EQ(sum.plain, whole.plain) << cut;
    EXPECT_EQ(sum == whole, is_between_lanes(SummedKind::kCodes, cut)) << cut;
  }
  for (auto* values : {&scales, &offsets}) {
    (*values)[5] = std::nextafter((*values)[5], 1e9f);
    EXPECT_NE(sum_of({0, kRows}, {0, kColumns}), whole);
    (*values)[5] = std::nextafter((*values)[5], -1e9f);
  }
  EXPECT_EQ(sum_of({0, kRows}, {0, kColumns}), whole);
}

/// A directory with a tiny model.
class VerifyModel : public ::testing::Test {
 protected:
  void SetUp() override {
    std::map<std::string, Shape> shapes = {
        {"model.embed_tokens.weight", {32, 8}}, {"model.norm.weight", {8}}, {"lm_head.weight", {32, 8}}};
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) shapes[layer + norm + ".weight"] = {8};
      for (const char* matrix : {"q_proj", "o_proj"}) shapes[layer + "self_attn." + matrix + ".weight"] = {8, 8};
      for (const char* matrix : {"k_proj", "v_proj"}) shapes[layer + "self_attn." + matrix + ".weight"] = {4, 8};
      for (const char* matrix : {"gate_proj", "up_proj"}) shapes[layer + "mlp." + matrix + ".weight"] = {16, 8};
      shapes[layer + "mlp.down_proj.weight"] = {8, 16};
    }
    std::vector<model::StoredTensor> tensors;
    for (const auto& [name, shape] : shapes) {
      std::vector<std::byte> bytes(static_cast<size_t>(shape.elements()) * 4);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 60);
      tensors.push_back({name, {DType::kFloat32, shape}, std::move(bytes)});
    }
    model::write_safetensors(file(), tensors);
  }

  std::filesystem::path file() const { return model_.path() / "model.safetensors"; }
  std::filesystem::path sums() const { return model_.path() / "lockstep.sums.json"; }

  Result<VerifiedModel> verify(SumsAction action = SumsAction::kCheck) const {
    return verify_model(model_.path(), {.action = action, .threads = 3});
  }
  void flip_last_byte() const {
    std::fstream stream(file(), std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(-1, std::ios::end);
    const auto byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(-1, std::ios::end);
    stream.put(byte);
  }
  void expect_refused(const Result<VerifiedModel>& result, ErrorKind kind, const std::string& words) const {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().kind, kind);
    EXPECT_THAT(result.error().message, HasSubstr(words));
  }

  model::TinyModel model_{model::kTinyLlama};
};

TEST_F(VerifyModel, WritesSumsOnceAndFindsThemAgain) {
  expect_refused(verify(), ErrorKind::kNotFound, "lockstep verify --write");
  const auto written = verify(SumsAction::kWrite);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(written.value().sums, sums());
  EXPECT_GT(written.value().tensors, 5);
  EXPECT_TRUE(verify().has_value());
  EXPECT_TRUE(verify(SumsAction::kWrite).has_value());  // the same
}

TEST_F(VerifyModel, NamesTheTensorThatChanged) {
  ASSERT_TRUE(verify(SumsAction::kWrite).has_value());
  flip_last_byte();
  expect_refused(verify(), ErrorKind::kInvalidArgument, "in 1 of ");
  expect_refused(verify(SumsAction::kWrite), ErrorKind::kInvalidArgument, "--replace");
  EXPECT_TRUE(verify(SumsAction::kReplace).has_value());
  EXPECT_TRUE(verify().has_value());
}

TEST_F(VerifyModel, RefusesSumsOfOtherFiles) {
  ASSERT_TRUE(verify(SumsAction::kWrite).has_value());
  const std::string text = read_sums_text(model_.path()).value().value();
  WeightSums changed = parse_weight_sums(text, "sums.json").value();
  changed.files ^= 1;
  ASSERT_TRUE(write_text_file(sums(), to_text(changed)).has_value());
  expect_refused(verify(), ErrorKind::kInvalidArgument, "sums of other files");
  changed.files ^= 1;
  changed.tensors.erase(changed.tensors.begin());
  ASSERT_TRUE(write_text_file(sums(), to_text(changed)).has_value());
  expect_refused(verify(), ErrorKind::kInvalidArgument, "which differ in the tensors lm_head.weight");
}

}  // namespace
}  // namespace lockstep::checkpoint
