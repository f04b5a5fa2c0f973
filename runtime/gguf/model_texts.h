// The small files of a Hugging Face directory, from a directory or from the metadata of a GGUF file:
//
//   DIR/config.json                      the file
//   X.gguf/config.json                   keys of the architecture, under Hugging Face's names
//   X.gguf/generation_config.json        ids that end an answer, sampling parameters
//   X.gguf/tokenizer.json                tokens, scores or merges, and the stages of the tokenizer of that name
//   X.gguf/tokenizer_config.json         texts of special tokens, the chat template
//
// So every reader of such a file takes a path inside a GGUF file as well, and has rules for one notation only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/core/result.h"

namespace lockstep::gguf {

/// Whether `file` is inside a GGUF file: its parent is one.
bool is_inside(const std::filesystem::path& file);

/// The text of `file` inside a GGUF file; empty if a GGUF file has no such part. Fails as `read_model`; with
/// `kUnsupported` naming an architecture or a tokenizer that is not translated; and with `kInvalidArgument` naming a
/// key of the wrong type. @blocking (disk)
Result<std::optional<std::string>> derived_text(const std::filesystem::path& file);

/// The text of `file`, in a directory or inside a GGUF file; empty if it does not exist or cannot be read. Fails as
/// `derived_text`. @blocking (disk)
Result<std::optional<std::string>> read_model_text(const std::filesystem::path& file);

}  // namespace lockstep::gguf
