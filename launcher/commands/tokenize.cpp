#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "launcher/commands/tokenize.h"
#include "runtime/core/atomic_file.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {
namespace {

Result<std::vector<std::string>> read_texts(const TokenizeCommand& command) {
  if (!command.texts_file) return command.texts;
  LOCKSTEP_TRY(const std::string text, read_text_file(*command.texts_file, "--texts-file"));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> texts;
  bool sound = json.is_array();
  for (size_t i = 0; sound && i < json.size(); ++i) {
    sound = json[i].is_string();
    if (sound) texts.push_back(json[i].get<std::string>());
  }
  if (sound) return texts;
  return Error{ErrorKind::kInvalidArgument, fmt::format("[launcher] --texts-file {}: expected a JSON array of strings; "
                                                        "correct the file",
                                                        command.texts_file->string())};
}

}  // namespace

Result<void> tokenize(const TokenizeCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  LOCKSTEP_TRY(const auto tokenizer, text::load_tokenizer(command.model));
  LOCKSTEP_TRY(const std::vector<std::string> texts, read_texts(command));
  const auto special = command.special_tokens ? text::SpecialTokens::kAdd : text::SpecialTokens::kOmit;

  nlohmann::ordered_json out;
  out["ids"] = nlohmann::ordered_json::array();
  out["decoded"] = nlohmann::ordered_json::array();
  for (const std::string& text : texts) {
    LOCKSTEP_TRY(const std::vector<int32_t> ids, tokenizer->encode(text, special));
    LOCKSTEP_TRY(const std::string decoded, tokenizer->decode(ids, text::SpecialPieces::kKeep));
    out["ids"].push_back(ids);
    out["decoded"].push_back(decoded);
    if (!command.json) fmt::print("{}\n", fmt::join(ids, " "));
  }
  if (!command.json) return ok();
  return write_text_file(*command.json, out.dump() + "\n");
}

}  // namespace lockstep::launcher
