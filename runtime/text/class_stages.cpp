#include "runtime/text/class_stages.h"

#include <fmt/format.h>

namespace lockstep::text {
namespace {

using nlohmann::json;

/// `changes`: JSON text of an object, or empty.
void put(json& object, std::string_view changes) {
  if (changes.empty()) return;
  const json parsed = json::parse(changes);
  for (const auto& [key, value] : parsed.items()) {
    if (key == "model") {
      object[key].update(value);
    } else {
      object[key] = value;
    }
  }
}

}  // namespace

Result<void> put_class_stages(const TokenizerSettings& settings, json& tokenizer, std::string_view origin) {
  const TokenizerClass* chosen = settings.tokenizer_class;
  if (chosen == nullptr) return ok();
  const JsonField root(tokenizer, std::string(origin));
  LOCKSTEP_TRY(const JsonField model, root.at("model"));
  LOCKSTEP_TRY(const std::string type, model.string_or("type", "BPE"));
  if (type != "BPE") {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/text] cannot read {}: model.type: found \"{}\", expected \"BPE\" for the class "
                             "{}; name PreTrainedTokenizerFast as tokenizer_class in tokenizer_config.json to take the "
                             "file as it is",
                             origin, type, chosen->name)};
  }
  put(tokenizer, chosen->stages);
  if (settings.adds_prefix) put(tokenizer, chosen->with_prefix);
  if (settings.adds_prefix && settings.legacy) put(tokenizer, chosen->with_legacy_prefix);
  if (chosen->takes_unk_token) tokenizer["model"]["unk_token"] = settings.text_of("unk_token");
  return ok();
}

PostProcessor class_post_processor(const TokenizerSettings& settings, PostProcessor of_file,
                                   std::optional<int32_t> bos) {
  if (settings.tokenizer_class == nullptr) return of_file;
  switch (settings.tokenizer_class->post_processor) {
    case ClassPostProcessor::kOfFile: return of_file;
    case ClassPostProcessor::kNone: return {};
    case ClassPostProcessor::kBos:
      PostProcessor added;
      if (bos) added.before = {*bos};
      return added;
  }
  return of_file;
}

}  // namespace lockstep::text
