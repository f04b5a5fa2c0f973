// The tokenizer class that transformers takes for a model. Source: AutoTokenizer.from_pretrained of transformers 5.24.
#pragma once

#include <filesystem>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"
#include "runtime/text/tokenizer_classes.h"

namespace lockstep::text {

/// By the model's tokenizer_config.json and config.json; a Llama class is not for a byte-level tokenizer.json, which is
/// read from `directory`. Null: the stages are those of the file. @blocking (disk)
Result<const TokenizerClass*> choose_class(const JsonField& tokenizer_config, const JsonField& config,
                                           const std::filesystem::path& directory);

}  // namespace lockstep::text
