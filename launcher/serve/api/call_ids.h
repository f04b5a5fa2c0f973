// Ids of tool calls in the form that a chat template accepts.
#pragma once

#include <vector>

#include "launcher/serve/output/output_reader.h"
#include "runtime/text/chat_template.h"

namespace lockstep::serve {

/// Mistral's templates raise an exception for any id but 9 alphanumerics. For their formats, every other id of a call
/// or a result becomes 9 alphanumerics made from its hash: the same id becomes the same text in every request. No
/// effect for other formats. Pure, except for `messages`.
void fit_call_ids(std::vector<text::Message>& messages, const OutputFormat& format);

}  // namespace lockstep::serve
