// Checksums of a model's weights, and their file beside the checkpoint.
//
//   DIR/lockstep.sums.json   {"format": "lockstep sums 1", "files": "<Checkpoint::fingerprint>",
//   X.gguf.sums.json          "tensors": {"<canonical name>": {"dtype": "BF16", "shape": [4, 8],
//                                                              "sums": {"bfloat16": "<sum>", …}}, …}}
//
// A tensor has a sum for each type that a rank may read it as, and a matrix in codes one of codes, scales and offsets.
// All add up (runtime/core/tensor_sum.h), so a rank sums what it reads, and the ranks' sums make the file's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/dtype.h"
#include "runtime/core/result.h"
#include "runtime/core/shape.h"
#include "runtime/core/tensor_sum.h"
#include "runtime/core/weight_format.h"

namespace lockstep::checkpoint {

/// What a sum is of.
enum class SummedKind : uint8_t { kFloat32, kBFloat16, kFloat16, kCodes };

/// "float32", "bfloat16", "float16", "codes".
std::string_view to_string(SummedKind kind);
/// The kind of elements read as `dtype`, a floating-point type.
SummedKind summed_kind(DType dtype);

/// The sum of elements of a tensor, row-major: `ranges` (one per dimension, at most 2) of it.
TensorSum sum_of_elements(std::span<const std::byte> elements, DType dtype, std::span<const Range> ranges);

/// The sum of rows and columns of a matrix in codes, read as by `Checkpoint::read_codes`. A scale counts where the
/// first column of its group is.
TensorSum sum_of_codes(const CodedRows& read, const WeightFormat& format, Range rows, Range columns);

/// Whether a cut before `column` leaves all lanes of the sum whole.
bool is_between_lanes(SummedKind kind, int64_t column);

/// The sums of one tensor.
struct TensorSums {
  std::string stored_dtype;
  Shape shape;
  std::map<SummedKind, TensorSum> sums;

  friend bool operator==(const TensorSums&, const TensorSums&) = default;
};

/// The sums of a model's weights, by canonical names.
struct WeightSums {
  uint64_t files = 0;  // Checkpoint::fingerprint
  std::map<std::string, TensorSums, std::less<>> tensors;

  friend bool operator==(const WeightSums&, const WeightSums&) = default;
};

std::string to_text(const WeightSums& sums);
/// The inverse of `to_text`, of untrusted text. Fails with `kInvalidArgument`; `origin` names the text.
Result<WeightSums> parse_weight_sums(std::string_view text, std::string_view origin);

/// Where the sums of the model at `model` (a directory or a GGUF file) lie.
std::filesystem::path path_of_sums(const std::filesystem::path& model);
/// The text of that file; empty if there is none. Fails with `kInvalidArgument` above 1 GiB.
Result<std::optional<std::string>> read_sums_text(const std::filesystem::path& model);

/// Sums all tensors of at most two dimensions, with `threads` threads. @blocking (disk)
Result<WeightSums> sum_weights(const Checkpoint& checkpoint, int threads);

}  // namespace lockstep::checkpoint
