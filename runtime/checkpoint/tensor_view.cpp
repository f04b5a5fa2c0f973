#include "runtime/checkpoint/tensor_view.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 20;
constexpr int64_t kPageBytes = 4096;
// Gaps up to this size are announced with their neighbours: a disk reads this many bytes in about the time of another
// request, and if ranks of one host each read a part of every row, another rank needs them.
constexpr int64_t kBytesOfARequest = 64 << 10;
constexpr int64_t kNarrowGap = 4;   // largest distance between elements at which a vector is read in one call
constexpr int64_t kLeastRuns = 32;  // minimum for a transposed tile, so that its rows are not too short

/// One axis of a block: the number of elements and their distance in stored elements.
struct Axis {
  int64_t count = 0;
  int64_t stride = 0;
};

/// A part of a view without groups.
struct Block {
  int64_t offset = 0;  // bytes
  Axis rows, columns;
};

/// Copies scattered elements to a dense matrix at `dst`, a few columns at a time, so that cache lines of a transposed
/// source are reused by the next row.
template <typename Word>
void gather(const std::byte* src, Axis rows, Axis columns, std::byte* dst) {
  constexpr int64_t kColumns = 8;
  constexpr auto kSize = static_cast<int64_t>(sizeof(Word));
  for (int64_t begin = 0; begin < columns.count; begin += kColumns) {
    const int64_t end = std::min(begin + kColumns, columns.count);
    for (int64_t row = 0; row < rows.count; ++row) {
      for (int64_t column = begin; column < end; ++column) {
        const std::byte* from = src + (row * rows.stride + column * columns.stride) * kSize;
        std::memcpy(dst + (row * columns.count + column) * kSize, from, sizeof(Word));
      }
    }
  }
}

/// Reads blocks of one tensor into one destination.
class BlockReader {
 public:
  BlockReader(const StoredFiles& files, const TensorView& view, DType dtype)
      : files_(files),
        file_(files.file(view.file)),
        stored_(view.dtype),
        size_(static_cast<int64_t>(size_of(view.dtype))),
        wanted_(dtype),
        wanted_size_(static_cast<int64_t>(size_of(dtype))) {}

  Result<void> read(Block block, std::byte* dst);

 private:
  Result<void> read_run(int64_t offset, int64_t count, std::byte* dst);
  Result<void> read_strided(const Block& block, std::byte* dst);
  Result<void> read_tile(const Block& tile, bool rows_are_runs, std::byte* dst, int64_t dst_columns);
  void convert(const std::byte* src, int64_t count, std::byte* dst) const;

  const StoredFiles& files_;
  const RandomAccessFile& file_;
  const DType stored_;
  const int64_t size_;
  const DType wanted_;
  const int64_t wanted_size_;
  std::vector<std::byte> bytes_, gathered_;
};

void BlockReader::convert(const std::byte* src, int64_t count, std::byte* dst) const {
  if (stored_ == wanted_) {
    std::memcpy(dst, src, static_cast<size_t>(count * size_));
  } else {
    convert_elements(src, stored_, dst, wanted_, static_cast<size_t>(count));
  }
}

Result<void> BlockReader::read(Block block, std::byte* dst) {
  if (block.columns.count == 1 && block.rows.stride <= kNarrowGap) std::swap(block.rows, block.columns);
  if (block.columns.count > 1 && block.columns.stride != 1) return read_strided(block, dst);
  if (block.rows.count > 1 && block.rows.stride == block.columns.count) {  // consecutive whole rows
    block.columns.count *= block.rows.count;
    block.rows.count = 1;
  }
  for (int64_t row = 0; row < block.rows.count; ++row) {
    LOCKSTEP_TRY_VOID(read_run(block.offset + row * block.rows.stride * size_, block.columns.count,
                               dst + row * block.columns.count * wanted_size_));
  }
  return ok();
}

/// Reads contiguous elements.
Result<void> BlockReader::read_run(int64_t offset, int64_t count, std::byte* dst) {
  if (stored_ == wanted_) return files_.read(file_, offset, {dst, static_cast<size_t>(count * size_)});
  const int64_t most = kBufferBytes / size_;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t part = std::min(most, count - done);
    bytes_.resize(static_cast<size_t>(part * size_));
    LOCKSTEP_TRY_VOID(files_.read(file_, offset + done * size_, bytes_));
    convert(bytes_.data(), part, dst + done * wanted_size_);
  }
  return ok();
}

/// Cuts a block with non-contiguous columns into tiles that fit the buffers. The file is read along the axis with the
/// smaller stride.
Result<void> BlockReader::read_strided(const Block& block, std::byte* dst) {
  const bool rows_are_runs = block.rows.count > 1 && block.rows.stride < block.columns.stride;
  const Axis& fast = rows_are_runs ? block.rows : block.columns;
  const Axis& slow = rows_are_runs ? block.columns : block.rows;
  const int64_t room = kBufferBytes / size_;
  const int64_t fast_tile = std::clamp<int64_t>(room / (kLeastRuns * std::max<int64_t>(1, fast.stride)), 1, fast.count);
  const int64_t pitch = std::max<int64_t>(1, fast_tile * fast.stride);
  const int64_t slow_tile = std::clamp<int64_t>(room / std::max(pitch, fast_tile), 1, slow.count);
  const int64_t tile_rows = rows_are_runs ? fast_tile : slow_tile;
  const int64_t tile_columns = rows_are_runs ? slow_tile : fast_tile;
  for (int64_t row = 0; row < block.rows.count; row += tile_rows) {
    for (int64_t column = 0; column < block.columns.count; column += tile_columns) {
      Block tile = block;
      tile.offset += (row * block.rows.stride + column * block.columns.stride) * size_;
      tile.rows.count = std::min(tile_rows, block.rows.count - row);
      tile.columns.count = std::min(tile_columns, block.columns.count - column);
      LOCKSTEP_TRY_VOID(read_tile(tile, rows_are_runs, dst + (row * block.columns.count + column) * wanted_size_,
                                  block.columns.count));
    }
  }
  return ok();
}

Result<void> BlockReader::read_tile(const Block& tile, bool rows_are_runs, std::byte* dst, int64_t dst_columns) {
  Axis fast = rows_are_runs ? tile.rows : tile.columns;
  Axis slow = rows_are_runs ? tile.columns : tile.rows;
  const int64_t run = (fast.count - 1) * fast.stride + 1;
  const bool together = slow.stride >= run && slow.stride - run < fast.stride;  // gaps between runs as small as inside
  const int64_t reads = together ? 1 : slow.count;
  const int64_t length = together ? (slow.count - 1) * slow.stride + run : run;
  bytes_.resize(static_cast<size_t>(reads * length * size_));
  for (int64_t i = 0; i < reads; ++i) {
    const std::span<std::byte> part(bytes_.data() + i * length * size_, static_cast<size_t>(length * size_));
    LOCKSTEP_TRY_VOID(files_.read(file_, tile.offset + i * slow.stride * size_, part));
  }
  if (!together) slow.stride = run;
  gathered_.resize(static_cast<size_t>(tile.rows.count * tile.columns.count * size_));
  const Axis& rows = rows_are_runs ? fast : slow;
  const Axis& columns = rows_are_runs ? slow : fast;
  switch (size_) {
    case 1: gather<uint8_t>(bytes_.data(), rows, columns, gathered_.data()); break;
    case 2: gather<uint16_t>(bytes_.data(), rows, columns, gathered_.data()); break;
    default: gather<uint32_t>(bytes_.data(), rows, columns, gathered_.data()); break;
  }
  for (int64_t row = 0; row < rows.count; ++row) {
    convert(gathered_.data() + row * columns.count * size_, columns.count, dst + row * dst_columns * wanted_size_);
  }
  return ok();
}

}  // namespace

Result<void> read_view(const StoredFiles& files, const TensorView& view, Range rows, Range columns, DType dtype,
                       std::span<std::byte> dst) {
  LOCKSTEP_CHECK(0 <= rows.begin && rows.begin <= rows.end && rows.end <= view.rows, to_string(rows), view.rows);
  LOCKSTEP_CHECK(0 <= columns.begin && columns.begin <= columns.end && columns.end <= view.columns, to_string(columns),
                 view.columns);
  const auto row_bytes = columns.size() * static_cast<int64_t>(size_of(dtype));
  LOCKSTEP_CHECK(static_cast<int64_t>(dst.size()) == rows.size() * row_bytes, dst.size(), to_string(rows), row_bytes);
  if (dst.empty()) return ok();
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  BlockReader reader(files, view, dtype);
  for (int64_t row = rows.begin; row < rows.end;) {
    const int64_t in_group = row % view.group;
    const int64_t count = std::min(rows.end - row, view.group - in_group);
    const Block block{.offset = view.offset + (view.place_of(row) + columns.begin * view.column_stride) * size,
                      .rows = {count, view.row_stride},
                      .columns = {columns.size(), view.column_stride}};
    LOCKSTEP_TRY_VOID(reader.read(block, dst.data() + (row - rows.begin) * row_bytes));
    row += count;
  }
  return ok();
}

int64_t rows_at_once(const TensorView& view) {
  if (view.columns <= 1 || view.row_stride >= view.column_stride) return 1;
  return kPageBytes / (std::max<int64_t>(1, view.row_stride) * static_cast<int64_t>(size_of(view.dtype)));
}

void expect_view(const StoredFiles& files, const TensorView& view, Range rows, Range columns) {
  const RandomAccessFile& file = files.file(view.file);
  if (file.was_cached() || rows.size() == 0 || columns.size() == 0) return;
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  Range wanted;  // bytes, not announced yet
  const auto add = [&](int64_t offset, int64_t bytes) {
    if (wanted.size() > 0 && offset >= wanted.begin && offset - wanted.end <= kBytesOfARequest) {
      wanted.end = std::max(wanted.end, offset + bytes);
      return;
    }
    file.expect(wanted.begin, wanted.size());
    wanted = {offset, offset + bytes};
  };
  const bool columns_lie_together = view.row_stride < view.column_stride && columns.size() > 1;
  for (int64_t row = rows.begin; row < rows.end && !columns_lie_together; ++row) {
    add(view.offset + (view.place_of(row) + columns.begin * view.column_stride) * size,
        ((columns.size() - 1) * view.column_stride + 1) * size);
  }
  for (int64_t column = columns.begin; column < columns.end && columns_lie_together; ++column) {
    const auto place = [&](int64_t row) { return view.place_of(row) + column * view.column_stride; };
    add(view.offset + place(rows.begin) * size, (place(rows.end - 1) - place(rows.begin) + 1) * size);
  }
  file.expect(wanted.begin, wanted.size());
}

}  // namespace lockstep::checkpoint
