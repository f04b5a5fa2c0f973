// The interface to read one matrix in codes out of its files. Private to this folder.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/checkpoint/stored_files.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"
#include "runtime/core/weight_format.h"

namespace lockstep::checkpoint {

/// A matrix in codes. Immutable and thread-safe; borrows nothing.
class CodedTensor {
 public:
  virtual ~CodedTensor() = default;

  virtual const WeightFormat& format() const = 0;

  /// Column i of what `read` gives is column order[i] of the matrix; empty: column i.
  virtual std::span<const int32_t> order() const { return {}; }

  /// As `Checkpoint::read_codes`; ranges are valid, and sizes of `dst` match. @blocking (disk)
  virtual Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const = 0;

  /// How many neighbouring rows to read together, at least 1.
  virtual int64_t rows_at_once() const { return 1; }

  /// Announces a read of these rows.
  virtual void expect(const StoredFiles& files, Range rows, Range columns) const = 0;
};

/// Reads a part of a matrix in codes as elements, columns in the order of the matrix, of `dtype`, row-major, into
/// `dst`. @blocking (disk)
Result<void> read_decoded(const StoredFiles& files, const CodedTensor& tensor, Range rows, Range columns, DType dtype,
                          std::span<std::byte> dst);

}  // namespace lockstep::checkpoint
