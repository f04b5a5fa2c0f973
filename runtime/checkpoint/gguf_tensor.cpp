#include "runtime/checkpoint/gguf_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/core/dtype.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 20;
constexpr int kMostColumns = 256;  // of a block
constexpr int kMostGroups = 16;    // of a block
constexpr int kSigned = 128;       // an 8-bit code without offsets stands for code − 128

float half(const uint8_t* src) {
  uint16_t bits = 0;
  std::memcpy(&bits, src, sizeof bits);
  return to_float(Float16{bits});
}

/// 32 nibbles: the low ones first, then the high ones.
void split_nibbles(const uint8_t* src, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = src[i] & 15;
    codes[i + 16] = src[i] >> 4;
  }
}

void decode_q4_0(const uint8_t* src, uint8_t* codes, float* scales, float* /*offsets*/) {
  scales[0] = half(src);
  split_nibbles(src + 2, codes);
}

void decode_q4_1(const uint8_t* src, uint8_t* codes, float* scales, float* offsets) {
  scales[0] = half(src);
  offsets[0] = half(src + 2);
  split_nibbles(src + 4, codes);
}

/// Adds the fifth bits of 32 codes, from the lowest bit on.
void add_fifth_bits(const uint8_t* src, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | ((src[i / 8] >> (i % 8) & 1) << 4));
}

void decode_q5_0(const uint8_t* src, uint8_t* codes, float* scales, float* /*offsets*/) {
  scales[0] = half(src);
  split_nibbles(src + 6, codes);
  add_fifth_bits(src + 2, codes);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] + kSigned - 16);
}

void decode_q5_1(const uint8_t* src, uint8_t* codes, float* scales, float* offsets) {
  scales[0] = half(src);
  offsets[0] = half(src + 2);
  split_nibbles(src + 8, codes);
  add_fifth_bits(src + 4, codes);
}

void decode_q8_0(const uint8_t* src, uint8_t* codes, float* scales, float* /*offsets*/) {
  scales[0] = half(src);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(src[2 + i] ^ kSigned);
}

/// The 8 scales and minima of Q4_K and Q5_K: 6 bits each in 12 bytes, after the two factors.
void decode_scales(const uint8_t* src, float* scales, float* offsets) {
  const float scale = half(src), minimum = half(src + 2);
  const uint8_t* const low = src + 4;
  for (int i = 0; i < 4; ++i) {
    const int high_scale = (low[8 + i] & 15) | (low[i] >> 6) << 4, high_minimum = low[8 + i] >> 4 | (low[4 + i] >> 6)
                                                                                                        << 4;
    scales[i] = scale * static_cast<float>(low[i] & 63);
    scales[i + 4] = scale * static_cast<float>(high_scale);
    offsets[i] = -(minimum * static_cast<float>(low[4 + i] & 63));
    offsets[i + 4] = -(minimum * static_cast<float>(high_minimum));
  }
}

/// Pairs of groups: 32 bytes have the nibbles of the first group below, of the second above.
void decode_q4_k(const uint8_t* src, uint8_t* codes, float* scales, float* offsets) {
  decode_scales(src, scales, offsets);
  for (int i = 0; i < 256; ++i) {
    codes[i] = static_cast<uint8_t>(src[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15);
  }
}

/// As Q4_K; bit g of byte i is the fifth bit of column i of group g.
void decode_q5_k(const uint8_t* src, uint8_t* codes, float* scales, float* offsets) {
  decode_scales(src, scales, offsets);
  for (int i = 0; i < 256; ++i) {
    const int low = src[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
    codes[i] = static_cast<uint8_t>(low | (src[16 + i % 32] >> (i / 32) & 1) << 4);
  }
}

/// Halves of 128 columns: 64 bytes of nibbles and 32 bytes with 4 pairs of upper bits; 16 scales of 8 bits, a factor.
void decode_q6_k(const uint8_t* src, uint8_t* codes, float* scales, float* /*offsets*/) {
  const float scale = half(src + 208);
  for (int g = 0; g < 16; ++g) scales[g] = scale * static_cast<float>(static_cast<int8_t>(src[192 + g]));
  for (int i = 0; i < 256; ++i) {
    const int low = src[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
    const int high = src[128 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    codes[i] = static_cast<uint8_t>((low | high << 4) + kSigned - 32);
  }
}

void decode_mxfp4(const uint8_t* src, uint8_t* codes, float* scales, float* /*offsets*/) {
  scales[0] = std::ldexp(1.0f, src[0] - 127);
  split_nibbles(src + 1, codes);
}

constexpr WeightFormat integers(int bits, int64_t group, GroupOffset offset, ScaleType scale) {
  return {.kind = CodeKind::kInteger, .bits = bits, .group = group, .offset = offset, .scale = scale};
}

using enum GroupOffset;
using enum ScaleType;

constexpr std::array kFormats = {
    GgufFormat{"Q4_0", 32, 18, integers(4, 32, kNone, kFloat16), decode_q4_0},
    GgufFormat{"Q4_1", 32, 20, integers(4, 32, kMinima, kFloat16), decode_q4_1},
    GgufFormat{"Q5_0", 32, 22, integers(8, 32, kNone, kFloat16), decode_q5_0},
    GgufFormat{"Q5_1", 32, 24, integers(8, 32, kMinima, kFloat16), decode_q5_1},
    GgufFormat{"Q8_0", 32, 34, integers(8, 32, kNone, kFloat16), decode_q8_0},
    GgufFormat{"Q4_K", 256, 144, integers(4, 32, kMinima, kFloat32), decode_q4_k},
    GgufFormat{"Q5_K", 256, 176, integers(8, 32, kMinima, kFloat32), decode_q5_k},
    GgufFormat{"Q6_K", 256, 210, integers(8, 16, kNone, kFloat32), decode_q6_k},
    GgufFormat{"MXFP4",
               32,
               17,
               {.kind = CodeKind::kE2M1, .bits = 4, .group = 32, .offset = kNone, .scale = kPowerOfTwo},
               decode_mxfp4},
};

/// A decoded block.
struct Block {
  std::array<uint8_t, kMostColumns> codes;
  std::array<float, kMostGroups> scales, offsets;
};

}  // namespace

const GgufFormat* find_gguf_format(std::string_view name) {
  const auto* const found = std::ranges::find(kFormats, name, &GgufFormat::name);
  return found == kFormats.end() ? nullptr : found;
}

Result<void> GgufTensor::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  const int64_t block = blocks_.block, group = blocks_.format.group, groups = block / group;  // of a block
  const Range touched{columns.begin / block, (columns.end + block - 1) / block};
  const Range wanted{columns.begin / group, (columns.end + group - 1) / group};
  const Range bytes{touched.begin * blocks_.bytes, touched.end * blocks_.bytes};
  const int64_t most = std::max<int64_t>(1, kBufferBytes / std::max<int64_t>(1, bytes.size()));
  std::vector<std::byte> buffer;
  Block decoded;
  for (int64_t begin = rows.begin; begin < rows.end; begin += most) {
    const Range part{begin, std::min(begin + most, rows.end)};
    buffer.resize(static_cast<size_t>(part.size() * bytes.size()));
    LOCKSTEP_TRY_VOID(read_view(files, bytes_, part, bytes, DType::kUInt8, buffer));
    for (int64_t i = 0; i < part.size() * touched.size(); ++i) {
      const int64_t row = part.begin - rows.begin + i / touched.size(), at = touched.begin + i % touched.size();
      blocks_.decode(reinterpret_cast<const uint8_t*>(buffer.data()) + i * blocks_.bytes, decoded.codes.data(),
                     decoded.scales.data(), decoded.offsets.data());
      const Range inside{std::max(columns.begin, at * block), std::min(columns.end, (at + 1) * block)};
      std::copy_n(decoded.codes.begin() + (inside.begin - at * block), inside.size(),
                  dst.codes.begin() + row * columns.size() + inside.begin - columns.begin);
      const Range of_block{std::max(wanted.begin, at * groups), std::min(wanted.end, (at + 1) * groups)};
      const auto copy_groups = [&](const auto& from, std::span<float> to) {
        std::copy_n(from.begin() + (of_block.begin - at * groups), of_block.size(),
                    to.begin() + row * wanted.size() + of_block.begin - wanted.begin);
      };
      copy_groups(decoded.scales, dst.scales);
      if (!dst.offsets.empty()) copy_groups(decoded.offsets, dst.offsets);
    }
  }
  return ok();
}

void GgufTensor::expect(const StoredFiles& files, Range rows, Range columns) const {
  const int64_t block = blocks_.block;
  expect_view(files, bytes_, rows,
              {columns.begin / block * blocks_.bytes, (columns.end + block - 1) / block * blocks_.bytes});
}

}  // namespace lockstep::checkpoint
