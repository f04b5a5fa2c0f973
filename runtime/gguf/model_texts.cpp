#include "runtime/gguf/model_texts.h"

#include <fstream>
#include <sstream>

#include "runtime/gguf/derived_files.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

struct DerivedFile {
  std::string_view name;
  Result<json> (*make)(const GgufModel& model);
};

constexpr DerivedFile kFiles[] = {{"config.json", make_config},
                                  {"generation_config.json", make_generation_config},
                                  {"tokenizer.json", make_tokenizer},
                                  {"tokenizer_config.json", make_tokenizer_config}};

}  // namespace

bool is_inside(const std::filesystem::path& file) { return is_gguf(file.parent_path()); }

Result<std::optional<std::string>> derived_text(const std::filesystem::path& file) {
  for (const DerivedFile& derived : kFiles) {
    if (file.filename() != derived.name) continue;
    LOCKSTEP_TRY(const GgufModel model, read_model(file.parent_path()));
    LOCKSTEP_TRY(const json document, derived.make(model));
    if (document.is_null()) break;
    return std::optional(document.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  return std::optional<std::string>();
}

Result<std::optional<std::string>> read_model_text(const std::filesystem::path& file) {
  if (is_inside(file)) return derived_text(file);
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  if (!stream || !(content << stream.rdbuf())) return std::optional<std::string>();
  return std::optional(std::move(content).str());
}

}  // namespace lockstep::gguf
