// The weights of a Hugging Face directory: one file, or several behind an index; safetensors or torch's .bin. Opening
// reads the headers only; a rank then reads the byte ranges of its own slices.
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

namespace lockstep::checkpoint {

/// Where one tensor lies, and how.
struct TensorEntry {
  std::filesystem::path file;
  TensorType type;                    // its dtype only counts where `can_be_read`
  int64_t offset = 0;                 // of its first byte in the file
  int64_t bytes = 0;                  // of its elements
  std::string stored_dtype;           // by its name in the safetensors format: "BF16"
  bool can_be_read = false;           // F32, BF16 and F16; what nobody reads may have any other type
  std::vector<int64_t> strides = {};  // in elements, one per dimension; none: row-major and dense
};

using TensorMap = std::map<std::string, TensorEntry, std::less<>>;

/// An open checkpoint. Reading is const and thread-safe.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// Every tensor by name.
  virtual const TensorMap& tensors() const = 0;

  /// Whether a tensor of that name is there.
  bool contains(std::string_view name) const { return tensors().find(name) != tensors().end(); }

  /// Reads `ranges` (one per dimension, at most 2 dimensions) of the tensor `name`, row-major, converted to `dtype`,
  /// into `dst`. Only the bytes of those rows are read (or of those columns, where the file has them together), with
  /// a few MiB of buffer. `expected` is the tensor's whole shape: another one fails with
  /// `kInvalidArgument` that names file, tensor, found and expected; an absent tensor with `kNotFound`; one that holds
  /// neither F32, BF16 nor F16 with `kUnsupported`. `dtype` is a floating-point type. @blocking (disk)
  virtual Result<void> read(std::string_view name, const Shape& expected, std::span<const Range> ranges, DType dtype,
                            std::span<std::byte> dst) const = 0;

  /// How many neighbouring rows of the tensor `name` are best read together: 1 where the file keeps rows, many where it
  /// keeps the matrix transposed.
  virtual int64_t rows_at_once(std::string_view name) const = 0;

  /// Where the tensor `name` begins among the bytes of all files, one file after the other: disks like to be read in
  /// this order. 0 for one that is not there.
  virtual int64_t place_of(std::string_view name) const = 0;

  /// `ranges` of the tensor `name` will be read soon: where the file is not in memory yet, its bytes start on their
  /// way. Never waits for them; does nothing for a tensor that cannot be read.
  virtual void expect(std::string_view name, std::span<const Range> ranges) const = 0;

  /// A fingerprint of names, types and file sizes: equal checkpoints have equal ones on every host.
  virtual uint64_t fingerprint() const = 0;

  /// Bytes read from the files so far, headers included.
  virtual int64_t bytes_read() const = 0;

  /// Size of all its files together.
  virtual int64_t bytes_of_files() const = 0;
};

/// Opens `directory`, its tensors under the names of the files: model.safetensors, or else the shards of
/// model.safetensors.index.json, or else pytorch_model.bin, or else those of pytorch_model.bin.index.json. Fails with
/// `kNotFound` when none is there; with `kInvalidArgument` when a header is damaged, truncated, overlaps or points
/// outside its file, or an index names a file or tensor that is not there; with `kUnsupported` when a .bin holds more
/// than tensors and plain containers.
Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& directory);

/// Whether the tensors `a` and `b` have one shape and equal values; both must be there, with 1 or 2 dimensions. Only
/// `rows` of them are compared, if given: ranks can share the work. Reads both in blocks, unless they are the same
/// bytes of one file. @blocking (disk)
Result<bool> hold_equal_values(const Checkpoint& checkpoint, std::string_view a, std::string_view b,
                               std::optional<Range> rows = std::nullopt);

}  // namespace lockstep::checkpoint
