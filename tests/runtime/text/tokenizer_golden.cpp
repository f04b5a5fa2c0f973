#include "tests/runtime/text/tokenizer_golden.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::text {
namespace {

using Ids = std::vector<int32_t>;

std::string stream(const Tokenizer& tokenizer, const Ids& ids, SpecialPieces special) {
  StreamDecoder decoder(tokenizer, special);
  std::string text;
  for (const int32_t id : ids) text += decoder.put(id).value();
  return text + decoder.finish().value();
}

void expect_text(const Tokenizer& tokenizer, const Ids& ids, SpecialPieces special, const std::string& expected) {
  EXPECT_EQ(tokenizer.decode(ids, special).value(), expected) << nlohmann::json(ids);
  EXPECT_EQ(stream(tokenizer, ids, special), expected) << nlohmann::json(ids);
}

}  // namespace

void expect_golden(const Tokenizer& tokenizer, const std::filesystem::path& path) {
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is missing: run tools/make_tokenizer_goldens.py";
  const auto golden = nlohmann::json::parse(file);
  ASSERT_GT(golden["encode"].size(), 50u);
  for (const auto& entry : golden["encode"]) {
    SCOPED_TRACE(path.parent_path().filename().string() + ": " + entry["text"].dump());
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kAdd).value(), ids);
    EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kOmit).value(), entry.value("plain", ids));
    const auto decoded = entry["decoded"].get<std::string>();
    expect_text(tokenizer, ids, SpecialPieces::kKeep, decoded);
    expect_text(tokenizer, ids, SpecialPieces::kSkip, entry.value("skipped", decoded));
  }
  for (const auto& entry : golden["decode"]) {
    SCOPED_TRACE(path.parent_path().filename().string());
    expect_text(tokenizer, entry["ids"].get<Ids>(), SpecialPieces::kKeep, entry["decoded"].get<std::string>());
  }
}

}  // namespace lockstep::text
