// Codes of weights and what they stand for (runtime/core/weight_format.h, coded_packing.h).
#pragma once

#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {

/// The columns of a group.
struct Columns {
  int begin;
  int end;
};
LOCKSTEP_DEVICE int groups_of_leaf(const GroupCut& cut) { return (cut.leaf + cut.width - 1) / cut.width; }
LOCKSTEP_DEVICE Columns columns_of(const GroupCut& cut, int group) {
  const int per_leaf = groups_of_leaf(cut);
  const int first = group / per_leaf * cut.leaf;
  const int begin = first + group % per_leaf * cut.width;
  const int leaf_end = cut.leaf < cut.columns - first ? first + cut.leaf : cut.columns;
  return {begin, cut.width < leaf_end - begin ? begin + cut.width : leaf_end};
}

constexpr int kCodesOfWord = 8;  // at most
LOCKSTEP_DEVICE bool has_halves(const CodeLayout& layout) { return layout.form == kInteger4 || layout.form == kE2M1; }
LOCKSTEP_DEVICE int codes_of_word(const CodeLayout& layout) { return has_halves(layout) ? 8 : 4; }

/// Where the codes of a group begin in a tile.
struct GroupPlace {
  int64_t words;  // of the unit's first output
  int first;      // code in its word
};
LOCKSTEP_DEVICE GroupPlace place_of_group(const CodeLayout& layout, int group) {
  const int per_leaf = groups_of_leaf(layout.groups);
  const int in_leaf = group % per_leaf;
  const int64_t unit = static_cast<int64_t>(group / per_leaf) * layout.units_of_leaf + in_leaf / layout.groups_of_word;
  return {unit * layout.words * kTileOutputs, in_leaf % layout.groups_of_word * layout.groups.width};
}

struct alignas(8) WordPair {
  uint32_t word[2];
};
/// Words of one output that lie together.
LOCKSTEP_DEVICE Words load_codes(const uint32_t* at, int load) {
  if (load == 4) return load_once(reinterpret_cast<const Words*>(at));
  Words words{};
  if (load == 2) {
    const WordPair pair = *reinterpret_cast<const WordPair*>(at);
    words.word[0] = pair.word[0];
    words.word[1] = pair.word[1];
  } else {
    words.word[0] = *at;
  }
  return words;
}

LOCKSTEP_DEVICE float e2m1_value(uint32_t code) {
  const uint32_t magnitude = code & 7u;
  const float size = magnitude < 2 ? (magnitude == 0 ? 0.0f : 0.5f) : float_of_bits((magnitude + 252u) << 22);
  return (code & 8u) == 0 ? size : -size;
}

LOCKSTEP_DEVICE float e4m3_value(uint32_t code) {
  const uint32_t magnitude = code & 0x7fu;
  float size = float_of_bits((magnitude << 20) + (120u << 23));
  if (magnitude < 8) size = times(float_of_whole(static_cast<int32_t>(magnitude)), 0.001953125f);  // 2⁻⁹
  if (magnitude == 0x7f) size = float_of_bits(0x7fc00000u);
  return (code & 0x80u) == 0 ? size : -size;
}

/// The code e4m3 of a value from −448 to 448, rounded to nearest even (runtime/core/cache_rows.h).
LOCKSTEP_DEVICE uint32_t e4m3_of(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 24 & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude < 121u << 23) {  // multiples of 2⁻⁹ below 2⁻⁶; adding 2¹⁴ rounds to them
    return sign | (bits_of(plus(float_of_bits(magnitude), 16384.0f)) & 0xfu);
  }
  const uint32_t rounded = ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - (120u << 3);
  return sign | (rounded < 0x7eu ? rounded : 0x7eu);
}

/// What the code at `place` of a word stands for, before scale and offset.
LOCKSTEP_DEVICE float code_value(const CodeLayout& layout, uint32_t word, int place) {
  if (has_halves(layout)) {
    const uint32_t code = word >> (place % 4 * 8 + place / 4 * 4) & 0xfu;
    if (layout.form == kE2M1) return e2m1_value(code);
    return float_of_whole(static_cast<int32_t>(code) - (layout.offset_kind == kNoOffsets ? 8 : 0));
  }
  const uint32_t code = word >> (place * 8) & 0xffu;
  if (layout.form == kE4M3) return e4m3_value(code);
  return float_of_whole(static_cast<int32_t>(code) - (layout.offset_kind == kNoOffsets ? 128 : 0));
}

/// Four codes of a word as signed bytes: the integers of codes of 4 bits, those of 8 bits less 128, halves of e2m1.
LOCKSTEP_DEVICE uint32_t bytes_of_codes(const CodeLayout& layout, uint32_t word, int half) {
  if (!has_halves(layout)) return word ^ 0x80808080u;
  const uint32_t codes = word >> (half * 4) & 0x0f0f0f0fu;
  if (layout.form == kInteger4) return codes;
  constexpr uint64_t kTwice = 0x0c08060403020100u;  // of each magnitude
  uint32_t bytes = 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint32_t code = codes >> (8 * i) & 0xfu;
    const auto magnitude = static_cast<uint32_t>(kTwice >> (8 * (code & 7u))) & 0xffu;
    bytes |= ((code & 8u) == 0 ? magnitude : (0u - magnitude) & 0xffu) << (8 * i);
  }
  return bytes;
}

/// Number `index` of scales or minima.
LOCKSTEP_DEVICE float scale_at(const unsigned char* scales, int32_t type, int64_t index) {
  if (type == kScaleF32) return reinterpret_cast<const float*>(scales)[index];
  if (type == kScaleBf16) return float_of(reinterpret_cast<const Bf16*>(scales)[index]);
  if (type == kScaleF16) return float_of_half(reinterpret_cast<const uint16_t*>(scales)[index]);
  const uint32_t exponent = scales[index];
  if (exponent == 0) return float_of_bits(0x00400000u);  // 2⁻¹²⁷
  return float_of_bits(exponent == 255 ? 0x7fc00000u : exponent << 23);
}

/// What a group of an output has beside its codes.
struct BesideCodes {
  float scale;
  float offset;  // zero or minimum; 0: none
};
LOCKSTEP_DEVICE BesideCodes beside_codes(const CodeLayout& layout, const unsigned char* tile, int group, int output) {
  const int64_t at = static_cast<int64_t>(group) * kTileOutputs + output;
  const float scale = scale_at(tile + layout.scales, layout.scale_type, at);
  if (layout.offset_kind == kNoOffsets) return {scale, 0.0f};
  const unsigned char* offsets = tile + layout.offsets;
  if (layout.offset_kind == kMinimumOffsets) return {scale, scale_at(offsets, layout.scale_type, at)};
  const int32_t zero = has_halves(layout) ? offsets[at] : reinterpret_cast<const uint16_t*>(offsets)[at];
  return {scale, float_of_whole(zero)};
}

}  // namespace lockstep::cuda
