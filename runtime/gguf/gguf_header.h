// The header of a GGUF file, versions 2 and 3 (github.com/ggml-org/ggml, docs/gguf.md):
//
//   "GGUF" | u32 version | u64 tensors | u64 keys | keys | tensors | padding | data
//   key:     string name, u32 type, value        array: u32 type, u64 count, values        string: u64 bytes, UTF-8
//   tensor:  string name, u32 dimensions, u64 size of each (columns first), u32 type, u64 offset in the data
//
// Numbers are little-endian. A file is rejected unless its tensors lie in its data, aligned and apart. Memory is
// bounded by the size of the header, so by that of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/byte_source.h"
#include "runtime/core/result.h"

namespace lockstep::gguf {

/// The types of metadata, with their numbers in the file.
enum class ValueType : uint32_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUInt64,
  kInt64,
  kFloat64,
};

/// The value of a key as the file stores it: one element, or an array's; checked to be complete.
struct MetadataValue {
  ValueType type = ValueType::kUInt8;  // of the elements; never kArray
  bool is_array = false;
  uint64_t count = 1;
  std::string bytes = {};  // each string after its length
};

/// A type of tensors. Elements are stored in blocks along a row.
struct BlockType {
  uint32_t number;
  std::string_view name;  // "Q4_K"
  int64_t block;          // elements
  int64_t bytes;          // of a block
};

/// The type with that number in files; nullptr if there is none.
const BlockType* find_block_type(uint32_t number);
/// The type of that name.
const BlockType* find_block_type(std::string_view name);

struct TensorRecord {
  std::string name;
  std::vector<int64_t> shape;  // as elsewhere: rows before columns
  const BlockType* type = nullptr;
  int64_t offset = 0;  // of its first byte in the file
  int64_t bytes = 0;
};

/// A parsed header.
struct GgufHeader {
  std::filesystem::path path;
  uint32_t version = 0;
  std::map<std::string, MetadataValue, std::less<>> metadata;
  std::vector<TensorRecord> tensors;  // in the file's order

  const MetadataValue* find(std::string_view key) const;
  const TensorRecord* find_tensor(std::string_view name) const;
};

/// Reads the header of `file`. Fails with `kInvalidArgument` for a damaged or truncated file, and with `kUnsupported`
/// for another version, a big-endian file, nested arrays and unknown types; the message has the key or tensor.
Result<GgufHeader> read_header(const ByteSource& file);

/// The same for the file at `path`; `kNotFound` if it cannot be read. @blocking (disk)
Result<GgufHeader> read_header(const std::filesystem::path& path);

}  // namespace lockstep::gguf
