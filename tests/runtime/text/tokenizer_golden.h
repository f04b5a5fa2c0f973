// Compares a tokenizer with recorded results of the `tokenizers` package (tools/make_tokenizer_goldens.py).
#pragma once

#include <filesystem>

#include "runtime/text/tokenizer.h"

namespace lockstep::text {

/// Expects the ids and texts of `golden`, by `encode`, `decode` and `StreamDecoder`. Fails the running test otherwise.
void expect_golden(const Tokenizer& tokenizer, const std::filesystem::path& golden);

}  // namespace lockstep::text
