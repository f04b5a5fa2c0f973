#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "launcher/commands/texts_file.h"
#include "launcher/commands/tokenize.h"
#include "runtime/core/atomic_file.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {
Result<void> tokenize(const TokenizeCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  LOCKSTEP_TRY(const auto tokenizer, text::load_tokenizer(command.model));
  std::vector<std::string> texts = command.texts;
  if (command.texts_file) {
    LOCKSTEP_TRY(texts, read_texts_file(*command.texts_file));
  }
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
