#include "runtime/text/merge_tables.h"

#include <gtest/gtest.h>

namespace lockstep::text {
namespace {

TEST(MergeTables, AreReadApartFromTheRestOfTheDocument) {
  const auto read = read_with_tables(R"({"added_tokens": [{"id": 7, "special": true}, {"merges": ["x"]}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "é\n": 3}, "dropout": null,
                "merges": [["a", "b"], "ab b", ["", "b"]], "nested": {"vocab": {"z": 1.5}, "merges": []}},
      "vocab": {"c": 5}, "n": [-1, 2, 3.5, "s", false, []]})");
  ASSERT_TRUE(read.has_value());
  using Tokens = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(read->tables.vocabulary, (Tokens{{"a", 0}, {"b", 1}, {"ab", 2}, {"é\n", 3}}));
  ASSERT_EQ(read->tables.merges.size(), 3u);
  EXPECT_EQ(read->tables.merges[0].left(), "a");
  EXPECT_EQ(read->tables.merges[0].right(), "b");
  EXPECT_EQ(read->tables.merges[1].left(), "ab");
  EXPECT_EQ(read->tables.merges[1].right(), "b");
  EXPECT_EQ(read->tables.merges[2].left(), "");
  EXPECT_EQ(read->document, nlohmann::json::parse(R"({"added_tokens": [{"id": 7, "special": true}, {"merges": ["x"]}],
      "model": {"type": "BPE", "vocab": {}, "dropout": null, "merges": [], "nested": {"vocab": {"z": 1.5}, "merges": []}},
      "vocab": {"c": 5}, "n": [-1, 2, 3.5, "s", false, []]})"));
}

TEST(MergeTables, AreLeftToAPlainParseWhereAnythingIsUnusual) {
  const auto with = [](const std::string& vocabulary, const std::string& merges) {
    return read_with_tables(R"({"model": {"vocab": )" + vocabulary + R"(, "merges": )" + merges + "}}").has_value();
  };
  EXPECT_TRUE(with(R"({"a": 0})", R"(["a a"])"));
  for (const char* vocabulary : {"{}", "[]", "5", R"({"a": "0"})", R"({"a": 0.5})", R"({"a": [0]})", R"({"a": {}})",
                                 R"({"a": null})", R"({"a": true})", R"({"a": 18446744073709551615})"}) {
    EXPECT_FALSE(with(vocabulary, R"(["a a"])")) << vocabulary;
  }
  for (const char* merges : {"[]", "{}", R"(["a"])", R"(["a a a"])", "[5]", R"([["a"]])", R"([["a", "a", "a"]])",
                             R"([["a", 5]])", R"([["a", ["a"]]])", "[null]", "[{}]"}) {
    EXPECT_FALSE(with(R"({"a": 0})", merges)) << merges;
  }
  for (const char* text : {"", "{", R"({"model": {"vocab": {"a": 0}, "merges": ["a a"]}, "model": 5})",
                           R"({"model": {"vocab": {"a": 0}, "vocab": {"a": 0}, "merges": ["a a"]}})",
                           R"({"model": {"vocab": {"a": 0}, "merges": ["a a"]}} x)"}) {
    EXPECT_FALSE(read_with_tables(text).has_value()) << text;
  }
}

TEST(MergeTables, AreEmptyForAModelWithoutThem) {
  const char* text = R"({"model": {"type": "Unigram", "vocab": [["a", -1.5], ["b", -2]]}})";
  const auto read = read_with_tables(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->tables.empty());
  EXPECT_EQ(read->document, nlohmann::json::parse(text));
}

TEST(MergeTables, DoNotNestDeeply) {
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_FALSE(read_with_tables(R"({"model": {"vocab": {"a": 0}, "merges": ["a a"]}, "x": )" + deep + "}").has_value());
}

}  // namespace
}  // namespace lockstep::text
