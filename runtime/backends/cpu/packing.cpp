#include "runtime/backends/cpu/packing.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

/// `Element` is an unsigned integer as wide as the matrix's elements.
template <typename Element>
void pack_panel(const Packing& packing, int64_t panel, const Element* src, Element* dst) {
  const int64_t width = packing.strips_of_panel(panel) * kStrip;
  const int64_t first = panel * kPanel;
  const int64_t rows = std::min(packing.n - first, width);
  const int64_t per_step = packing.pairs ? 2 : 1;
  // A few columns of all rows at a time: the reads of a row use whole cache lines before those are evicted.
  constexpr int64_t kColumnsAtOnce = 64;
  for (int64_t begin = 0; begin < packing.padded_k(); begin += kColumnsAtOnce) {
    const int64_t end = std::min(begin + kColumnsAtOnce, packing.padded_k());
    for (int64_t row = 0; row < width; ++row) {
      Element* to = dst + row * per_step;
      const Element* from = src + std::min(first + row, packing.n - 1) * packing.k;
      for (int64_t c = begin; c < end; ++c) {
        const int64_t column = row < rows ? packing.column_of(c) : -1;
        to[c / per_step * width * per_step + c % per_step] = column < 0 ? Element{0} : from[column];
      }
    }
  }
}

template <typename Element>
void pack_all(const Packing& packing, const std::byte* src, std::byte* dst) {
  for (int64_t part = 0; part < packing.parts; ++part) {
    const Element* from = reinterpret_cast<const Element*>(src) + part * packing.n * packing.k;
    std::byte* to = dst + part * packing.bytes_of_part();
    for (int64_t panel = 0; panel < packing.panels(); ++panel) {
      pack_panel(packing, panel, from, reinterpret_cast<Element*>(to + packing.panel_offset(panel)));
    }
  }
}

template <typename Element>
void unpack(const Packing& packing, const std::byte* packed, int64_t row, Element* dst) {
  const int64_t panel = row / kPanel;
  const int64_t per_step = packing.pairs ? 2 : 1;
  const int64_t stride = packing.strips_of_panel(panel) * kStrip * per_step;
  const Element* from =
      reinterpret_cast<const Element*>(packed + packing.panel_offset(panel)) + row % kPanel * per_step;
  for (int64_t c = 0; c < packing.padded_k(); ++c) {
    const int64_t column = packing.column_of(c);
    if (column >= 0) dst[column] = from[c / per_step * stride + c % per_step];
  }
}

}  // namespace

int64_t Packing::column_of(int64_t packed) const {
  const int64_t padded = padded_leaf(leaf);
  if (padded == leaf) return packed < k ? packed : -1;
  const int64_t column = packed / padded * leaf + packed % padded;
  return packed % padded < leaf && column < k ? column : -1;
}

void pack(const Packing& packing, const std::byte* src, std::byte* dst) {
  if (size_of(packing.dtype) == 4) return pack_all<uint32_t>(packing, src, dst);
  pack_all<uint16_t>(packing, src, dst);
}

void unpack_row(const Packing& packing, const std::byte* packed, int64_t row, std::byte* dst) {
  packed += row / packing.n * packing.bytes_of_part();
  row %= packing.n;
  if (size_of(packing.dtype) == 4) return unpack(packing, packed, row, reinterpret_cast<uint32_t*>(dst));
  unpack(packing, packed, row, reinterpret_cast<uint16_t*>(dst));
}

void arrange_row(const Kernels& kernels, const Packing& packing, ConstRow x, std::byte* dst) {
  if (!packing.pairs) return kernels.convert(x, {dst, DType::kFloat32}, packing.k);
  const auto* from = reinterpret_cast<const uint16_t*>(x.data);
  auto* to = reinterpret_cast<uint16_t*>(dst);
  if (packing.padded_k() == packing.k) {
    std::copy_n(from, packing.k, to);
    return;
  }
  for (int64_t c = 0; c < packing.padded_k(); ++c) {
    const int64_t column = packing.column_of(c);
    to[c] = column < 0 ? uint16_t{0} : from[column];
  }
}

bool needs_arranging(const Packing& packing, DType dtype) {
  return packing.pairs ? packing.padded_k() != packing.k : dtype != DType::kFloat32;
}

}  // namespace lockstep::cpu
