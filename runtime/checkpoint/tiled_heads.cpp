#include "runtime/checkpoint/tiled_heads.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "runtime/checkpoint/strided_tensor.h"

namespace lockstep::checkpoint {
namespace {

/// Calls `visit(part, place)` for each head's part of `columns`, which begins at column `place` of the file.
template <typename Visit>
Result<void> for_each_head(const TiledHeads& heads, Range columns, Visit&& visit) {
  for (int64_t begin = columns.begin; begin < columns.end;) {
    const int64_t end = std::min(columns.end, (begin / heads.width + 1) * heads.width);
    const int64_t place = heads.place_of(begin);
    LOCKSTEP_TRY_VOID(visit(Range{begin, end}, Range{place, place + end - begin}));
    begin = end;
  }
  return ok();
}

/// Copies rows of `width` elements into rows of `all` elements, from element `first` on.
template <typename T>
void copy_rows(const std::vector<T>& src, int64_t width, std::span<T> dst, int64_t all, int64_t first) {
  if (src.empty()) return;
  for (int64_t from = 0, to = first; from < std::ssize(src); from += width, to += all) {
    std::copy_n(src.begin() + from, width, dst.begin() + to);
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
    (void)for_each_head(heads_, columns, [&](Range, Range place) -> Result<void> {
      stored_->expect(files, rows, place);
      return ok();
    });
  }

 private:
  const std::shared_ptr<const CodedTensor> stored_;
  const TiledHeads heads_;
};

Result<void> TiledColumns::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  const int64_t group = format().group;
  const auto groups_in = [group](Range part) { return (part.end + group - 1) / group - part.begin / group; };
  std::vector<uint8_t> codes;
  std::vector<float> scales, offsets;
  return for_each_head(heads_, columns, [&](Range part, Range place) -> Result<void> {
    const int64_t groups = groups_in(place), first = part.begin / group - columns.begin / group;
    codes.resize(static_cast<size_t>(rows.size() * place.size()));
    scales.resize(static_cast<size_t>(rows.size() * groups));
    offsets.resize(dst.offsets.empty() ? 0 : scales.size());
    LOCKSTEP_TRY_VOID(stored_->read(files, rows, place, {codes, scales, offsets}));
    copy_rows(codes, place.size(), dst.codes, columns.size(), part.begin - columns.begin);
    copy_rows(scales, groups, dst.scales, groups_in(columns), first);
    copy_rows(offsets, groups, dst.offsets, groups_in(columns), first);
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
  std::vector<std::byte> values;
  return for_each_head(heads, columns, [&](Range part, Range place) -> Result<void> {
    values.resize(static_cast<size_t>(rows.size() * place.size() * size));
    LOCKSTEP_TRY_VOID(read_view(files, view, rows, place, dtype, values));
    copy_rows(values, place.size() * size, dst, columns.size() * size, (part.begin - columns.begin) * size);
    return ok();
  });
}

void expect_tiled(const StoredFiles& files, const TensorView& view, const TiledHeads& heads, Range rows,
                  Range columns) {
  (void)for_each_head(heads, columns, [&](Range, Range place) -> Result<void> {
    expect_view(files, view, rows, place);
    return ok();
  });
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
