#include "runtime/backends/reference/int8_rows.h"

#include <algorithm>

#include "runtime/core/int8_groups.h"

namespace lockstep::reference {

std::vector<float> quantised_rows(aten::ConstMatrix x, int64_t width) {
  std::vector<float> rows(static_cast<size_t>(x.rows * x.columns));
  const ColumnGroups groups{.columns = x.columns, .leaf = std::max<int64_t>(x.columns, 1), .width = width};
  std::vector<int8_t> integers(static_cast<size_t>(width));
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t g = 0; g < groups.count(); ++g) {
      const Range columns = groups.of(g);
      const float scale = to_int8(x.data + t * x.row_stride + columns.begin, columns.size(), integers.data());
      for (int64_t k = 0; k < columns.size(); ++k) {
        rows[static_cast<size_t>(t * x.columns + columns.begin + k)] =
            scale * static_cast<float>(integers[static_cast<size_t>(k)]);
      }
    }
  }
  return rows;
}

}  // namespace lockstep::reference
