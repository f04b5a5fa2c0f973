#include "runtime/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/runtime/text/blank_tokenizer.h"

namespace lockstep::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

std::string golden_json(const std::string& style) {
  std::ifstream file(std::string(LOCKSTEP_TEXT_GOLDENS) + "/tokenizers/" + style + "/tokenizer.json");
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::unique_ptr<Tokenizer> golden(const std::string& style) {
  return parse_tokenizer(golden_json(style), style).value();
}

/// A tokenizer of single letters a-e with two merges, which a test changes to its liking.
Json small() {
  return Json::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "d": 5},
                         "merges": [["a", "b"], ["ab", "c"]]}, "decoder": {"type": "Fuse"}})");
}

std::unique_ptr<Tokenizer> parse(const Json& json) { return parse_tokenizer(json.dump(), "small").value(); }

Error error_of(const Json& json) {
  const auto parsed = parse_tokenizer(json.dump(), "small");
  return parsed.has_value() ? Error{ErrorKind::kInternal, "it was taken"} : parsed.error();
}

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, SpecialTokens::kAdd).value();
}

double seconds_to_encode(const Tokenizer& tokenizer, const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(tokenizer.encode(text, SpecialTokens::kAdd).has_value());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string repeated(std::string_view part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

TEST(Tokenizer, MergesTheBestRankedPairFirst) {
  EXPECT_THAT(encode(*parse(small()), "abcab"), ElementsAre(4, 3));
  Json other = small();
  other["model"]["vocab"]["bc"] = 6;
  other["model"]["merges"] = Json::parse(R"([["b", "c"], ["a", "b"]])");
  EXPECT_THAT(encode(*parse(other), "abcab"), ElementsAre(0, 6, 3));
}

TEST(Tokenizer, ReadsMergesWrittenAsPairsAndAsStrings) {
  Json strings = small();
  strings["model"]["merges"] = Json::parse(R"(["a b", "ab c"])");
  EXPECT_EQ(encode(*parse(strings), "abcab"), encode(*parse(small()), "abcab"));
}

TEST(Tokenizer, KeepsAWholeTokenWhenMergesAreIgnored) {
  Json json = small();
  json["model"]["vocab"]["cba"] = 6;
  EXPECT_THAT(encode(*parse(json), "cba"), ElementsAre(2, 1, 0));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(encode(*parse(json), "cba"), ElementsAre(6));
}

TEST(Tokenizer, FusesNeighbouringUnknownsOnlyWhenAsked) {
  Json json = small();
  json["model"]["unk_token"] = "d";
  EXPECT_THAT(encode(*parse(json), "axyb"), ElementsAre(0, 5, 5, 1));
  json["model"]["fuse_unk"] = true;
  EXPECT_THAT(encode(*parse(json), "axyb"), ElementsAre(0, 5, 1));
}

TEST(Tokenizer, RefusesDropout) {
  Json json = small();
  for (const Json& none : {Json(nullptr), Json(0), Json(0.0)}) {
    json["model"]["dropout"] = none;
    EXPECT_THAT(encode(*parse(json), "abcab"), ElementsAre(4, 3));
  }
  json["model"]["dropout"] = 0.5;
  const Error error = error_of(json);
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("model.dropout: found 0.5"));
}

TEST(Tokenizer, NamesTheOffsetOfTextThatIsNotUtf8) {
  const auto ids = golden("smollm")->encode("ab\xC3(", SpecialTokens::kAdd);
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(ids.error().message, HasSubstr("offset 2"));
  for (const char* bad : {"\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    EXPECT_FALSE(golden("smollm")->encode(bad, SpecialTokens::kAdd).has_value());
  }
}

TEST(Tokenizer, RefusesToDecodeAnUnknownId) {
  const auto tokenizer = golden("smollm");
  for (const int32_t id : {-1, tokenizer->vocabulary(), INT32_MAX}) {
    const auto text = tokenizer->decode({id}, SpecialPieces::kKeep);
    ASSERT_FALSE(text.has_value());
    EXPECT_EQ(text.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr(std::to_string(id)));
  }
}

TEST(Tokenizer, KnowsItsTokensByIdAndByName) {
  const auto tokenizer = golden("smollm");
  const auto end = tokenizer->id_of("<|im_end|>");
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(tokenizer->is_special(*end));
  EXPECT_EQ(tokenizer->token_of(*end), "<|im_end|>");
  EXPECT_FALSE(tokenizer->is_special(tokenizer->id_of("a").value()));
  EXPECT_EQ(tokenizer->id_of("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->token_of(tokenizer->vocabulary()), std::nullopt);
  EXPECT_TRUE(tokenizer->token_of(tokenizer->vocabulary() - 1).has_value());
}

TEST(Tokenizer, StripsUpToTheStatedNumberOfCharactersFromTheEndsOfTheText) {
  Json json = small();
  json["decoder"] = Json::parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                                    {"type": "Strip", "content": "a", "start": 1, "stop": 2}]})");
  const auto tokenizer = parse(json);
  const auto decode = [&](const Ids& ids) { return tokenizer->decode(ids, SpecialPieces::kKeep).value(); };
  EXPECT_EQ(decode({0, 0, 1, 0, 0, 0}), "aba");
  EXPECT_EQ(decode({0}), "");
  EXPECT_EQ(decode({0, 0, 0, 0}), "a");
  EXPECT_EQ(decode({}), "");
}

TEST(StreamDecoder, HoldsBackBytesThatDoNotYetMakeACharacter) {
  const auto tokenizer = golden("smollm");
  const Ids ids = encode(*tokenizer, "\U000130A7");  // a hieroglyph: four bytes without a merge
  ASSERT_EQ(ids.size(), 4u);
  StreamDecoder decoder(*tokenizer, SpecialPieces::kKeep);
  EXPECT_EQ(decoder.put(ids[0]).value(), "");
  EXPECT_EQ(decoder.put(ids[1]).value(), "");
  EXPECT_EQ(decoder.put(ids[2]).value(), "");
  EXPECT_EQ(decoder.put(ids[3]).value(), "\U000130A7");
  EXPECT_EQ(decoder.finish().value(), "");
}

TEST(StreamDecoder, GivesOutWhatWasHeldBackAtTheEnd) {
  const auto tokenizer = golden("smollm");
  const Ids ids = encode(*tokenizer, "\U000130A7");
  StreamDecoder decoder(*tokenizer, SpecialPieces::kKeep);
  EXPECT_EQ(decoder.put(ids[0]).value(), "");
  EXPECT_EQ(decoder.finish().value(), "\uFFFD");
}

TEST(StreamDecoder, GivesOutEachWordAsSoonAsItIsThere) {
  const auto tokenizer = golden("llama2");
  const Ids ids = encode(*tokenizer, "the gulls");
  StreamDecoder decoder(*tokenizer, SpecialPieces::kSkip);
  std::string text;
  for (const int32_t id : ids) text += decoder.put(id).value();
  EXPECT_EQ(text, "the gulls");  // nothing was left for finish()
}

TEST(StreamDecoder, GoesOnAfterAnUnknownId) {
  const auto tokenizer = golden("smollm");
  const Ids ids = encode(*tokenizer, "\u00e9\U000130A7");
  StreamDecoder decoder(*tokenizer, SpecialPieces::kKeep);
  std::string text;
  for (const int32_t id : ids) {
    EXPECT_FALSE(decoder.put(-7).has_value());
    text += decoder.put(id).value();
  }
  EXPECT_EQ(text, "\u00e9\U000130A7");
}

/// The text of `ids` behind that of `before`.
std::string text_behind(const Tokenizer& tokenizer, const Ids& before, const Ids& ids) {
  StreamDecoder decoder(tokenizer, SpecialPieces::kSkip);
  EXPECT_TRUE(decoder.follow(before).has_value());
  std::string text;
  for (const int32_t id : ids) text += decoder.put(id).value();
  return text + decoder.finish().value();
}

TEST(StreamDecoder, KeepsTheBlankOfItsFirstTokenBehindOtherIds) {
  Json metaspace = Json::parse(kBlankTokenizer);
  metaspace["decoder"] = Json::parse(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})");
  for (const auto& tokenizer : {blank_tokenizer(), parse(metaspace)}) {
    EXPECT_EQ(text_behind(*tokenizer, {kBegin, kThe, kCapital, kIs}, {kParis, kLetterA}), " Parisa");
    EXPECT_EQ(text_behind(*tokenizer, Ids(100, kThe), {kParis}), " Paris");
    for (const Ids& nothing : {Ids{}, Ids{kBegin}, Ids{kThe, kBegin}, Ids{kThe, 99}}) {
      EXPECT_EQ(text_behind(*tokenizer, nothing, {kParis, kThe}), "Paris the");
    }
  }
}

TEST(StreamDecoder, DividesARunOfBytesBetweenTheIdsBeforeAndItsOwn) {
  const auto tokenizer = blank_tokenizer();
  EXPECT_EQ(text_behind(*tokenizer, {kThe, kLineByte}, {kParis}), " Paris");
  EXPECT_EQ(text_behind(*tokenizer, {kThe, kLineByte}, {}), "");
  EXPECT_EQ(text_behind(*tokenizer, Ids(100, kLineByte), {kParis}), " Paris");
  EXPECT_EQ(text_behind(*tokenizer, {kThe, kLineByte}, {kLineByte, kParis}), "\n Paris");
  EXPECT_EQ(text_behind(*tokenizer, {kThe, kByteE2, kByte82}, {kByteAc, kParis}), "\u20AC Paris");
  EXPECT_EQ(text_behind(*tokenizer, {kThe, kByteE2}, {kByte82, kParis}), "\uFFFD Paris");
  EXPECT_EQ(text_behind(*tokenizer, {kThe, kLineByte, kLineByte}, {kByteE2, kParis}), "\uFFFD Paris");
  const auto levels = golden("smollm");
  const Ids ids = encode(*levels, "\U000130A7");
  EXPECT_EQ(text_behind(*levels, {ids[0], ids[1]}, {ids[2], ids[3]}), "\U000130A7");
  EXPECT_EQ(text_behind(*levels, {ids[0]}, encode(*levels, "a")), "a");
}

TEST(StreamDecoder, NeverSplitsACharacter) {
  for (const char* style : {"smollm", "llama2", "gemma", "unigram_bytes"}) {
    const auto tokenizer = golden(style);
    StreamDecoder decoder(*tokenizer, SpecialPieces::kKeep);
    for (const int32_t id : encode(*tokenizer, "a 👨‍👩‍👧‍👦 字é\U000130A7 z")) {
      const std::string part = decoder.put(id).value();
      EXPECT_TRUE(tokenizer->encode(part, SpecialTokens::kOmit).has_value()) << part;  // it is UTF-8
    }
  }
}

// The bound is 20 s on any machine (a second or two is usual): quadratic code takes minutes on these texts.
TEST(Tokenizer, TakesTimeInProportionToTheTextHoweverHostileItIs) {
  constexpr double kBound = 20;
  for (const char* style : {"smollm", "llama2", "llama3", "qwen2", "gemma", "unigram"}) {
    const auto tokenizer = golden(style);
    const size_t bytes = std::string_view(style) == "smollm" ? size_t{1} << 20 : size_t{1} << 17;
    for (const char* part : {"a", " ", "\n", "the lighthouse ", "1", "=", "\u0301\u0323", "😀", "\r\n \t", "<|im_",
                             "a\u0300\u0323", "ab'll", "<|endoftext|>"}) {
      EXPECT_LT(seconds_to_encode(*tokenizer, repeated(part, bytes)), kBound) << style << " " << part;
    }
  }
}

TEST(Tokenizer, GivesTheSameIdsWithinALimitAndNoneBeyondIt) {
  for (const char* style : {"smollm", "llama2", "llama3", "qwen2", "gemma", "unigram"}) {
    const auto tokenizer = golden(style);
    for (const std::string& text :
         {std::string(), std::string("the lighthouse 😀\r\n"), repeated("the lighthouse <|im_end|>\u0301 ", 4096),
          repeated(" ", 4096), repeated("a", 4096)}) {
      for (const SpecialTokens special : {SpecialTokens::kAdd, SpecialTokens::kOmit}) {
        const Ids whole = tokenizer->encode(text, special).value();
        EXPECT_EQ(tokenizer->encode_within(text, special, whole.size()).value(), whole) << style << " " << text;
        if (whole.empty()) continue;
        EXPECT_EQ(tokenizer->encode_within(text, special, whole.size() - 1).value(), std::nullopt) << style;
        EXPECT_EQ(tokenizer->encode_within(text, special, 0).value(), std::nullopt) << style;
      }
    }
  }
}

TEST(Tokenizer, EncodesOnlyTheBeginningOfATextFarBeyondTheLimit) {
  Json json = small();
  json["pre_tokenizer"] = Json::parse(R"({"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"})");
  const auto tokenizer = parse(json);
  const std::string text = repeated("c", 1024) + std::string(40, 'a') + "b";  // its end takes the expression for ever
  EXPECT_EQ(tokenizer->encode_within(text, SpecialTokens::kAdd, 2000).error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(tokenizer->encode_within(text, SpecialTokens::kAdd, 10).value(), std::nullopt);
}

TEST(ParseTokenizer, NamesTheComponentThatItDoesNotKnowAndThoseThatItKnows) {
  const std::pair<const char*, const char*> components[] = {{"normalizer", "NFC"},
                                                            {"pre_tokenizer", "ByteLevel"},
                                                            {"decoder", "Fuse"},
                                                            {"post_processor", "TemplateProcessing"},
                                                            {"model", "Unigram"}};
  for (const auto& [key, known] : components) {
    Json json = small();
    json[key]["type"] = "Telepathy";
    const Error error = error_of(json);
    EXPECT_EQ(error.kind, ErrorKind::kUnsupported) << key;
    EXPECT_THAT(error.message, HasSubstr("Telepathy"));
    EXPECT_THAT(error.message, HasSubstr(known));
    EXPECT_THAT(error.message, HasSubstr("small"));
  }
}

TEST(ParseTokenizer, NamesTheKeyThatIsDamaged) {
  const auto expect = [](const char* pointer, Json value, const char* named) {
    Json json = small();
    json[Json::json_pointer(pointer)] = std::move(value);
    const Error error = error_of(json);
    EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument) << pointer;
    EXPECT_THAT(error.message, HasSubstr(named));
  };
  expect("/model", nullptr, "\"model\"");
  expect("/model/vocab", Json::array(), "model.vocab");
  expect("/model/vocab/a", -1, "model.vocab");
  expect("/model/vocab/a", 1, "model.vocab");
  expect("/model/vocab/a", int64_t{1} << 40, "model.vocab");
  expect("/model/merges/1", "nopair", "model.merges");
  expect("/model/merges/1", Json::array({"a", "z"}), "model.merges");
  expect("/model/merges/1", 5, "model.merges");
  expect("/model/fuse_unk", "yes", "model.fuse_unk");
  expect("/normalizer", Json{{"type", 5}}, "normalizer.type");
  expect("/normalizer", Json{{"type", "Replace"}}, "normalizer");
  expect("/added_tokens", Json::array({Json{{"id", -2}, {"content", "z"}}}), "added_tokens[0]");
  expect("/added_tokens", Json::array({Json{{"content", "z"}}}), "added_tokens[0]");
  expect("/post_processor", Json{{"type", "TemplateProcessing"}, {"single", Json::array()}}, "post_processor.single");
}

TEST(ParseTokenizer, RefusesTextThatIsNoJson) {
  for (const char* text : {"", "{", "[]", "null", "5", "{\"model\": {}}", "\xff"}) {
    EXPECT_FALSE(parse_tokenizer(text, "broken").has_value()) << text;
  }
}

TEST(ParseTokenizer, RefusesAnExpressionThatIsNoneAndShowsIt) {
  Json json = small();
  json["pre_tokenizer"] =
      Json::parse(R"({"type": "Split", "pattern": {"Regex": "(unclosed"}, "behavior": "Isolated"})");
  const Error error = error_of(json);
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("(unclosed"));
}

TEST(ParseTokenizer, StopsAnExpressionThatBacktracksWithoutEnd) {
  Json json = small();
  json["pre_tokenizer"] = Json::parse(R"({"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"})");
  const auto ids = parse(json)->encode(std::string(40, 'a') + "b", SpecialTokens::kAdd);
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().kind, ErrorKind::kResourceExhausted);
}

TEST(ParseTokenizer, RefusesSequencesNestedWithoutEnd) {
  Json nested = {{"type", "Fuse"}};
  for (int i = 0; i < 1000; ++i) nested = {{"type", "Sequence"}, {"decoders", Json::array({nested})}};
  Json json = small();
  json["decoder"] = nested;
  EXPECT_EQ(error_of(json).kind, ErrorKind::kInvalidArgument);
}

TEST(LoadTokenizer, SaysWhichFileIsMissing) {
  const auto loaded = load_tokenizer("/no/such/model");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(loaded.error().message, HasSubstr("/no/such/model/tokenizer.json"));
}

}  // namespace
}  // namespace lockstep::text
