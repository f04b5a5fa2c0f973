#include "runtime/checkpoint/coded_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/checkpoint/coded_columns.h"
#include "runtime/checkpoint/coded_parts.h"
#include "runtime/checkpoint/coded_rows.h"
#include "runtime/checkpoint/sorted_columns.h"

namespace lockstep::checkpoint {
namespace {

using Types = std::span<const std::string_view>;

constexpr std::array<std::string_view, 1> kWords = {"I32"};
constexpr std::array<std::string_view, 2> kIntegers = {"I32", "I64"};
constexpr std::array<std::string_view, 3> kFloats = {"F16", "BF16", "F32"};
constexpr std::array<std::string_view, 4> kFloatsOrExponents = {"F16", "BF16", "F32", "F8_E8M0"};
constexpr std::array<std::string_view, 2> kExponents = {"U8", "F8_E8M0"};
constexpr std::array<std::string_view, 1> kSmallFloats = {"F8_E4M3"};
constexpr std::array<std::string_view, 1> kBytes = {"U8"};
constexpr std::array<std::string_view, 1> kSignedBytes = {"I8"};

int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

/// Opens one module.
class Opener {
 public:
  Opener(const StoredFiles& files, const std::string& module, const std::optional<StackPlace>& stack,
         const QuantisedModule& how, const ChooseOutputs& choose)
      : files_(files), module_(module), stack_(stack), how_(how), choose_(choose) {}

  Result<CodedMatrix> columns_in_words();
  Result<CodedMatrix> rows_in_words();
  Result<CodedMatrix> rows_of_bytes();
  Result<CodedMatrix> rows_of_small_floats(std::string_view codes);

  bool has(std::string_view part) const { return files_.tensors().contains(name_of(part)); }

 private:
  std::string name_of(std::string_view part) const { return name_of_part(files_, module_, part, stack_.has_value()); }
  Result<CodedPart> find(std::string_view part, Types types) const {
    return find_part(files_, name_of(part), types, main_, stack_);
  }
  Result<float> read_number(std::string_view part) const;
  Result<std::vector<int32_t>> read_order(std::string_view part, int64_t columns, int64_t groups) const;
  Result<void> find_scales(CodedRowsLayout& layout, std::string_view name, Types types, int64_t rows, int64_t columns);
  Result<void> find_zeros(CodedRowsLayout& layout, int64_t rows);
  Result<int64_t> columns_of_words(const CodedPart& words, const CodedRowsLayout& layout) const;
  Result<CodedMatrix> finish(CodedRowsLayout layout, int64_t rows, int64_t columns);
  CodedMatrix describe(std::shared_ptr<const CodedTensor> codes, const CodedPart& part, int64_t rows, int64_t columns,
                       ScaleType scales, std::span<const int32_t> group_of) const;

  const StoredFiles& files_;
  const std::string& module_;
  const std::optional<StackPlace>& stack_;
  const QuantisedModule& how_;
  const ChooseOutputs& choose_;
  std::string main_;  // the tensor of the codes
};

/// The only number of a tensor.
Result<float> Opener::read_number(std::string_view name) const {
  LOCKSTEP_TRY(const CodedPart part, find(name, kFloats));
  LOCKSTEP_TRY_VOID(require_shape(part, 1, 1));
  std::vector<float> number;
  LOCKSTEP_TRY_VOID(read_scales(files_, part, {0, 1}, {0, 1}, number));
  if (number.front() == 0.0f) return wrong_part(part, "the scale 0", "another number");
  return number.front();
}

/// The group of each column; empty if it follows from the column's position.
Result<std::vector<int32_t>> Opener::read_order(std::string_view name, int64_t columns, int64_t groups) const {
  LOCKSTEP_TRY(const CodedPart part, find(name, kWords));
  LOCKSTEP_TRY_VOID(require_shape(part, columns, 1));
  LOCKSTEP_TRY(const std::vector<int64_t> numbers, read_integers(files_, part));
  const int64_t width = how_.format.of_columns(columns).group;
  std::vector<int32_t> order;
  bool by_position = true;
  for (int64_t column = 0; column < columns; ++column) {
    const int64_t group = numbers[static_cast<size_t>(column)];
    if (group < 0 || group >= groups) {
      return wrong_part(part, fmt::format("group {} for column {}", group, column),
                        fmt::format("groups from 0 to {}", groups - 1));
    }
    by_position = by_position && group == column / width;
    order.push_back(static_cast<int32_t>(group));
  }
  if (by_position) order.clear();
  return order;
}

CodedMatrix Opener::describe(std::shared_ptr<const CodedTensor> codes, const CodedPart& part, int64_t rows,
                             int64_t columns, ScaleType scales, std::span<const int32_t> group_of) const {
  CodedMatrix matrix{.format = how_.format, .rows = rows, .columns = columns};
  matrix.format.weights.scale = scales;
  matrix.format.ordered = !group_of.empty();
  matrix.entry = files_.tensors().find(part.name)->second;
  matrix.entry.format = codes->format();
  matrix.entry.type = {DType::kFloat32, Shape{rows, columns}};
  matrix.entry.can_be_read = true;
  const WeightFormat stored = matrix.format.of_columns(columns);
  matrix.group_of.assign(group_of.begin(), group_of.end());
  const int64_t groups = rounded_up(columns, stored.group);
  matrix.entry.bytes = rounded_up(rows * (columns * stored.bits + groups * overhead_bits(stored)), 8);
  matrix.codes = std::move(codes);
  return matrix;
}

// ---- GPTQ and AWQ ----

Result<CodedMatrix> Opener::columns_in_words() {
  const bool is_awq = how_.layout == CodedLayout::kAwq;
  CodedColumnsLayout layout;
  main_ = name_of("qweight");
  LOCKSTEP_TRY(layout.codes, find("qweight", kWords));
  LOCKSTEP_TRY(layout.scales, find("scales", kFloats));
  LOCKSTEP_TRY(layout.zeros, find("qzeros", kWords));
  const int64_t per_word = 32 / how_.format.weights.bits, rows = layout.scales.columns;
  const int64_t columns = is_awq ? layout.codes.rows : layout.codes.rows * per_word;
  layout.format = how_.format.of_columns(columns);
  layout.format.scale = scale_type_of(layout.scales);
  const int64_t groups = rounded_up(columns, layout.format.group);
  LOCKSTEP_TRY_VOID(require_shape(layout.scales, groups, rows));
  LOCKSTEP_TRY_VOID(require_shape(layout.codes, layout.codes.rows, is_awq ? rounded_up(rows, per_word) : rows));
  LOCKSTEP_TRY_VOID(require_shape(layout.zeros, groups, rounded_up(rows, per_word)));
  LOCKSTEP_TRY(layout.outputs, choose_(rows));
  layout.words = is_awq ? CodedColumnsLayout::Words::kOfOutputs : CodedColumnsLayout::Words::kOfInputs;
  layout.added_to_zeros = how_.layout == CodedLayout::kGptq ? 1 : 0;
  if (!is_awq && has("g_idx") && groups > 1) {
    if (how_.format.ordered) {
      LOCKSTEP_TRY(layout.order, read_order("g_idx", columns, groups));
    } else {
      LOCKSTEP_TRY(layout.positions, find("g_idx", kWords));
      LOCKSTEP_TRY_VOID(require_shape(*layout.positions, columns, 1));
    }
  }
  const std::vector<int32_t> group_of = layout.order;
  if (!group_of.empty()) layout.format.group = 1;
  const CodedPart codes = layout.codes;
  const ScaleType scales = layout.format.scale;
  const int64_t count = layout.outputs.count;
  return describe(std::make_shared<ColumnCodedTensor>(std::move(layout)), codes, count, columns, scales, group_of);
}

// ---- compressed-tensors, FP8 ----

/// The scales of a matrix of that shape: of groups, of whole rows or of all elements.
Result<void> Opener::find_scales(CodedRowsLayout& layout, std::string_view name, Types types, int64_t rows,
                                 int64_t columns) {
  LOCKSTEP_TRY(layout.scales, find(name, types));
  layout.format.scale = scale_type_of(layout.scales);
  const int64_t groups = rounded_up(columns, layout.format.group);
  if (layout.scales.elements() == 1 && groups == 1) {
    layout.rows_of_scale = std::max<int64_t>(1, rows);
    return ok();
  }
  layout.rows_of_scale = how_.layout == CodedLayout::kBlocks ? how_.block_rows : 1;
  return require_shape(layout.scales, rounded_up(rows, layout.rows_of_scale), groups);
}

Result<void> Opener::find_zeros(CodedRowsLayout& layout, int64_t rows) {
  if (layout.format.offset == GroupOffset::kNone) return ok();
  const bool packed = how_.layout == CodedLayout::kPacked;
  const Types types = packed ? Types(kWords) : Types(kSignedBytes);
  LOCKSTEP_TRY(layout.zeros, find("weight_zero_point", types));
  return require_shape(*layout.zeros, packed ? rounded_up(rows * layout.format.bits, 32) : rows, layout.scales.columns);
}

/// The columns of a matrix in words, whose rows may end inside a word.
Result<int64_t> Opener::columns_of_words(const CodedPart& words, const CodedRowsLayout& layout) const {
  const int64_t per_word = 32 / layout.format.bits, most = words.columns * per_word;
  if (!has("weight_shape")) return most;
  // A stack has one shape of three numbers.
  LOCKSTEP_TRY(const CodedPart part, find_part(files_, name_of("weight_shape"), kIntegers, main_));
  LOCKSTEP_TRY(std::vector<int64_t> shape, read_integers(files_, part));
  if (stack_ && shape.size() == 3 && shape[0] == stack_->experts) shape.erase(shape.begin());
  if (shape.size() != 2 || shape[0] != words.rows || shape[1] > most || shape[1] <= most - per_word) {
    return wrong_part(part, fmt::format("[{}]", fmt::join(shape, ", ")),
                      fmt::format("[{}, {}] or up to {} columns less", words.rows, most, per_word - 1));
  }
  return shape[1];
}

Result<CodedMatrix> Opener::finish(CodedRowsLayout layout, int64_t rows, int64_t columns) {
  LOCKSTEP_TRY(layout.outputs, choose_(rows));
  if (has("weight_g_idx") && layout.scales.columns > 1) {
    LOCKSTEP_TRY(layout.order, read_order("weight_g_idx", columns, layout.scales.columns));
  }
  const std::vector<int32_t> group_of = layout.order;
  if (!group_of.empty()) layout.format.group = 1;
  const CodedPart codes = layout.codes;
  const ScaleType scales = layout.format.scale;
  const int64_t count = layout.outputs.count;
  return describe(std::make_shared<RowCodedTensor>(std::move(layout)), codes, count, columns, scales, group_of);
}

Result<CodedMatrix> Opener::rows_in_words() {
  CodedRowsLayout layout{.format = how_.format.weights};
  main_ = name_of("weight_packed");
  LOCKSTEP_TRY(layout.codes, find("weight_packed", kWords));
  LOCKSTEP_TRY(const int64_t columns, columns_of_words(layout.codes, layout));
  layout.format = how_.format.of_columns(columns);
  LOCKSTEP_TRY_VOID(find_scales(layout, "weight_scale", kFloats, layout.codes.rows, columns));
  LOCKSTEP_TRY_VOID(find_zeros(layout, layout.codes.rows));
  return finish(std::move(layout), layout.codes.rows, columns);
}

Result<CodedMatrix> Opener::rows_of_bytes() {
  CodedRowsLayout layout;
  main_ = name_of("weight");
  layout.is_signed = how_.format.weights.kind == CodeKind::kInteger;
  LOCKSTEP_TRY(layout.codes, find("weight", layout.is_signed ? Types(kSignedBytes) : Types(kSmallFloats)));
  const int64_t rows = layout.codes.rows, columns = layout.codes.columns;
  layout.format = how_.format.of_columns(columns);
  const bool has_exponents = how_.format.weights.scale == ScaleType::kPowerOfTwo;
  const Types types = has_exponents ? Types(kExponents) : Types(kFloatsOrExponents);
  LOCKSTEP_TRY_VOID(
      find_scales(layout, has("weight_scale_inv") ? "weight_scale_inv" : "weight_scale", types, rows, columns));
  LOCKSTEP_TRY_VOID(find_zeros(layout, rows));
  return finish(std::move(layout), rows, columns);
}

// ---- NVFP4, MXFP4 ----

Result<CodedMatrix> Opener::rows_of_small_floats(std::string_view codes) {
  CodedRowsLayout layout;
  main_ = name_of(codes);
  LOCKSTEP_TRY(layout.codes, find(codes, kBytes));
  const int64_t rows = layout.codes.rows, columns = 2 * layout.codes.columns;
  layout.format = how_.format.of_columns(columns);
  const bool is_mxfp4 = how_.layout == CodedLayout::kMxfp4;
  LOCKSTEP_TRY_VOID(
      find_scales(layout, "weight_scale", is_mxfp4 ? Types(kExponents) : Types(kSmallFloats), rows, columns));
  if (how_.layout == CodedLayout::kNvfp4) {
    LOCKSTEP_TRY(layout.divisor, read_number("weight_global_scale"));
  } else if (how_.layout == CodedLayout::kNvfp4Product) {
    LOCKSTEP_TRY(layout.factor, read_number("weight_scale_2"));
  }
  return finish(std::move(layout), rows, columns);
}

}  // namespace

std::string name_of_part(const StoredFiles& files, const std::string& module, std::string_view part, bool is_stack) {
  constexpr std::string_view kWeight = "weight";
  std::string usual = fmt::format("{}.{}", module, part);
  if (!is_stack || files.tensors().contains(usual)) return usual;
  std::string_view rest = part;
  if (part.starts_with(kWeight)) rest.remove_prefix(std::min(part.size(), kWeight.size() + 1));
  for (std::string name :
       {fmt::format("{}_{}", module, part), fmt::format("{}{}{}", module, rest.empty() ? "" : "_", rest)}) {
    if (files.tensors().contains(name)) return name;
  }
  return usual;
}

void sort_columns(CodedMatrix& matrix) {
  const WeightFormat format = matrix.format.of_columns(matrix.columns);
  WeightFormat sorted = matrix.codes->format();
  sorted.group = format.group;
  std::vector<int32_t> order = order_by_group(matrix.group_of, format.group);
  if (order.empty()) return;
  matrix.codes = std::make_shared<SortedColumns>(std::move(matrix.codes), sorted, std::move(order));
  matrix.entry.format = sorted;
}

Result<std::optional<CodedMatrix>> open_coded_matrix(const StoredFiles& files, const std::string& module,
                                                     const std::optional<StackPlace>& stack, const QuantisedModule& how,
                                                     const ChooseOutputs& choose) {
  const auto weight = files.tensors().find(name_of_part(files, module, "weight", stack.has_value()));
  const bool has_elements = weight != files.tensors().end() && weight->second.can_be_read;
  const auto some = [](Result<CodedMatrix> matrix) -> Result<std::optional<CodedMatrix>> {
    LOCKSTEP_TRY(CodedMatrix opened, std::move(matrix));
    return std::optional(std::move(opened));
  };
  if (has_elements || how.layout == CodedLayout::kMxfp4Blocks) return std::optional<CodedMatrix>();
  Opener opener(files, module, stack, how, choose);
  const auto has = [&](std::string_view part) { return opener.has(part); };
  switch (how.layout) {
    case CodedLayout::kGptq:
    case CodedLayout::kGptqV2:
    case CodedLayout::kAwq:
      if (has("qweight")) return some(opener.columns_in_words());
      break;
    case CodedLayout::kPacked:
      if (has("weight_packed")) return some(opener.rows_in_words());
      break;
    case CodedLayout::kBytes:
    case CodedLayout::kBlocks:
      if (has("weight")) return some(opener.rows_of_bytes());
      break;
    case CodedLayout::kNvfp4:
    case CodedLayout::kMxfp4:
      if (has("weight_packed")) return some(opener.rows_of_small_floats("weight_packed"));
      break;
    case CodedLayout::kNvfp4Product:
      if (has("weight")) return some(opener.rows_of_small_floats("weight"));
      break;
    case CodedLayout::kMxfp4Blocks: break;
  }
  return std::optional<CodedMatrix>();
}

}  // namespace lockstep::checkpoint
