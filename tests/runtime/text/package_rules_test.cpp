// Rules of single parts of a tokenizer.json. The expected values are those of the package tokenizers 0.23.3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/text/json_number.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

/// A tokenizer that splits text into `characters`, which have the ids 0, 1, …
Json letters(const std::vector<const char*>& characters) {
  Json vocabulary = Json::object();
  for (const char* c : characters) vocabulary.emplace(c, vocabulary.size());
  return {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

Json unigram(const std::string& vocabulary) {
  return {{"model", {{"type", "Unigram"}, {"vocab", Json::parse(vocabulary)}}}};
}

Json added(const char* content, Json options = Json::object()) {
  options["id"] = 0;
  options["content"] = content;
  options.emplace("normalized", false);
  return options;
}

std::unique_ptr<Tokenizer> parse(const Json& json) { return parse_tokenizer(json.dump(), "rules").value(); }

Ids encode(const Json& json, std::string_view text) { return parse(json)->encode(text, SpecialTokens::kAdd).value(); }

Error error_of(const Json& json) {
  const auto parsed = parse_tokenizer(json.dump(), "rules");
  return parsed.has_value() ? Error{ErrorKind::kInternal, "it was taken"} : parsed.error();
}

Error encoding_error(const Json& json, std::string_view text) {
  const auto ids = parse(json)->encode(text, SpecialTokens::kAdd);
  return ids.has_value() ? Error{ErrorKind::kInternal, "it was encoded"} : ids.error();
}

TEST(AddedTokenRules, FindATokenOfWhiteSpaceBehindOneThatTakesTheWhiteSpaceToItsRight) {
  Json json = letters({"a", "b", " ", "\n"});
  json["added_tokens"] = {added("<|end|>", {{"rstrip", true}}), added("\n")};
  EXPECT_THAT(encode(json, "a<|end|>\n b"), ElementsAre(0, 4, 3, 2, 1));
  EXPECT_THAT(encode(json, "a<|end|> b"), ElementsAre(0, 4, 1));
}

TEST(AddedTokenRules, DropATokenWhoseTextBelongsToTheTokenBefore) {
  Json json = letters({"a", "b", " ", "\n"});
  json["added_tokens"] = Json::array({added("\n\n", {{"lstrip", true}, {"rstrip", true}})});
  EXPECT_THAT(encode(json, "a\n\n\n\nb"), ElementsAre(0, 4, 1));
  json["added_tokens"] = {added("<e>", {{"rstrip", true}}), added("\n", {{"lstrip", true}})};
  EXPECT_THAT(encode(json, "a<e> \nb"), ElementsAre(0, 4, 1));
  EXPECT_THAT(encode(json, "a<e>\n b"), ElementsAre(0, 4, 1));  // the package panics
}

TEST(AddedTokenRules, NumberTokensFromTheSizeOfTheVocabularyInTheOrderOfTheList) {
  Json json = letters({"a", "b", "c", "d", "e", "f", "g"});
  json["added_tokens"] = {added("<y>"), added("c"), added("<x>"), added("<y>")};
  json["added_tokens"][0]["id"] = 12;
  json["added_tokens"][1]["id"] = 9;
  json["added_tokens"][2]["id"] = 10;
  const auto tokenizer = parse(json);
  EXPECT_THAT(tokenizer->encode("a<x>c<y>", SpecialTokens::kAdd).value(), ElementsAre(0, 8, 2, 7));
  EXPECT_EQ(tokenizer->token_of(7), "<y>");
  EXPECT_EQ(tokenizer->vocabulary(), 9);
}

TEST(AddedTokenRules, RefuseANumberThatATokenOfTheVocabularyHas) {
  Json json = letters({"a", "b", "c"});
  json["model"]["vocab"]["d"] = 4;
  json["added_tokens"] = {added("<x>"), added("<y>")};
  const Error error = error_of(json);
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("added_tokens: found the id 4 for \"<x>\", which \"d\" has"));
}

Json template_of(const std::vector<const char*>& parts) {
  Json single = Json::array();
  for (const std::string part : parts) {
    single.push_back(part == "$A" ? Json{{"Sequence", {{"id", "A"}}}} : Json{{"SpecialToken", {{"id", part}}}});
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"special_tokens", {{"<s>", {{"ids", {7}}}}, {"</s>", {{"ids", {8}}}}}}};
}

Json steps(const std::vector<Json>& processors) { return {{"type", "Sequence"}, {"processors", processors}}; }

TEST(PostProcessorRules, WrapTheResultOfTheStepsBeforeButNotThatOfATemplate) {
  const Json bert = {{"type", "BertProcessing"}, {"cls", {"<s>", 7}}, {"sep", {"</s>", 8}}};
  const Json levels = {{"type", "ByteLevel"}};
  Json json = letters({"a", "b"});
  json["post_processor"] = steps({bert, template_of({"<s>", "$A"})});
  EXPECT_THAT(encode(json, "ab"), ElementsAre(7, 7, 0, 1, 8));
  json["post_processor"] = steps({template_of({"$A"}), steps({template_of({"<s>", "$A"}), levels}), levels});
  EXPECT_THAT(encode(json, "ab"), ElementsAre(7, 0, 1));
  for (const Json& second : {bert, template_of({"$A", "</s>"}), steps({levels, template_of({"$A"})})}) {
    json["post_processor"] = steps({steps({template_of({"<s>", "$A"})}), second});
    const Error error = error_of(json);
    EXPECT_EQ(error.kind, ErrorKind::kUnsupported) << second;
    EXPECT_THAT(error.message, HasSubstr("post_processor.processors[1]"));
  }
}

TEST(UnknownCharacters, AreLeftOutByBytePairsWithoutAnUnknownToken) {
  EXPECT_THAT(encode(letters({"a", "b"}), "axb"), ElementsAre(0, 1));
}

TEST(UnknownCharacters, AreAnErrorWhereTheUnknownTokenIsMissing) {
  Json json = letters({"a", "b"});
  json["model"]["unk_token"] = "<u>";
  EXPECT_THAT(encode(json, "ab"), ElementsAre(0, 1));
  const Error error = encoding_error(json, "ab\u00e9b");
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("\"\u00e9\""));
  EXPECT_THAT(error.message, HasSubstr("\"<u>\" (model.unk_token)"));
}

TEST(UnknownCharacters, AreAnErrorForUnigramWithoutAnUnknownToken) {
  Json json = unigram(R"([["a", -1.0], ["b", -1.0], ["ab", -1.0], ["xy", -3.0], ["<0x78>", -1.0]])");
  json["model"]["byte_fallback"] = true;
  EXPECT_THAT(encode(json, "ab"), ElementsAre(2));
  for (const char* text : {"x", "axb", "xy"}) {
    const Error error = encoding_error(json, text);
    EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument) << text;
    EXPECT_THAT(error.message, HasSubstr("\"x\""));
    EXPECT_THAT(error.message, HasSubstr("model.unk_id"));
  }
}

TEST(UnigramScores, AreThoseOfThePackageWhereTwoPathsAreTied) {
  const std::string json = R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0],
      ["x", -6.2826995849609375], ["_", -6.629217624664307], ["__", -9.280904769897461]]}})";
  const auto tokenizer = parse_tokenizer(json, "rules").value();
  EXPECT_THAT(tokenizer->encode("x_____", SpecialTokens::kAdd).value(), ElementsAre(1, 3, 3, 2));
}

TEST(ReadNumber, RoundsLikeThePackage) {
  EXPECT_EQ(read_number("-9.280904769897461"), -9.28090476989746);
  EXPECT_NE(read_number("-9.280904769897461"), -9.280904769897461);
  EXPECT_EQ(read_number("-0.5"), -0.5);
  EXPECT_EQ(read_number("25e-1"), 2.5);
  EXPECT_EQ(read_number("1.5E+3"), 1500);
  EXPECT_EQ(read_number("2,5"), 2.5);  // the point of another locale
}

TEST(ReadNumber, DropsDigitsThatDoNotFitInto64Bits) {
  EXPECT_EQ(read_number("18446744073709551616"), 1844674407370955161.0 * 10);
  EXPECT_EQ(read_number("1844674407370955161999"), 1844674407370955161.0 * 1000);
  EXPECT_EQ(read_number("0.18446744073709551616"), 1844674407370955161.0 / 1e19);
}

TEST(ReadNumber, KnowsTheEndsOfTheRange) {
  EXPECT_EQ(read_number("1e308"), 1e308);
  EXPECT_EQ(read_number("1e-400"), 0.0);
  EXPECT_EQ(read_number("0e999999999999999999999"), 0.0);
  EXPECT_EQ(read_number("1e-999999999999999999999"), 0.0);
  EXPECT_EQ(read_number("1e309"), std::nullopt);
  EXPECT_EQ(read_number("-9e999999999999999999999"), std::nullopt);
}

Json replace(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

TEST(EmptyText, HasNothingToReplace) {
  Json json = letters({"a", "b", "X"});
  json["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteLevel"}}, replace("Regex", "$", "X")}}};
  EXPECT_EQ(parse(json)->decode({}, SpecialPieces::kKeep).value(), "");
  EXPECT_EQ(parse(json)->decode({0}, SpecialPieces::kKeep).value(), "aX");
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Strip"}}, replace("Regex", "^$", "X")}}};
  EXPECT_THAT(encode(json, "  "), ElementsAre());
}

TEST(MetaspaceRules, RefuseNormalizersThatRemoveTheBeginningOfATextWhoseFirstPieceIsMarked) {
  Json json = letters({"a", "b", "\u2581"});
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  const Json strip = {{"type", "Strip"}};
  for (const Json& step : {strip, Json{{"type", "StripAccents"}}, replace("Regex", "^\\s+", ""),
                           replace("String", "b", ""), replace("String", "bb", "a")}) {
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, step}}};
    const Error error = error_of(json);
    EXPECT_EQ(error.kind, ErrorKind::kUnsupported) << step;
    EXPECT_THAT(error.message, HasSubstr("normalizer.normalizers[1]: found \""));
  }
  for (const Json& step : {Json{{"type", "Strip"}, {"strip_left", false}}, replace("Regex", " {2,}", " "),
                           replace("String", "  ", "\u2581"), replace("String", "c", "b")}) {
    json["normalizer"] = step;
    EXPECT_THAT(encode(json, "a"), ElementsAre(2, 0)) << step;
  }
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  json["normalizer"] = strip;
  EXPECT_THAT(encode(json, " a"), ElementsAre(2, 0));
}

}  // namespace
}  // namespace lockstep::text
