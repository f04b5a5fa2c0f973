// Rows of a table of embeddings.
#include "runtime/backends/cuda/kernels/codes.h"
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

/// Writes the block's row; `read(id, column)` is an element of the table.
template <typename Rows, typename Read>
LOCKSTEP_DEVICE void embed(const EmbedParameters& p, Read read) {
  using Element = typename Rows::Element;
  follow_previous();
  const int row = block_index();
  if (row >= used(p.rows)) return;
  const int64_t id = static_cast<int64_t>(p.ids[row]) - p.first_row;
  const bool is_inside = id >= 0 && id < p.table_rows;
  const int64_t first = static_cast<int64_t>(row) * p.columns;
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    const float value = is_inside ? read(id, i) : p.nothing;
    if (p.is_float != 0) {
      static_cast<float*>(p.y)[first + i] = value;
    } else {
      static_cast<Element*>(p.y)[first + i] = Rows::write(value);
    }
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void embed_elements(const EmbedParameters& p) {
  using Element = typename Rows::Element;
  embed<Rows>(p, [&](int64_t id, int column) {
    const int64_t packed = packed_place(id, column, p.k_steps, sizeof(Element) == 4);
    return Rows::read(static_cast<const Element*>(p.table)[p.k_steps == 0 ? id * p.columns + column : packed]);
  });
}

/// An element of a table in codes, which is one leaf.
LOCKSTEP_DEVICE float decoded(const EmbedCodesParameters& p, int64_t id, int column) {
  const CodeLayout& layout = p.layout;
  const auto* tile = static_cast<const unsigned char*>(p.embed.table) + id / kTileOutputs * layout.tile_bytes;
  const int output = static_cast<int>(id % kTileOutputs);
  const int group = column / layout.groups.width;
  const GroupPlace begin = place_of_group(layout, group);
  const int place = begin.first + column % layout.groups.width;
  const int word = place / codes_of_word(layout);
  const int64_t at =
      begin.words + word / layout.load * layout.load * kTileOutputs + output * layout.load + word % layout.load;
  const float code = code_value(layout, reinterpret_cast<const uint32_t*>(tile)[at], place % codes_of_word(layout));
  const BesideCodes beside = beside_codes(layout, tile, group, output);
  if (layout.offset_kind == kMinimumOffsets) return plus(times(beside.scale, code), beside.offset);
  return times(beside.scale, plus(code, -beside.offset));
}

template <typename Rows>
LOCKSTEP_DEVICE void embed_codes(const EmbedCodesParameters& p) {
  embed<Rows>(p.embed, [&](int64_t id, int column) { return decoded(p, id, column); });
}

}  // namespace

LOCKSTEP_KERNEL(embed_f32, EmbedParameters, kEmbedThreads) { embed_elements<F32Rows>(p); }
LOCKSTEP_KERNEL(embed_bf16, EmbedParameters, kEmbedThreads) { embed_elements<Bf16Rows>(p); }
LOCKSTEP_KERNEL(embed_f16, EmbedParameters, kEmbedThreads) { embed_elements<F16Rows>(p); }
LOCKSTEP_KERNEL(embed_codes_f32, EmbedCodesParameters, kEmbedThreads) { embed_codes<F32Rows>(p); }
LOCKSTEP_KERNEL(embed_codes_bf16, EmbedCodesParameters, kEmbedThreads) { embed_codes<Bf16Rows>(p); }
LOCKSTEP_KERNEL(embed_codes_f16, EmbedCodesParameters, kEmbedThreads) { embed_codes<F16Rows>(p); }

}  // namespace lockstep::cuda
