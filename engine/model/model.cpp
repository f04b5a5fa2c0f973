#include "lockstep/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "engine/model/served_spec.h"

namespace lockstep {
namespace {

/// Keys of generation_config.json that change no answer.
constexpr std::string_view kNotes[] = {"_from_model_config", "transformers_version", "cache_implementation",
                                       "use_cache"};

std::vector<std::string> warnings_of(const std::vector<std::string>& ignored) {
  std::vector<std::string> warnings;
  for (const std::string& name : ignored) {
    if (std::ranges::find(kNotes, name) != std::end(kNotes)) continue;
    warnings.push_back(fmt::format("generation_config.json: {} is not known and was ignored", name));
  }
  return warnings;
}

/// transformers reads generation_config.json alone where there is one.
std::string without_end(const std::vector<int32_t>& ids_of_model) {
  return fmt::format(
      "generation_config.json: found no eos_token_id: no token ends a row, as in transformers, not even {} of "
      "config.json; add it to the file to end rows there",
      fmt::join(ids_of_model, ", "));
}

/// transformers adds an adapter (LoRA) to the weights where the package peft is installed.
Result<void> refuse_adapter(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory / "adapter_config.json", error)) return ok();
  return Error{ErrorKind::kUnsupported,
               fmt::format("[engine/model] cannot open {}: found an adapter (adapter_config.json), expected whole "
                           "weights; merge it into its base model, or remove the file to go on without it",
                           directory.string())};
}

Error no_tokenizer(std::string_view what) {
  return {ErrorKind::kNotFound,
          fmt::format("[engine/model] cannot {}: found no tokenizer.json, expected one; give token ids", what)};
}

}  // namespace

/// Contents of the files. Tokenizer and chat template are read at their first use: only one rank of many needs them.
struct Model::Files {
  ModelSpec spec;
  ModelOptions options;
  std::filesystem::path config_file;
  std::optional<std::filesystem::path> directory;
  GenerationConfig generation;
  std::vector<std::string> warnings;

  mutable std::mutex mutex;  // guards the two below
  mutable std::optional<Result<std::unique_ptr<text::Tokenizer>>> tokenizer;
  mutable std::optional<Result<text::ModelChat>> chat;

  Result<const text::Tokenizer*> read_tokenizer() const {
    std::lock_guard lock(mutex);
    if (!directory) return static_cast<const text::Tokenizer*>(nullptr);
    if (!tokenizer) tokenizer.emplace(text::load_tokenizer(*directory));
    if (tokenizer->has_value()) return static_cast<const text::Tokenizer*>(tokenizer->value().get());
    if (tokenizer->error().kind == ErrorKind::kNotFound) return static_cast<const text::Tokenizer*>(nullptr);
    return tokenizer->error();
  }

  Result<const text::ModelChat*> read_chat() const {
    std::lock_guard lock(mutex);
    if (!directory) return no_tokenizer("apply a chat template");
    if (!chat) chat.emplace(text::load_chat(*directory));
    if (!chat->has_value()) return chat->error();
    return static_cast<const text::ModelChat*>(&chat->value());
  }
};

Result<Model> Model::open(const std::filesystem::path& directory, const ModelOptions& options) {
  auto files = std::make_shared<Files>();
  files->config_file = directory / "config.json";
  LOCKSTEP_TRY_VOID(refuse_adapter(directory));
  LOCKSTEP_TRY(files->spec, model::served_spec(files->config_file, options));
  files->options = options;
  files->directory = directory;
  LOCKSTEP_TRY(generation::LoadedConfig loaded, generation::read_generation_config(directory));
  files->generation = std::move(loaded.config);
  files->warnings = warnings_of(loaded.ignored);
  if (files->generation.eos_token_ids.empty()) {
    LOCKSTEP_TRY(const generation::LoadedConfig of_model, generation::read_model_options(files->config_file));
    const std::vector<int32_t>& ids = of_model.config.eos_token_ids;
    if (!ids.empty()) files->warnings.push_back(without_end(ids));
  }
  return Model(std::move(files));
}

Result<Model> Model::from_config(const std::filesystem::path& config_json, const ModelOptions& options) {
  auto files = std::make_shared<Files>();
  files->config_file = config_json;
  LOCKSTEP_TRY(files->spec, model::served_spec(config_json, options));
  files->options = options;
  LOCKSTEP_TRY(generation::LoadedConfig loaded, generation::read_model_options(config_json));
  files->generation = std::move(loaded.config);
  return Model(std::move(files));
}

const ModelSpec& Model::spec() const { return files_->spec; }
DType Model::dtype() const { return files_->options.dtype.value_or(files_->spec.dtype); }
const ModelOptions& Model::options() const { return files_->options; }
const std::filesystem::path& Model::config_file() const { return files_->config_file; }
const std::optional<std::filesystem::path>& Model::directory() const { return files_->directory; }
const GenerationConfig& Model::generation() const { return files_->generation; }
const std::vector<std::string>& Model::warnings() const { return files_->warnings; }
std::optional<int64_t> Model::longest_sequence() const { return model::longest_sequence(files_->spec); }

Result<const text::Tokenizer*> Model::tokenizer() const { return files_->read_tokenizer(); }

Result<std::vector<int32_t>> Model::encode(std::string_view text, text::SpecialTokens special) const {
  LOCKSTEP_TRY(const text::Tokenizer* tokenizer, files_->read_tokenizer());
  if (tokenizer == nullptr) return no_tokenizer("encode text");
  return tokenizer->encode(text, special);
}

Result<std::string> Model::render_chat(const std::vector<text::Message>& messages, text::ChatOptions options) const {
  LOCKSTEP_TRY(const text::ModelChat* chat, files_->read_chat());
  return text::render_chat(*chat, messages, std::move(options));
}

Result<std::vector<int32_t>> Model::encode_chat(const std::vector<text::Message>& messages,
                                                text::ChatOptions options) const {
  LOCKSTEP_TRY(const std::string text, render_chat(messages, std::move(options)));
  return encode(text, text::SpecialTokens::kOmit);  // a template writes the special tokens itself
}

Result<std::string> Model::decode(std::span<const int32_t> ids, text::SpecialPieces special) const {
  LOCKSTEP_TRY(const text::Tokenizer* tokenizer, files_->read_tokenizer());
  if (tokenizer == nullptr) return no_tokenizer("decode ids");
  return tokenizer->decode({ids.begin(), ids.end()}, special);
}

}  // namespace lockstep
