#include "runtime/text/class_choice.h"

#include <algorithm>

#include "runtime/gguf/model_texts.h"
#include "runtime/text/text_files.h"

namespace lockstep::text {
namespace {

std::string_view without_fast(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return name;
}

const TokenizerClass* find_class(std::string_view name) {
  const auto classes = tokenizer_classes();
  const auto entry = std::ranges::find(classes, without_fast(name), &TokenizerClass::name);
  return entry == classes.end() ? nullptr : &*entry;
}

const RegisteredClass* find_registered(std::string_view model_type) {
  const auto all = registered_classes();
  const auto entry = std::ranges::find(all, model_type, &RegisteredClass::model_type);
  return entry == all.end() ? nullptr : &*entry;
}

/// Whether the directory has its own code for a tokenizer. It does not run.
bool has_own_code(const JsonField& tokenizer_config) {
  const auto map = tokenizer_config.find("auto_map");
  return map && (map->value().is_array() || map->find("AutoTokenizer"));
}

}  // namespace

Result<const TokenizerClass*> choose_class(const JsonField& tokenizer_config, const JsonField& config,
                                           const std::filesystem::path& directory) {
  LOCKSTEP_TRY(const std::string model_type, config.string_or("model_type", ""));
  LOCKSTEP_TRY(const std::string of_model, config.string_or("tokenizer_class", ""));
  LOCKSTEP_TRY(const std::string named, tokenizer_config.string_or("tokenizer_class", of_model));
  const RegisteredClass* registered = find_registered(model_type);
  if (named.empty()) return registered == nullptr ? nullptr : find_class(registered->name);
  if (has_own_code(tokenizer_config)) return find_class(named);
  if (registered != nullptr && registered->prevails) return find_class(registered->name);
  if (registered != nullptr && registered->name.empty()) return nullptr;
  if (without_fast(named) == "LlamaTokenizer") {
    LOCKSTEP_TRY(const auto tokenizer, gguf::read_model_text(directory / kTokenizerFile));
    if (tokenizer && tokenizer->find("\"ByteLevel\"") != std::string::npos) return nullptr;
  }
  return find_class(named);
}

}  // namespace lockstep::text
