// A model's files, read before any rank reads weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"
#include "runtime/generation/generation_config.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace lockstep {

using checkpoint::ActivationFormat;
using checkpoint::MatrixFormat;
using checkpoint::ModelSpec;
using checkpoint::served_format;
using generation::GenerationConfig;

/// Changes to a model when it is opened.
struct ModelOptions {
  std::optional<DType> dtype;           // of weights and activations; default: the checkpoint's
  std::optional<MatrixFormat> weights;  // matrices in codes (`served_format`), made while elements are read
  std::optional<ActivationFormat>
      activations;                         // of products with codes; default: as the checkpoint or `weights` has it
  CacheType kv_dtype = CacheType::kModel;  // of keys and values in caches
  std::optional<int64_t> window;           // attention window of every layer, instead of the model's own
  int64_t pinned_sinks = 0;                // first positions that stay visible to windows

  friend bool operator==(const ModelOptions&, const ModelOptions&) = default;
};

/// Immutable; copies share the files' contents. Thread-safe.
class Model {
 public:
  /// Reads config.json and generation_config.json of a Hugging Face directory; reads tokenizer.json and the chat
  /// template at their first use. Fails with `kNotFound`, `kInvalidArgument` or `kUnsupported`, naming the file and the
  /// key.
  static Result<Model> open(const std::filesystem::path& directory, const ModelOptions& options = {});

  /// A config.json alone: weights are pseudo-random. For plans and speed studies.
  static Result<Model> from_config(const std::filesystem::path& config_json, const ModelOptions& options = {});

  /// The architecture as configured: the file's, changed by the options.
  const ModelSpec& spec() const;
  DType dtype() const;
  const ModelOptions& options() const;
  /// The config.json that was read.
  const std::filesystem::path& config_file() const;
  /// The model's directory; empty: weights are pseudo-random.
  const std::optional<std::filesystem::path>& directory() const;
  /// A hash of the sizes, headers and samples of the weight files; "none" for pseudo-random weights. Fails with
  /// `kNotFound` if one cannot be read.
  Result<std::string> hash_of_weights() const;

  /// The options of generation_config.json or, if there is none, of config.json.
  const GenerationConfig& generation() const;
  /// What those files have that has no effect, as messages for the user.
  const std::vector<std::string>& warnings() const;

  /// Null: the model takes ids only. Lives as long as a copy of the model. Fails when the file is damaged.
  Result<const text::Tokenizer*> tokenizer() const;
  /// The ids of `text` with the tokenizer's special tokens. Fails with `kNotFound` without a tokenizer and with
  /// `kInvalidArgument` for text that is not UTF-8.
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      text::SpecialTokens special = text::SpecialTokens::kAdd) const;
  /// A conversation in the model's chat template, with the special tokens as text; the date is filled in.
  Result<std::string> render_chat(const std::vector<text::Message>& messages, text::ChatOptions options = {}) const;
  /// Its ids.
  Result<std::vector<int32_t>> encode_chat(const std::vector<text::Message>& messages,
                                           text::ChatOptions options = {}) const;
  /// The text of `ids`.
  Result<std::string> decode(std::span<const int32_t> ids,
                             text::SpecialPieces special = text::SpecialPieces::kSkip) const;

  /// The most tokens that a sequence may have; empty: limited by its slot's capacity only.
  std::optional<int64_t> longest_sequence() const;

 private:
  struct Files;
  explicit Model(std::shared_ptr<const Files> files) : files_(std::move(files)) {}
  std::shared_ptr<const Files> files_;  // immutable, so copies may share it
};

}  // namespace lockstep
