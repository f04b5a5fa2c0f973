#include "runtime/checkpoint/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/counting_tensor.h"
#include "tests/runtime/checkpoint/written_torch_file.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const pickle::Storage kFloats{"FloatStorage", "0", 12};

/// An archive of `pickled` and one storage, 0 to 11, as torch.save lays it out.
std::vector<ZippedFile> archive_of(const std::string& pickled) {
  const std::vector<std::byte> values = counting("0", {12}).bytes;
  const std::string storage(reinterpret_cast<const char*>(values.data()), values.size());
  return {
      {"model/data.pkl", pickled}, {"model/byteorder", "little"}, {"model/data/0", storage}, {"model/version", "3"}};
}

std::string bin_of(const std::vector<std::pair<std::string, std::string>>& items, ZipStyle style = {}) {
  return zip_of(archive_of(pickle::state_dict(items)), style);
}

std::vector<float> read_all(const Checkpoint& checkpoint, const std::string& name, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::vector<Range> ranges;
  for (const int64_t dim : shape.dims()) ranges.push_back({0, dim});
  const auto read = checkpoint.read(name, shape, ranges, DType::kFloat32, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(read.has_value()) << read.error().message;
  return values;
}

TEST(TorchFile, IsReadWithAndWithoutZip64AndPadding) {
  for (const ZipStyle style : {ZipStyle{}, ZipStyle{.padding = 37}, ZipStyle{.zip64 = true, .padding = 5}}) {
    const TemporaryDirectory directory;
    directory.write("pytorch_model.bin", bin_of({{"w", pickle::tensor(kFloats, 0, {2, 3}, {3, 1})}}, style));
    const auto checkpoint = open_checkpoint(directory.path()).value();
    EXPECT_THAT(read_all(*checkpoint, "w", {2, 3}), ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

TEST(TorchFile, HoldsAnyStridedViewOfAStorage) {
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", bin_of({{"rows", pickle::tensor(kFloats, 6, {2, 3}, {3, 1})},
                                               {"transposed", pickle::tensor(kFloats, 0, {4, 3}, {1, 4})},
                                               {"every_other", pickle::tensor(kFloats, 1, {2, 2}, {6, 2})},
                                               {"expanded", pickle::tensor(kFloats, 3, {2, 2}, {0, 1})},
                                               {"column", pickle::tensor(kFloats, 2, {3}, {4})},
                                               {"scalar", pickle::tensor(kFloats, 9, {}, {})},
                                               {"empty", pickle::tensor(kFloats, 12, {0, 4}, {4, 1})}}));
  const auto checkpoint = open_checkpoint(directory.path()).value();
  EXPECT_THAT(read_all(*checkpoint, "rows", {2, 3}), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(read_all(*checkpoint, "transposed", {4, 3}), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(read_all(*checkpoint, "every_other", {2, 2}), ElementsAre(1, 3, 7, 9));
  EXPECT_THAT(read_all(*checkpoint, "expanded", {2, 2}), ElementsAre(3, 4, 3, 4));
  EXPECT_THAT(read_all(*checkpoint, "column", {3}), ElementsAre(2, 6, 10));
  EXPECT_THAT(read_all(*checkpoint, "scalar", {}), ElementsAre(9));
  EXPECT_THAT(read_all(*checkpoint, "empty", {0, 4}), ElementsAre());
}

TEST(TorchFile, KnowsTypesThatNobodyReads) {
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", bin_of({{"half", pickle::tensor({"HalfStorage", "0", 24}, 1, {1}, {1})},
                                               {"mask", pickle::tensor({"BoolStorage", "0", 48}, 0, {6, 8}, {8, 1})}}));
  const auto checkpoint = open_checkpoint(directory.path()).value();
  EXPECT_EQ(checkpoint->tensors().at("half").type.dtype, DType::kFloat16);
  EXPECT_FALSE(checkpoint->tensors().at("mask").can_be_read);
  EXPECT_EQ(checkpoint->tensors().at("mask").stored_dtype, "BOOL");
}

TEST(TorchFile, IsOneOfSeveralBehindAnIndex) {
  const TemporaryDirectory directory;
  directory.write("a.bin", bin_of({{"v", pickle::tensor(kFloats, 0, {1}, {1})}}));
  directory.write("b.bin", bin_of({{"w", pickle::tensor(kFloats, 7, {1}, {1})}}));
  directory.write("pytorch_model.bin.index.json", R"({"weight_map": {"v": "a.bin", "w": "b.bin"}})");
  const auto checkpoint = open_checkpoint(directory.path()).value();
  EXPECT_THAT(read_all(*checkpoint, "v", {1}), ElementsAre(0));
  EXPECT_THAT(read_all(*checkpoint, "w", {1}), ElementsAre(7));
}

TEST(TorchFile, IsPassedOverWhereThereAreSafetensors) {
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", "not even a zip");
  model::write_safetensors(directory.path() / "model.safetensors", {counting("w", {1}, 5)});
  EXPECT_THAT(read_all(*open_checkpoint(directory.path()).value(), "w", {1}), ElementsAre(5));
}

void expect_refused(const std::string& bytes, ErrorKind kind, const std::string& words) {
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", bytes);
  const auto opened = open_checkpoint(directory.path());
  ASSERT_FALSE(opened.has_value()) << words;
  EXPECT_EQ(opened.error().kind, kind) << opened.error().message;
  EXPECT_THAT(opened.error().message, HasSubstr("pytorch_model.bin"));
  EXPECT_THAT(opened.error().message, HasSubstr(words));
}

TEST(TorchFile, RefusesCodeByItsName) {
  expect_refused(bin_of({{"w", pickle::call(pickle::name("os", "system"), {pickle::text("true")})}}),
                 ErrorKind::kUnsupported, "found the name os.system, expected tensors and plain containers only");
}

TEST(TorchFile, SaysHowToConvertWhatItCannotRead) {
  std::vector<ZippedFile> files = archive_of(pickle::state_dict({}));
  files[1].bytes = "big";
  expect_refused(zip_of(files), ErrorKind::kUnsupported, "not little-endian");
  files[1] = {"model/other", "", /*method=*/8};
  expect_refused(zip_of(files), ErrorKind::kUnsupported, "model/other: found it compressed or encrypted (method 8)");
}

TEST(TorchFile, RefusesTensorsOutsideTheirStorage) {
  const auto refused = [](const std::string& tensor, const std::string& words) {
    expect_refused(bin_of({{"w", tensor}}), ErrorKind::kInvalidArgument, words);
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  refused(pickle::tensor({"FloatStorage", "1", 12}, 0, {1}, {1}), "found no storage 1");
  refused(pickle::tensor({"FloatStorage", "0", 13}, 0, {1}, {1}), "found a storage of 48 bytes, expected 13");
  refused(pickle::tensor(kFloats, 0, {13}, {1}), "exceeds its storage of 12 elements");
  refused(pickle::tensor(kFloats, 12, {1}, {1}), "exceeds its storage");
  refused(pickle::tensor(kFloats, 1, {3, 4}, {4, 1}), "exceeds its storage");
  refused(pickle::tensor(kFloats, 0, {kHuge, kHuge}, {1, 1}), "exceeds its storage");
  refused(pickle::tensor(kFloats, 0, {3}, {kHuge}), "exceeds its storage");
  refused(pickle::tensor(kFloats, 0, {kHuge}, {0}), "more elements than");
}

TEST(TorchFile, RefusesDamagedArchives) {
  const std::string good = pickle::state_dict({});
  const auto refused = [](const std::string& bytes, const std::string& words) {
    expect_refused(bytes, ErrorKind::kInvalidArgument, words);
  };
  refused("", "found 0 bytes");
  refused("version https://git-lfs.github.com/spec/v1", "found no zip archive");
  refused("PK" + std::string(100, '\0'), "no end of a zip directory");
  refused("PK\6\7" + std::string(16, '\0') + "PK\5\6" + std::string(18, '\0'), "found a zip64 record at byte 0");
  refused(zip_of({{"model/version", "3"}}), "found no file data.pkl");
  refused(zip_of({{"a/data.pkl", good}, {"b/data.pkl", good}}), "found two files data.pkl");
  refused(zip_of({{"a/data.pkl", good}, {"a/data.pkl", good}}), "found a/data.pkl twice");
  std::string moved = zip_of(archive_of(good));
  moved[moved.size() - 6] = '\x7f';  // of the directory's offset
  refused(moved, "found a directory of");
  std::string more = zip_of(archive_of(good));
  more[more.size() - 12] = 9;  // entries
  refused(more, "fewer entries than its directory says");
}

TEST(TorchFile, RefusesEveryPieceOfAFile) {
  for (const bool zip64 : {false, true}) {
    const std::string whole = bin_of({{"w", pickle::tensor(kFloats, 0, {2, 3}, {3, 1})}}, {zip64, 3});
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string piece = whole.substr(0, size);
      const auto read = [&](int64_t offset, std::span<std::byte> dst) -> Result<void> {
        LOCKSTEP_CHECK(offset >= 0 && static_cast<size_t>(offset) + dst.size() <= piece.size(), offset, dst.size());
        std::memcpy(dst.data(), piece.data() + offset, dst.size());
        return ok();
      };
      EXPECT_FALSE(read_torch_file({"x.bin", static_cast<int64_t>(size), read}).has_value()) << size;
    }
  }
}

// ---- before torch 1.6 ----

/// A storage: 0 to 11.
const std::string kTwelveNumbers = [] {
  const std::vector<std::byte> values = counting("0", {12}).bytes;
  return std::string(reinterpret_cast<const char*>(values.data()), values.size());
}();

TEST(OldTorchFile, HoldsViewsOfItsStoragesInTheOrderOfTheirKeys) {
  const pickle::Storage first{"FloatStorage", "94500235958640", 12}, second{"FloatStorage", "94500235958528", 2};
  const std::string two(8, '\0');
  const std::string bytes = old_bin_of(pickle::state_dict({{"whole", pickle::tensor(first, 0, {3, 4}, {4, 1})},
                                                           {"zeros", pickle::tensor(second, 0, {2}, {1})},
                                                           {"turned", pickle::tensor(first, 0, {4, 3}, {1, 4})},
                                                           {"row", pickle::tensor(first, 4, {4}, {1})}}),
                                       {{second.key, two}, {first.key, kTwelveNumbers}});
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", bytes);
  const auto checkpoint = open_checkpoint(directory.path()).value();
  EXPECT_THAT(read_all(*checkpoint, "whole", {3, 4}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(read_all(*checkpoint, "turned", {4, 3}), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(read_all(*checkpoint, "row", {4}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(read_all(*checkpoint, "zeros", {2}), ElementsAre(0, 0));
}

TEST(OldTorchFile, KnowsTheSpellingsOfItsTime) {
  const std::string tensor =
      pickle::call(pickle::name("torch._utils", "_rebuild_tensor"),
                   {pickle::storage_with_view(kFloats), pickle::number(2), pickle::numbers({2}), pickle::numbers({1})});
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", old_bin_of(pickle::state_dict({{"w", tensor}}), {{"0", kTwelveNumbers}}));
  EXPECT_THAT(read_all(*open_checkpoint(directory.path()).value(), "w", {2}), ElementsAre(2, 3));
}

TEST(OldTorchFile, IsReadOnlyWhereATensorLies) {
  const pickle::Storage large{"FloatStorage", "1", int64_t{1} << 20};
  const std::string bytes = old_bin_of(pickle::state_dict({{"w", pickle::tensor(kFloats, 0, {12}, {1})},
                                                           {"large", pickle::tensor(large, 0, {large.elements}, {1})}}),
                                       {{"1", std::string(4 * large.elements, 'x')}, {"0", kTwelveNumbers}});
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", bytes);
  const auto checkpoint = open_checkpoint(directory.path()).value();
  EXPECT_LE(checkpoint->bytes_read(), (int64_t{1} << 20) + 64);
  EXPECT_EQ(read_all(*checkpoint, "w", {12}).back(), 11);
}

TEST(OldTorchFile, MayHaveAPickleLongerThanTheFirstLook) {
  std::vector<std::pair<std::string, std::string>> items = {{"w", pickle::tensor(kFloats, 0, {12}, {1})}};
  for (int i = 0; i < 1500; ++i) items.emplace_back(fmt::format("{}{}", std::string(900, 'n'), i), pickle::number(i));
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", old_bin_of(pickle::state_dict(items), {{"0", kTwelveNumbers}}));
  EXPECT_EQ(read_all(*open_checkpoint(directory.path()).value(), "w", {12}).back(), 11);
}

TEST(OldTorchFile, RefusesWhatIsNotOne) {
  const std::string dict = pickle::state_dict({{"w", pickle::tensor(kFloats, 0, {12}, {1})}});
  const auto refused = [](const std::string& bytes, ErrorKind kind, const std::string& words) {
    expect_refused(bytes, kind, words);
  };
  const ErrorKind damaged = ErrorKind::kInvalidArgument, refusal = ErrorKind::kUnsupported;
  refused(dict, refusal, "found a bare pickle");
  refused(
      old_bin_of(pickle::state_dict({{"w", pickle::call(pickle::name("os", "system"), {pickle::text("true")})}}), {}),
      refusal, "found the name os.system");
  const std::string view = pickle::tuple({pickle::text("9"), pickle::number(4), pickle::number(8)});
  const std::string part = pickle::tuple({pickle::text("storage"), pickle::name("torch", "FloatStorage"),
                                          pickle::text("0"), pickle::text("cpu"), pickle::number(12), view}) +
                           "Q";
  refused(old_bin_of(pickle::state_dict({{"w", part}}), {{"0", kTwelveNumbers}}), refusal, "a view of a storage");
  refused(old_bin_of(dict, {}), damaged, "found no storage 0 in the list");
  refused(old_bin_of(dict, {{"0", kTwelveNumbers}, {"1", ""}}), damaged, "found the storage 1, expected one");
  refused(old_bin_of(dict, {{"0", kTwelveNumbers.substr(4)}}), damaged, "storage 0: found 11 elements, expected 12");
  const pickle::Storage other{"HalfStorage", "0", 12};
  refused(old_bin_of(pickle::state_dict(
                         {{"w", pickle::tensor(kFloats, 0, {12}, {1})}, {"v", pickle::tensor(other, 0, {12}, {1})}}),
                     {{"0", kTwelveNumbers}}),
          damaged, "found the storage 0 with two types or sizes");
}

TEST(OldTorchFile, RefusesEveryPieceOfAFile) {
  const std::string whole =
      old_bin_of(pickle::state_dict({{"w", pickle::tensor(kFloats, 0, {12}, {1})}}), {{"0", kTwelveNumbers}});
  for (size_t size = 0; size < whole.size(); ++size) {
    expect_refused(whole.substr(0, size), ErrorKind::kInvalidArgument, "found");
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
