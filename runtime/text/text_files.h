// The files of a model that are read here, besides config.json. The list of all of them: text_files() of tokenizer.h.
#pragma once

#include <string_view>

namespace lockstep::text {

inline constexpr std::string_view kTokenizerFile = "tokenizer.json";
inline constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr std::string_view kSpecialTokensFile = "special_tokens_map.json";
inline constexpr std::string_view kAddedTokensFile = "added_tokens.json";
inline constexpr std::string_view kTemplateFile = "chat_template.jinja";
inline constexpr std::string_view kToolTemplateFile = "additional_chat_templates/tool_use.jinja";
inline constexpr std::string_view kTextFiles[] = {kTokenizerFile,   kTokenizerConfigFile, kSpecialTokensFile,
                                                  kAddedTokensFile, kTemplateFile,        kToolTemplateFile};

}  // namespace lockstep::text
