// Writes a copy of a model directory whose matrices have codes, in the format of compressed-tensors.
//
//   config.json       with quantization_config (quant_method compressed-tensors, format pack-quantized)
//   *.safetensors     NAME.weight [N, K] becomes NAME.weight_packed i32 [N, K · bits / 32] (first code in the low
//   bits),
//                     NAME.weight_scale [N, K / group] in the model's type, NAME.weight_shape i64 [2]
//   all other files   as they are, without the sums of the weights (lockstep.sums.json)
//
// Source: compressed_tensors 0.20, compressors/pack_quantized and quantization/quant_config.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// What the copy has of one matrix.
struct QuantisedMatrix {
  std::string module;  // its name in the files, without ".weight"
  int64_t rows = 0;
  int64_t columns = 0;
  double error = 0.0;  // root mean square of the elements' changes / of the elements
};

struct QuantisedCopy {
  std::vector<QuantisedMatrix> matrices;  // in the order of the files
  std::vector<std::string> kept;          // modules whose matrices keep their elements, by name
  int64_t bytes_before = 0;               // of all weight files
  int64_t bytes_after = 0;
};

struct CopyOptions {
  int bits = 4;        // 4 or 8
  int64_t group = 32;  // columns of a scale
  int threads = 1;
  std::function<void(double done)> progress = {};  // the part of the tensors that is written
};

/// Writes the directory `dst`, which must not exist or be empty, from the Hugging Face directory `src`. The matrices of
/// layers that are stored as [outputs, inputs] get codes, if groups divide their columns; embeddings, the head, routers
/// and all others keep their elements. config.json is written last, so an incomplete copy cannot be loaded. Fails as
/// `open_model_checkpoint`; with `kUnsupported` for a source with codes and for a model without such matrices, with
/// `kInvalidArgument` for a folder that is not empty or not writable. @blocking (disk)
Result<QuantisedCopy> write_quantised_copy(const std::filesystem::path& src, const std::filesystem::path& dst,
                                           const CopyOptions& options);

}  // namespace lockstep::checkpoint
