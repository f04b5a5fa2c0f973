// Finding the tensors of a quantised module in the files. Private to this folder.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/coded_tensor.h"
#include "runtime/checkpoint/module_rules.h"
#include "runtime/checkpoint/output_rows.h"
#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/strided_tensor.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// A matrix in codes, and what is known of it from the headers.
struct CodedMatrix {
  std::shared_ptr<const CodedTensor> codes;  // shared by copies of a stored tensor
  MatrixFormat format;                       // with the type of the stored scales
  std::vector<int32_t> group_of;             // of each column, if not by position; groups of `codes` are then of one
  int64_t rows = 0;
  int64_t columns = 0;
  TensorEntry entry;  // of the codes in the file
};

/// Sorts the columns of a matrix with `group_of` by group, if all groups have the size of its format. @pure
void sort_columns(CodedMatrix& matrix);

/// Which of all outputs are the rows; fails if they cannot be divided so.
using ChooseOutputs = std::function<Result<OutputRows>(int64_t outputs)>;

/// Opens the matrix of `module` ("model.layers.0.mlp.down_proj") that `how` describes; of one expert, if its tensors
/// are `stacks` [experts, …] ("model.layers.0.mlp.experts.gate_up_proj"). Reads only a few numbers. None if the files
/// hold it as elements or not at all. Fails with `kNotFound` for a missing part, and with `kInvalidArgument` when parts
/// do not fit each other, the number of bits or the groups; the message names the tensor.
Result<std::optional<CodedMatrix>> open_coded_matrix(const StoredFiles& files, const std::string& module,
                                                     const std::optional<StackPlace>& stack, const QuantisedModule& how,
                                                     const ChooseOutputs& choose);

/// The name of `part` ("weight_scale") of `module`: the first of its possible names that the files have, or else the
/// usual one. Parts of a stack may be named after it: NAME.weight_scale, NAME_weight_scale or NAME_scale; NAME.weight
/// or NAME.
std::string name_of_part(const StoredFiles& files, const std::string& module, std::string_view part, bool is_stack);

}  // namespace lockstep::checkpoint
