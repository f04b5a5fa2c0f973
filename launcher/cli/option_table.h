// The options of generation as a page of the documents: docs/generation.md is what `generate --option-table` prints.
#pragma once

#include <string>

namespace lockstep::launcher {

/// Markdown, a row an option.
std::string option_table();

}  // namespace lockstep::launcher
