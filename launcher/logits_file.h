// The file of --output-logits: a safetensors file with one tensor "logits", f32 [rows, steps, vocabulary], zeros after
// a row's end.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// `rows[r]` holds the logits of row r's tokens, one after the other, `vocabulary` floats each. The format:
/// https://github.com/huggingface/safetensors (8-byte header length, JSON header, data).
Result<void> write_logits(const std::filesystem::path& path, const std::vector<std::vector<float>>& rows,
                          int64_t vocabulary);

}  // namespace lockstep::launcher
