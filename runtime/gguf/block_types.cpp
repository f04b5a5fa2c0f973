// The types of tensors in GGUF files: numbers, names and blocks (ggml.h, ggml-common.h).
#include <algorithm>
#include <array>

#include "runtime/gguf/gguf_header.h"

namespace lockstep::gguf {
namespace {

/// Some serve only to check the extent of tensors that are not read.
constexpr std::array kBlockTypes = {
    BlockType{0, "F32", 1, 4},         BlockType{1, "F16", 1, 2},         BlockType{2, "Q4_0", 32, 18},
    BlockType{3, "Q4_1", 32, 20},      BlockType{6, "Q5_0", 32, 22},      BlockType{7, "Q5_1", 32, 24},
    BlockType{8, "Q8_0", 32, 34},      BlockType{9, "Q8_1", 32, 40},      BlockType{10, "Q2_K", 256, 84},
    BlockType{11, "Q3_K", 256, 110},   BlockType{12, "Q4_K", 256, 144},   BlockType{13, "Q5_K", 256, 176},
    BlockType{14, "Q6_K", 256, 210},   BlockType{15, "Q8_K", 256, 292},   BlockType{16, "IQ2_XXS", 256, 66},
    BlockType{17, "IQ2_XS", 256, 74},  BlockType{18, "IQ3_XXS", 256, 98}, BlockType{19, "IQ1_S", 256, 50},
    BlockType{20, "IQ4_NL", 32, 18},   BlockType{21, "IQ3_S", 256, 110},  BlockType{22, "IQ2_S", 256, 82},
    BlockType{23, "IQ4_XS", 256, 136}, BlockType{24, "I8", 1, 1},         BlockType{25, "I16", 1, 2},
    BlockType{26, "I32", 1, 4},        BlockType{27, "I64", 1, 8},        BlockType{28, "F64", 1, 8},
    BlockType{29, "IQ1_M", 256, 56},   BlockType{30, "BF16", 1, 2},       BlockType{34, "TQ1_0", 256, 54},
    BlockType{35, "TQ2_0", 256, 66},   BlockType{39, "MXFP4", 32, 17},    BlockType{40, "NVFP4", 64, 36},
    BlockType{41, "Q1_0", 128, 18},
};

}  // namespace

const BlockType* find_block_type(uint32_t number) {
  const auto* const found = std::ranges::find(kBlockTypes, number, &BlockType::number);
  return found == kBlockTypes.end() ? nullptr : found;
}

const BlockType* find_block_type(std::string_view name) {
  const auto* const found = std::ranges::find(kBlockTypes, name, &BlockType::name);
  return found == kBlockTypes.end() ? nullptr : found;
}

}  // namespace lockstep::gguf
