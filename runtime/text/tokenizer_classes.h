// The tokenizer classes of transformers that have stages in their code, and the classes of model types. For these
// classes a tokenizer.json gives the vocabulary, the merges and the post-processor only.
#pragma once

#include <span>
#include <string_view>

namespace lockstep::text {

/// What becomes of the post-processor of tokenizer.json.
enum class ClassPostProcessor { kOfFile, kNone, kBos };

struct TokenizerClass {
  std::string_view name;  // without "Fast"
  /// JSON: {"model": {…}, "normalizer": …, "pre_tokenizer": …, "decoder": …}; of the model, what is not in the file.
  std::string_view stages;
  /// JSON, or empty: what differs with the setting `add_prefix_space`, and with `legacy` besides.
  std::string_view with_prefix = {};
  std::string_view with_legacy_prefix = {};
  /// JSON: the named special tokens without any settings, {"bos_token": "<s>", …}.
  std::string_view default_tokens;
  ClassPostProcessor post_processor = ClassPostProcessor::kOfFile;
  bool adds_prefix = false;      // `add_prefix_space` where it is not set
  bool takes_unk_token = false;  // the named one as the model's unknown token
  bool resets_named = false;     // what the files set for named special tokens, such as lstrip, has no effect
  bool resets_extra = false;     // nor for the other ones
};

std::span<const TokenizerClass> tokenizer_classes();

/// The class of a model type.
struct RegisteredClass {
  std::string_view model_type;
  std::string_view name;  // empty: the stages of tokenizer.json
  bool prevails;          // over the class in the files
};

std::span<const RegisteredClass> registered_classes();

}  // namespace lockstep::text
