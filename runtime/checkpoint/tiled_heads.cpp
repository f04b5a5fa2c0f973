#include "runtime/checkpoint/tiled_heads.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "runtime/checkpoint/column_order.h"
#include "runtime/checkpoint/strided_tensor.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kTileBufferBytes = int64_t{1} << 20;

/// Calls `visit(part, place)` for each head's part of `columns` and its place in the file.
template <typename Visit>
void for_each_head(const TiledHeads& heads, Range columns, Visit&& visit) {
  for (int64_t begin = columns.begin; begin < columns.end;) {
    const int64_t end = std::min(columns.end, (begin / heads.width + 1) * heads.width);
    const int64_t place = heads.place_of(begin);
    visit(Range{begin, end}, Range{place, place + end - begin});
    begin = end;
  }
}

/// The columns of the file from the first to the last one that holds one of `columns`. Heads are small and in turn, so
/// they are read together with those between.
Range span_of(const TiledHeads& heads, Range columns) {
  Range span{columns.size() > 0 ? heads.place_of(columns.begin) : 0, 0};
  for_each_head(heads, columns, [&](Range, Range place) {
    span = {std::min(span.begin, place.begin), std::max(span.end, place.end)};
  });
  return span;
}

/// Calls `read(part)` for parts of `rows` of which each has `bytes`.
template <typename Read>
Result<void> for_each_part(Range rows, int64_t bytes, Read&& read) {
  const int64_t most = std::max<int64_t>(1, kTileBufferBytes / std::max<int64_t>(1, bytes));
  for (int64_t begin = rows.begin; begin < rows.end; begin += most) {
    LOCKSTEP_TRY_VOID(read(Range{begin, std::min(begin + most, rows.end)}));
  }
  return ok();
}

/// Rows of `width` elements each.
template <typename T>
struct Rows {
  std::span<T> values;
  int64_t width;
};

/// Copies `count` elements of each row, from element `from` on to element `to` on.
template <typename T>
void copy_columns(Rows<const T> src, int64_t from, Rows<T> dst, int64_t to, int64_t count) {
  for (size_t row = 0; row * static_cast<size_t>(src.width) < src.values.size(); ++row) {
    const auto first = static_cast<int64_t>(row);
    std::copy_n(src.values.begin() + first * src.width + from, count, dst.values.begin() + first * dst.width + to);
  }
}

class TiledColumns final : public CodedTensor {
 public:
  TiledColumns(std::shared_ptr<const CodedTensor> stored, const TiledHeads& heads)
      : stored_(std::move(stored)), heads_(heads) {}

  const WeightFormat& format() const override { return stored_->format(); }
  Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const override;
  int64_t rows_at_once() const override { return stored_->rows_at_once(); }
  void expect(const StoredFiles& files, Range rows, Range columns) const override {
    stored_->expect(files, rows, span_of(heads_, columns));
  }

 private:
  const std::shared_ptr<const CodedTensor> stored_;
  const TiledHeads heads_;
};

Result<void> TiledColumns::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  const int64_t group = format().group;
  const auto groups_of = [group](Range part) { return Range{part.begin / group, (part.end + group - 1) / group}; };
  const Range span = span_of(heads_, columns), groups = groups_of(span), wanted = groups_of(columns);
  return for_each_part(rows, span.size(), [&](Range part) -> Result<void> {
    std::vector<uint8_t> codes(static_cast<size_t>(part.size() * span.size()));
    std::vector<float> scales(static_cast<size_t>(part.size() * groups.size()));
    std::vector<float> offsets(dst.offsets.empty() ? 0 : scales.size());
    LOCKSTEP_TRY_VOID(stored_->read(files, part, span, {codes, scales, offsets}));
    const CodedRows to = rows_of(dst, part.begin - rows.begin, part.size(), rows.size());
    for_each_head(heads_, columns, [&](Range head, Range place) {
      const Range own = groups_of(head), found = groups_of(place);
      copy_columns<uint8_t>({codes, span.size()}, place.begin - span.begin, {to.codes, columns.size()},
                            head.begin - columns.begin, head.size());
      const auto copy_groups = [&](const std::vector<float>& src, std::span<float> into) {
        copy_columns<float>({src, groups.size()}, found.begin - groups.begin, {into, wanted.size()},
                            own.begin - wanted.begin, own.size());
      };
      copy_groups(scales, to.scales);
      copy_groups(offsets, to.offsets);
    });
    return ok();
  });
}

}  // namespace

Result<TiledHeads> tiled_heads(const std::string& name, const TensorEntry& entry, const DeltaRuleSpec& rule) {
  const Shape& shape = entry.type.shape;
  if (rule.key_heads == 0 || shape.rank() != 2 || shape[1] != rule.value_heads * rule.value_dim) {
    return wrong_shape(name, entry, fmt::format("columns of {} value heads", rule.value_heads));
  }
  return TiledHeads{rule.key_heads, rule.value_heads / rule.key_heads, rule.value_dim};
}

Result<void> read_tiled(const StoredFiles& files, const TensorView& view, const TiledHeads& heads, Range rows,
                        Range columns, DType dtype, std::span<std::byte> dst) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  const Range span = span_of(heads, columns);
  const int64_t from_bytes = span.size() * size, to_bytes = columns.size() * size;  // of a row
  return for_each_part(rows, from_bytes, [&](Range part) -> Result<void> {
    std::vector<std::byte> values(static_cast<size_t>(part.size() * from_bytes));
    LOCKSTEP_TRY_VOID(read_view(files, view, part, span, dtype, values));
    const auto to = dst.subspan(static_cast<size_t>((part.begin - rows.begin) * to_bytes),
                                static_cast<size_t>(part.size() * to_bytes));
    for_each_head(heads, columns, [&](Range head, Range place) {
      copy_columns<std::byte>({values, from_bytes}, (place.begin - span.begin) * size, {to, to_bytes},
                              (head.begin - columns.begin) * size, head.size() * size);
    });
    return ok();
  });
}

void expect_tiled(const StoredFiles& files, const TensorView& view, const TiledHeads& heads, Range rows,
                  Range columns) {
  expect_view(files, view, rows, span_of(heads, columns));
}

Result<std::shared_ptr<const CodedTensor>> with_tiled_columns(const std::string& name, const TensorEntry& entry,
                                                              std::shared_ptr<const CodedTensor> stored,
                                                              const TiledHeads& heads) {
  const int64_t group = stored->format().group;
  if (heads.width % group == 0)
    return std::shared_ptr<const CodedTensor>(std::make_shared<TiledColumns>(stored, heads));
  return Error{ErrorKind::kUnsupported,
               fmt::format("[runtime/checkpoint] cannot use tensor {} of {}: found {}, whose groups have {} columns, "
                           "and heads of {}, expected whole groups; take the model in F16 or BF16",
                           name, entry.file.string(), entry.stored_dtype, group, heads.width)};
}

}  // namespace lockstep::checkpoint
