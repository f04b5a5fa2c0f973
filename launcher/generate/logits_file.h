// The files of --output-logits and --output-scores. Each is a safetensors file with one tensor, "logits" or "scores",
// f32 [rows, steps, vocabulary], with zeros after a row's end.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// `rows[r]` holds `vocabulary` floats for each of row r's tokens, in order. The format:
/// https://github.com/huggingface/safetensors (8-byte header length, JSON header, data).
Result<void> write_logits(const std::filesystem::path& path, std::string_view tensor,
                          const std::vector<std::vector<float>>& rows, int64_t vocabulary);

}  // namespace lockstep::launcher
