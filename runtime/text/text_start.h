// Check of the parts of a tokenizer.json that depend on where a piece begins in the original text.
#pragma once

#include "runtime/text/json_field.h"

namespace lockstep::text {

/// Fails with `kUnsupported` when a Metaspace with `prepend_scheme` "first" comes behind a normalizer that may remove
/// the beginning of a text. The tokenizers package then adds no mark, because the first piece does not begin at the
/// original offset 0; offsets are not computed here. `root` is the whole document.
Result<void> check_text_start(const JsonField& root);

}  // namespace lockstep::text
