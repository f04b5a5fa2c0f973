// What transformers' AutoTokenizer makes of the settings beside a tokenizer.json
// (tools/make_tokenizer_settings_goldens.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "tests/temporary_directory.h"

namespace lockstep::text {
namespace {

using Json = nlohmann::ordered_json;  // the order of keys gives new tokens their ids
using Ids = std::vector<int32_t>;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kGoldens = LOCKSTEP_TEXT_GOLDENS;

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return Json::parse(file);
}

/// A model's directory with the files of a case.
class Written {
 public:
  explicit Written(const Json& one) {
    Json tokenizer = read_json(kGoldens / "tokenizers" / one["tokenizer"].get<std::string>() / "tokenizer.json");
    if (!one["added_tokens"].is_null()) tokenizer["added_tokens"] = one["added_tokens"];
    write("tokenizer.json", tokenizer);
    for (const auto& [name, content] : one["files"].items()) write(name, content);
  }

  void write(const std::string& name, const Json& content) const { std::ofstream(path() / name) << content; }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST(TokenizerSettings, TextsAreEncodedAndDecodedAsByTransformers) {
  const Json cases = read_json(kGoldens / "settings.json");
  ASSERT_EQ(cases.size(), 70u);
  for (const Json& one : cases) {
    SCOPED_TRACE(one["class"].dump() + one["tokenizer"].dump() + one["files"].dump());
    const Written model(one);
    const auto loaded = load_tokenizer(model.path());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const Tokenizer& tokenizer = *loaded.value();
    for (const Json& entry : one["texts"]) {
      const auto text = entry["text"].get<std::string>();
      const auto ids = entry["ids"].get<Ids>();
      EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kAdd).value(), ids) << text;
      EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kOmit).value(), entry["plain"].get<Ids>()) << text;
      EXPECT_EQ(tokenizer.decode(ids, SpecialPieces::kKeep).value(), entry["decoded"].get<std::string>());
      EXPECT_EQ(tokenizer.decode(ids, SpecialPieces::kSkip).value(), entry["skipped"].get<std::string>());
    }
  }
}

TEST(TokenizerSettings, TemplatesHaveTheNamedTokensOfTransformers) {
  for (Json& one : read_json(kGoldens / "settings.json")) {
    SCOPED_TRACE(one["files"].dump());
    one["files"]["tokenizer_config.json"]["chat_template"] = "x";
    const Written model(one);
    const auto loaded = load_chat(model.path());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const ModelChat& chat = loaded.value();
    std::map<std::string, std::string> names;
    for (const auto& [name, text] : chat.other_tokens) names[name] = text;
    if (!chat.bos_token.empty()) names["bos_token"] = chat.bos_token;
    if (!chat.eos_token.empty()) names["eos_token"] = chat.eos_token;
    EXPECT_EQ(names, (one["names"].get<std::map<std::string, std::string>>()));
  }
}

Json llama(const Json& config) {
  return {{"tokenizer", "llama2"},
          {"added_tokens", nullptr},
          {"files", {{"config.json", {{"model_type", "llama"}}}, {"tokenizer_config.json", config}}}};
}

std::string refusal(const Written& model) {
  const auto tokenizer = load_tokenizer(model.path());
  EXPECT_FALSE(tokenizer.has_value());
  return tokenizer.has_value() ? "" : tokenizer.error().message;
}

TEST(TokenizerSettings, ErrorsNameTheFileAndTheKey) {
  const Written model(llama({{"tokenizer_class", "LlamaTokenizer"}, {"legacy", "no"}}));
  EXPECT_THAT(refusal(model), AllOf(HasSubstr("tokenizer_config.json: legacy"), HasSubstr("true or false")));
  EXPECT_THAT(refusal(Written(llama({{"bos_token", 5}}))), HasSubstr("tokenizer_config.json: bos_token"));
  EXPECT_THAT(refusal(Written(llama({{"added_tokens_decoder", {{"one", {{"content", "x"}}}}}}))),
              HasSubstr("added_tokens_decoder.one: found the key \"one\", expected an id"));
  model.write("tokenizer_config.json", Json::array());
  EXPECT_THAT(refusal(model), AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("a JSON object")));
}

TEST(TokenizerSettings, AClassIsForBytePairsOnly) {
  Json one = llama({{"tokenizer_class", "LlamaTokenizer"}});
  one["tokenizer"] = "unigram";
  EXPECT_THAT(refusal(Written(one)),
              HasSubstr("model.type: found \"Unigram\", expected \"BPE\" for the class LlamaTokenizer; name"));
}

}  // namespace
}  // namespace lockstep::text
