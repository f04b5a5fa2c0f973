// Rows of a table of embeddings.
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

/// The place of an element of a packed table (packing.h).
LOCKSTEP_DEVICE int64_t packed_place(int64_t row, int64_t column, int64_t k_steps, bool is_wide) {
  const int64_t tile = row / kTileOutputs;
  const int64_t inside = row % kTileOutputs;
  if (is_wide) return (tile * k_steps * kStepColumns + column) * kTileOutputs + inside;
  const int64_t k = column % kStepColumns;
  const int64_t lane = inside % 8 * 4 + k % 8 / 2;
  const int64_t word = k / 8 * 2 + inside / 8;
  return (tile * k_steps + column / kStepColumns) * 256 + lane * 8 + word * 2 + k % 2;
}

template <typename Rows>
LOCKSTEP_DEVICE void embed(const EmbedParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int row = block_index();
  if (row >= used(p.rows)) return;
  const int64_t id = static_cast<int64_t>(p.ids[row]) - p.first_row;
  const bool is_inside = id >= 0 && id < p.table_rows;
  const Element* table = static_cast<const Element*>(p.table);
  const int64_t first = static_cast<int64_t>(row) * p.columns;
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    float value = p.nothing;
    if (is_inside) {
      const int64_t at = p.k_steps == 0 ? id * p.columns + i : packed_place(id, i, p.k_steps, sizeof(Element) == 4);
      value = Rows::read(table[at]);
    }
    if (p.is_float != 0) {
      static_cast<float*>(p.y)[first + i] = value;
    } else {
      static_cast<Element*>(p.y)[first + i] = Rows::write(value);
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(embed_f32, EmbedParameters, kEmbedThreads) { embed<F32Rows>(p); }
LOCKSTEP_KERNEL(embed_bf16, EmbedParameters, kEmbedThreads) { embed<Bf16Rows>(p); }
LOCKSTEP_KERNEL(embed_f16, EmbedParameters, kEmbedThreads) { embed<F16Rows>(p); }

}  // namespace lockstep::cuda
