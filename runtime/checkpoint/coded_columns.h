// Matrices in codes whose outputs are columns in the file: GPTQ and AWQ. Private to this folder.
//
//   GPTQ   words i32 [K · bits / 32, N]: neighbouring inputs in a word, the first in the lowest bits
//   AWQ    words i32 [K, N / 8]: 8 neighbouring outputs in a word, from the lowest bits on 0, 2, 4, 6, 1, 3, 5, 7
//   both   zeros i32 [groups, N · bits / 32]: outputs in a word, in the same order; scales [groups, N]
#pragma once

#include <optional>
#include <vector>

#include "runtime/checkpoint/coded_parts.h"
#include "runtime/checkpoint/coded_tensor.h"
#include "runtime/checkpoint/output_rows.h"

namespace lockstep::checkpoint {

/// The stored form of such a matrix.
struct CodedColumnsLayout {
  enum class Words : uint8_t { kOfInputs, kOfOutputs };

  WeightFormat format;
  OutputRows outputs;  // those that are the rows
  Words words = Words::kOfInputs;
  CodedPart codes, zeros, scales;
  int64_t added_to_zeros = 0;
  std::optional<CodedPart> positions =
      std::nullopt;                 // the group of each column in the file, which must be its position's
  std::vector<int32_t> order = {};  // the group of each column, if not by position; the format's group is then 1
};

class ColumnCodedTensor final : public CodedTensor {
 public:
  explicit ColumnCodedTensor(CodedColumnsLayout layout) : layout_(std::move(layout)) {}

  const WeightFormat& format() const override { return layout_.format; }
  Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const override;
  int64_t rows_at_once() const override;
  void expect(const StoredFiles& files, Range rows, Range columns) const override;

 private:
  /// Where the words of outputs and columns are.
  struct Words {
    Range rows, columns;
  };
  /// Where codes go: rows of `width` from column `first` on, of which `columns` are unpacked.
  struct Unpacked {
    Range columns;
    int64_t first = 0, width = 0;
    std::span<uint8_t> codes;

    uint8_t& at(int64_t row, int64_t column) const { return codes[static_cast<size_t>(row * width + column - first)]; }
  };
  Words words_of(Range outputs, Range columns) const;
  Result<void> read_codes(const StoredFiles& files, Range outputs, Range columns, std::span<uint8_t> dst) const;
  void unpack_inputs(const std::vector<std::byte>& words, Words where, const Unpacked& dst) const;
  void unpack_outputs(const std::vector<std::byte>& words, Words where, Range outputs, const Unpacked& dst) const;
  Result<void> check_positions(const StoredFiles& files, Range columns) const;
  Result<void> read_groups(const StoredFiles& files, Range outputs, Range columns, std::span<float> scales,
                           std::span<float> offsets) const;
  /// The zero at `output`, of the words of a row from word `first` on.
  int64_t zero_at(const std::byte* words, int64_t first, int64_t output) const;

  const CodedColumnsLayout layout_;
};

}  // namespace lockstep::checkpoint
