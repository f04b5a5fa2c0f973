// The generation options as a document: docs/generation.md is the output of `generate --option-table`.
#pragma once

#include <string>

namespace lockstep::launcher {

/// Returns Markdown with one row per option.
std::string option_table();

}  // namespace lockstep::launcher
