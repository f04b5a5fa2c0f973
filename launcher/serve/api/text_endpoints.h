// Answers that need no engine request: /tokenize, /detokenize, /tokenizer_info, /v1/models.
#pragma once

#include <optional>
#include <string_view>

#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

/// {"prompt"} or {"messages"} ─► {"tokens", "count", "max_model_len"}
std::unique_ptr<Protocol> make_tokenize();

/// {"tokens"} ─► {"prompt"}
std::unique_ptr<Protocol> make_detokenize();

/// The tokenizer's special tokens and chat template, for clients that do without a tokenizer of their own.
HttpResponse tokenizer_info(const ReadContext& context);

/// The list of models, or the model `id`. `since`: Unix time.
HttpResponse models(const ReadContext& context, int64_t since, std::optional<std::string_view> id);

}  // namespace lockstep::serve
