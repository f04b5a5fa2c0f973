// 8-bit products: each group's integers are multiplied as floats, which is exact (runtime/core/int8_groups.h).
#include "runtime/backends/reference/int8.h"

#include <cmath>

#include "runtime/backends/aten/operations.h"
#include "runtime/core/check.h"

namespace lockstep::reference {
namespace {

/// One group of every row of a matrix: integers f32 [rows, width], dense, and scales [rows].
struct Group {
  Group(aten::ConstMatrix matrix, Range columns)
      : integers(static_cast<size_t>(matrix.rows * columns.size())), scales(static_cast<size_t>(matrix.rows)) {
    std::vector<int8_t> row(static_cast<size_t>(columns.size()));
    for (int64_t r = 0; r < matrix.rows; ++r) {
      scales[static_cast<size_t>(r)] =
          to_int8(matrix.data + r * matrix.row_stride + columns.begin, columns.size(), row.data());
      std::copy(row.begin(), row.end(), integers.begin() + r * columns.size());
    }
  }

  std::vector<float> integers;
  std::vector<float> scales;
};

}  // namespace

Result<void> multiply_int8(aten::ConstMatrix x, aten::ConstMatrix w, const Int8Groups& groups, aten::Matrix dst) {
  LOCKSTEP_CHECK(x.columns == w.columns && groups.columns == w.columns, x.columns, w.columns, groups.columns);
  for (int64_t t = 0; t < dst.rows; ++t) std::fill_n(dst.data + t * dst.row_stride, dst.columns, 0.0f);
  std::vector<float> sums(static_cast<size_t>(x.rows * w.rows));
  for (int64_t g = 0; g < groups.count(); ++g) {
    const Range columns = groups.of(g);
    const Group of_x(x, columns), of_w(w, columns);
    LOCKSTEP_TRY_VOID(aten::multiply_transposed(aten::dense(of_x.integers.data(), x.rows, columns.size()),
                                                aten::dense(of_w.integers.data(), w.rows, columns.size()),
                                                aten::dense(sums.data(), x.rows, w.rows)));
    for (int64_t t = 0; t < x.rows; ++t) {
      float* row = dst.data + t * dst.row_stride;
      const float scale = of_x.scales[static_cast<size_t>(t)];
      for (int64_t n = 0; n < w.rows; ++n) {
        row[n] =
            std::fma(sums[static_cast<size_t>(t * w.rows + n)] * of_w.scales[static_cast<size_t>(n)], scale, row[n]);
      }
    }
  }
  return ok();
}

}  // namespace lockstep::reference
