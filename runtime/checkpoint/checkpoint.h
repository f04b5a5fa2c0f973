// The weights of a Hugging Face directory: safetensors or torch's .bin, one file or several behind an index. Opening
// reads only the headers; a rank then reads the byte ranges of its own slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"
#include "runtime/core/shape.h"
#include "runtime/core/weight_format.h"

namespace lockstep::checkpoint {

/// The location and format of one tensor.
struct TensorEntry {
  std::filesystem::path file;
  TensorType type;                                    // its dtype is valid only if `can_be_read`
  int64_t offset = 0;                                 // of its first byte in the file
  int64_t bytes = 0;                                  // of its elements
  std::string stored_dtype;                           // in the safetensors format's notation: "BF16"
  bool can_be_read = false;                           // F32, BF16 and F16; unused tensors may have any other type
  std::vector<int64_t> strides = {};                  // in elements, one per dimension; none: row-major and dense
  std::optional<WeightFormat> format = std::nullopt;  // of a matrix in codes, which can be read as any type
};

using TensorMap = std::map<std::string, TensorEntry, std::less<>>;

/// An open checkpoint. Reading is const and thread-safe.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// All tensors by name.
  virtual const TensorMap& tensors() const = 0;

  /// Whether the tensor `name` exists.
  bool contains(std::string_view name) const { return tensors().find(name) != tensors().end(); }

  /// Reads `ranges` (one per dimension, at most 2 dimensions) of the tensor `name`, row-major, converted to `dtype`,
  /// into `dst`. Reads only the bytes of those rows (or columns, where the file stores columns contiguously), with a
  /// few MiB of buffer. `expected` is the tensor's whole shape. `dtype` is a floating-point type. Fails with
  /// `kInvalidArgument` naming file, tensor, found and expected shape; with `kNotFound` for a missing tensor; with
  /// `kUnsupported` for types other than F32, BF16 and F16. @blocking (disk)
  virtual Result<void> read(std::string_view name, const Shape& expected, std::span<const Range> ranges, DType dtype,
                            std::span<std::byte> dst) const = 0;

  /// Reads the codes of rows and columns of a matrix with a format, and the scales and offsets of the groups that
  /// `columns` touches: columns.begin / group up to columns.end / group, rounded up. Sizes of `dst`: [rows, columns]
  /// and [rows, those groups]. `expected` and errors as above. @blocking (disk)
  virtual Result<void> read_codes(std::string_view name, const Shape& expected, Range rows, Range columns,
                                  CodedRows dst) const = 0;

  /// How many neighbouring rows of the tensor `name` to read together: 1 where the file stores rows contiguously, many
  /// where it stores the matrix transposed.
  virtual int64_t rows_at_once(std::string_view name) const = 0;

  /// The position of the tensor `name` in the concatenation of all files, for reading in disk order. 0 for a missing
  /// tensor.
  virtual int64_t place_of(std::string_view name) const = 0;

  /// Announces that `ranges` of the tensor `name` will be read soon, so the system can prefetch what is not in memory.
  /// Never waits; does nothing for a tensor that cannot be read.
  virtual void expect(std::string_view name, std::span<const Range> ranges) const = 0;

  /// A fingerprint of names, types and file sizes, equal for equal checkpoints on every host.
  virtual uint64_t fingerprint() const = 0;

  /// Bytes read from the files so far, headers included.
  virtual int64_t bytes_read() const = 0;

  /// The total size of all files.
  virtual int64_t bytes_of_files() const = 0;
};

/// Opens `directory`, with the tensor names of the files: model.safetensors, else the shards of
/// model.safetensors.index.json, else pytorch_model.bin, else those of pytorch_model.bin.index.json. Fails with
/// `kNotFound` when none exists; with `kInvalidArgument` when a header is damaged or truncated, tensors overlap or
/// exceed their file, or an index names a missing file or tensor; with `kUnsupported` when a .bin holds more than
/// tensors and plain containers.
Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& directory);

/// Whether the tensors `a` and `b` have one shape and equal values; both must exist, with 1 or 2 dimensions. Compares
/// only `rows`, if given, so that ranks can divide the work. Reads both in blocks, unless they are the same bytes of
/// one file. @blocking (disk)
Result<bool> hold_equal_values(const Checkpoint& checkpoint, std::string_view a, std::string_view b,
                               std::optional<Range> rows = std::nullopt);

}  // namespace lockstep::checkpoint
