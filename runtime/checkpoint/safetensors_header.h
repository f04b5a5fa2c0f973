// The header of a safetensors file (github.com/huggingface/safetensors, "Format"):
//
//   u64 n | n bytes of JSON {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, …} | data
//
// Offsets are relative to the start of the data. The tensors cover the data without overlaps or gaps; "__metadata__" is
// free text and ignored. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/core/byte_source.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// Reads the tensors of a safetensors file. Fails with `kInvalidArgument` for a damaged header.
Result<TensorMap> read_safetensors_header(const ByteSource& file);

/// Parses the JSON of the header; `file_size` bounds the offsets.
Result<TensorMap> parse_safetensors_header(std::span<const std::byte> header, int64_t data_start, int64_t file_size,
                                           const std::filesystem::path& file);

}  // namespace lockstep::checkpoint
