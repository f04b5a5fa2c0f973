// The headers of a model in GGUF: one file, or the parts of a split one.
//
//   NAME.gguf                        NAME-00001-of-00003.gguf (keys), NAME-00002-of-00003.gguf,
//   NAME-00003-of-00003.gguf
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "runtime/gguf/gguf_header.h"

namespace lockstep::gguf {

struct GgufModel {
  std::vector<GgufHeader> parts;  // at least one; the first has the metadata

  const std::filesystem::path& path() const { return parts.front().path; }
  const MetadataValue* find(std::string_view key) const { return parts.front().find(key); }
  /// The tensor of that name in any part; nullptr if there is none.
  const TensorRecord* find_tensor(std::string_view name) const;
};

/// Whether `path` is a file with the name of a GGUF file.
bool is_gguf(const std::filesystem::path& path);

/// The files of the model at `path`, in order; `first` is the header of that file. Fails with `kInvalidArgument` for a
/// part that is not the first.
Result<std::vector<std::filesystem::path>> files_of_model(const GgufHeader& first);

/// Reads all headers. Fails as `read_header`, and with `kInvalidArgument` for parts that are not of one model.
/// @blocking (disk)
Result<GgufModel> read_model(const std::filesystem::path& path);

/// Checks that `parts` are those of one model, without repeated tensors.
Result<void> check_parts(const std::vector<GgufHeader>& parts);

}  // namespace lockstep::gguf
