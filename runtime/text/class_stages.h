// The stages that a tokenizer class of transformers has in its code, in place of those of tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/text/post_processor.h"
#include "runtime/text/tokenizer_settings.h"

namespace lockstep::text {

/// Puts the stages of the settings' class, if there is one, into the document of a tokenizer.json; `origin` names it.
/// Fails with `kUnsupported` if its model is not a byte-pair model.
Result<void> put_class_stages(const TokenizerSettings& settings, nlohmann::json& tokenizer, std::string_view origin);

/// `of_file`, or what the class has in its place; `bos`: the id of the token of that name.
PostProcessor class_post_processor(const TokenizerSettings& settings, PostProcessor of_file,
                                   std::optional<int32_t> bos);

}  // namespace lockstep::text
