// The files of a model beside its tokenizer.json, as transformers 5.24 reads them: tokenizer_config.json,
// special_tokens_map.json, added_tokens.json, and of config.json what chooses the class. Source:
// PreTrainedTokenizerBase._from_pretrained and TokenizersBackend.__init__.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/tokenizer_classes.h"

namespace lockstep::text {

struct SpecialToken {
  std::string name;  // "bos_token"
  AddedToken token;
};

struct TokenizerSettings {
  const TokenizerClass* tokenizer_class = nullptr;    // null: the stages of tokenizer.json
  bool adds_prefix = false;                           // `add_prefix_space`, for the class's stages
  bool legacy = false;                                // for the class's stages
  bool splits_special_tokens = false;                 // special tokens in a text are not found
  std::vector<SpecialToken> named;                    // bos_token, eos_token, …
  std::vector<AddedToken> extra;                      // special tokens without a name
  std::map<int64_t, AddedToken> listed;               // added tokens by id
  bool lists_all = false;                             // those of tokenizer.json do not belong to the list
  std::map<std::string, std::string> chat_templates;  // by name; a single one is "default"

  /// The text of a named special token; "" when there is none.
  std::string text_of(std::string_view name) const;

  /// The added tokens of the tokenizer, in the order in which they get ids; `of_file`: those of tokenizer.json.
  std::vector<AddedToken> added_tokens(const std::vector<AddedToken>& of_file) const;
};

/// `directory` may be a GGUF file, which has no class. Missing files are empty. Fails with `kInvalidArgument`, naming
/// the key. @blocking (disk)
Result<TokenizerSettings> read_tokenizer_settings(const std::filesystem::path& directory);

}  // namespace lockstep::text
