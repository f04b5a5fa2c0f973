// The formats of a model's matrices in its files. Private to this folder.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/checkpoint/view_checkpoint.h"
#include "runtime/checkpoint/weight_formats.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// The formats of all matrices that products can read in codes; `coded` has those of the tensors in codes. A product
/// reads all experts of a layer at once: fails with `kUnsupported` when they differ.
Result<WeightFormats> formats_of(const StoredTensors& tensors,
                                 const std::map<std::string, MatrixFormat, std::less<>>& coded);

}  // namespace lockstep::checkpoint
