#include "runtime/checkpoint/stored_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/checkpoint/coded_heads.h"
#include "runtime/checkpoint/coded_matrix.h"
#include "runtime/checkpoint/gguf_names.h"
#include "runtime/checkpoint/gguf_tensor.h"
#include "runtime/checkpoint/mxfp4.h"
#include "runtime/checkpoint/output_rows.h"
#include "runtime/checkpoint/quantisation_config.h"
#include "runtime/checkpoint/stored_formats.h"
#include "runtime/checkpoint/stored_names.h"
#include "runtime/checkpoint/strided_tensor.h"
#include "runtime/checkpoint/tiled_heads.h"
#include "runtime/checkpoint/view_checkpoint.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kHead = "lm_head.weight", kEmbedding = "model.embed_tokens.weight", kWeight = ".weight";

/// Locates each tensor in the files of one model.
class Resolver {
 public:
  /// `rules`: of the modules of a quantised checkpoint.
  Resolver(const StoredFiles& files, const ModelSpec& spec, const FamilyNames& family, std::string_view prefix,
           std::optional<ModuleRules> rules)
      : files_(files), spec_(spec), family_(family), prefix_(prefix), rules_(std::move(rules)) {}

  Result<StoredTensors> resolve_all();
  /// The formats of the matrices in codes that were resolved.
  const std::map<std::string, MatrixFormat, std::less<>>& coded() const { return coded_; }

 private:
  Result<void> add(std::string_view before, std::string_view stored_before, const StoredForm& form, int64_t layer);
  Result<void> add_one(const std::string& canonical, const std::string& name, const StoredForm& form, StackPlace place);
  Result<void> add_coded(const std::string& canonical, const std::string& module, const StoredForm& form,
                         StackPlace place);
  void add_order(const std::string& canonical, const CodedMatrix& matrix);
  Result<void> refuse_scaled_activations() const;
  Result<void> add_mxfp4(const std::string& canonical, const std::string& name, const StoredForm& form,
                         StackPlace place);
  Result<TensorView> view_of(const std::string& name, const TensorEntry& entry, Strided tensor,
                             const StoredForm& form) const;
  Result<void> add_blocks(const std::string& canonical, const std::string& name, const GgufFormat& blocks,
                          const StoredForm& form, TensorView view);
  StoredChange change_of(std::string_view canonical) const;

  /// Whether the rows of a head alternate in the file.
  bool has_pairs(const StoredForm& form) const {
    return family_.pairs_rows &&
           (form.canonical.starts_with("self_attn.q_proj") || form.canonical.starts_with("self_attn.k_proj"));
  }

  const StoredFiles& files_;
  const ModelSpec& spec_;
  const FamilyNames& family_;
  const std::string_view prefix_;
  const std::optional<ModuleRules> rules_;
  StoredTensors found_;
  std::map<std::string, MatrixFormat, std::less<>> coded_;  // the formats of those in codes
};

Result<StoredTensors> Resolver::resolve_all() {
  if (rules_) LOCKSTEP_TRY_VOID(refuse_scaled_activations());
  for (const StoredForm& form : family_.model) LOCKSTEP_TRY_VOID(add("", "", form, /*layer=*/0));
  const std::string layer_prefix = fmt::format("{{p}}{}", family_.layer);
  for (const auto forms : family_.layer_forms) {
    for (const StoredForm& form : forms) {
      for (int64_t layer = 0; layer < spec_.layers; ++layer) {
        LOCKSTEP_TRY_VOID(add("model.layers.{n}.", layer_prefix, form, layer));
      }
    }
  }
  if (const auto head = found_.find(kHead); spec_.tied_embeddings && head != found_.end()) {
    found_.try_emplace(std::string(kEmbedding), head->second);
  }
  return std::move(found_);
}

/// Adds all tensors of a form in one layer: weight and bias, all experts or streams.
Result<void> Resolver::add(std::string_view before, std::string_view stored_before, const StoredForm& form,
                           int64_t layer) {
  const std::string canonical = fmt::format("{}{}", before, form.canonical);
  const std::string stored = fmt::format("{}{}", stored_before, form.stored);
  int64_t numbers = 1;
  if (canonical.find("{e}") != std::string::npos) numbers = spec_.experts;
  if (canonical.find("{s}") != std::string::npos) numbers = spec_.streams - 1;
  const bool both = canonical.back() == '*';
  for (const std::string_view parameter : {"weight", "bias"}) {
    if (parameter == "bias" && !both) break;
    for (int64_t number = 0; number < numbers; ++number) {
      const Placeholders filled{prefix_, layer, number, parameter};
      LOCKSTEP_TRY_VOID(add_one(fill_in(canonical, filled), fill_in(stored, filled), form, {numbers, number}));
    }
  }
  return ok();
}

/// The view of a stored matrix or vector without experts.
Result<TensorView> Resolver::view_of(const std::string& name, const TensorEntry& entry, Strided tensor,
                                     const StoredForm& form) const {
  const size_t rank = tensor.dims.size();
  if (rank == 0 || rank > 2 || tensor.strides.empty()) {
    return wrong_shape(name, entry, "a matrix or a vector with elements");
  }
  const bool input_first = rank == 2 && (form.axes == Axes::kInputOutput || form.axes == Axes::kExpertsInputOutput);
  const size_t out = input_first ? 1 : 0;
  const std::optional<OutputRows> rows = has_pairs(form) ? halves_of_heads(tensor.dims[out], spec_.head_dim)
                                                         : choose_rows(form.outputs, tensor.dims[out], spec_);
  if (!rows) {
    return wrong_shape(name, entry,
                       fmt::format("an axis that divides into the parts of {} query and {} key/value heads of {}, or "
                                   "into gate and up",
                                   spec_.query_heads, spec_.key_value_heads, spec_.head_dim));
  }
  const int64_t stride = tensor.strides[out];
  TensorView view{.file = entry.file, .dtype = entry.type.dtype};
  view.offset = tensor.offset + rows->first * stride * static_cast<int64_t>(size_of(entry.type.dtype));
  view.rows = rows->count;
  view.columns = rank == 2 ? tensor.dims[1 - out] : 1;
  view.group = std::max<int64_t>(1, rows->group > 0 ? rows->group : rows->count);
  view.group_stride = rows->group_step * stride;
  view.row_stride = rows->step * stride;
  view.set = rows->set;
  view.set_stride = rows->set_step * stride;
  view.column_stride = rank == 2 ? tensor.strides[1 - out] : 1;
  if (form.axes == Axes::kInputOutputByHead) return transposed_groups(std::move(view));
  return view;
}

/// AWQ of models without a gate divides the MLP's activations by learned scales.
Result<void> Resolver::refuse_scaled_activations() const {
  for (const auto& [name, entry] : files_.tensors()) {
    if (!name.ends_with(".act.scales")) continue;
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/checkpoint] cannot run the model of {}: found the tensor {}, expected activations "
                    "without scales; take the model in another format",
                    files_.directory().string(), name)};
  }
  return ok();
}

/// Records the matrix `canonical` of `module`, if the rules say that it has codes and the files agree.
Result<void> Resolver::add_coded(const std::string& canonical, const std::string& module, const StoredForm& form,
                                 StackPlace place) {
  const std::optional<StackPlace> stack = is_stack(form.axes) ? std::optional(place) : std::nullopt;
  const std::string start = stack ? module : module + ".";
  const auto first = files_.tensors().lower_bound(start);
  if (first == files_.tensors().end() || !first->first.starts_with(start)) return ok();
  LOCKSTEP_TRY(const auto how, rules_->find(std::array{module}));
  if (!how) return ok();
  const auto choose = [&](int64_t outputs) -> Result<OutputRows> {
    if (const auto rows = choose_rows(form.outputs, outputs, spec_)) return *rows;
    return wrong_shape(first->first, first->second, fmt::format("parts of {} rows that fit the config", outputs));
  };
  LOCKSTEP_TRY(auto matrix, open_coded_matrix(files_, module, stack, *how, choose));
  if (!matrix) return ok();
  if (form.axes == Axes::kExpertsInputOutput) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/checkpoint] cannot use {} of {}: found a stack [experts, in, out] in codes, "
                             "expected [experts, out, in] or each expert by itself; take the model in another format",
                             module, files_.directory().string())};
  }
  if (form.axes == Axes::kInputOutputByHead) {
    const int64_t heads = spec_.query_heads, rows = matrix->rows / heads;
    matrix->codes = std::make_shared<TransposedHeads>(std::move(matrix->codes), rows, matrix->columns);
    matrix->entry.type.shape = {heads * matrix->columns, rows};
    matrix->entry.format = matrix->codes->format();
  } else if (!matrix->group_of.empty()) {
    sort_columns(*matrix);
  }
  const bool is_sorted = !matrix->codes->order().empty();
  if (is_sorted || matrix->group_of.empty()) coded_.emplace(canonical, matrix->format);
  const std::string name = name_of_part(files_, module, "weight", stack.has_value());
  if (is_sorted) add_order(canonical, *matrix);
  found_.emplace(canonical, StoredTensor{name, std::move(matrix->entry), {}, std::move(matrix->codes)});
  for (const char* const part : {"input_scale", "activation_scale"}) {  // the second is transformers' own name
    const auto scale = files_.tensors().find(name_of_part(files_, module, part, stack.has_value()));
    if (scale == files_.tensors().end()) continue;
    TensorEntry entry = scale->second;
    if (entry.type.shape.elements() == 1) entry.type.shape = Shape{1};
    const std::string of_input = canonical.substr(0, canonical.size() - kWeight.size()) + ".input_scale";
    found_.emplace(of_input, as_it_is(scale->first, entry));
  }
  return ok();
}

/// Records the order of the columns of the matrix `canonical`.
void Resolver::add_order(const std::string& canonical, const CodedMatrix& matrix) {
  TensorEntry entry = matrix.entry;
  entry.type = {DType::kFloat32, Shape{matrix.columns}};
  entry.bytes = entry.type.bytes();
  entry.format.reset();
  const std::string name = canonical.substr(0, canonical.size() - kWeight.size()) + ".column_order";
  found_.emplace(name, StoredTensor{.stored_name = name, .entry = entry, .codes = matrix.codes, .is_order = true});
}

/// Records the tensor `canonical` if the file holds it as `name` and no earlier form did.
Result<void> Resolver::add_one(const std::string& canonical, const std::string& name, const StoredForm& form,
                               StackPlace place) {
  if (found_.contains(canonical)) return ok();
  if (form.axes == Axes::kExpertsMxfp4) return add_mxfp4(canonical, name, form, place);
  if (rules_ && canonical.ends_with(kWeight) && (name.ends_with(kWeight) || is_stack(form.axes))) {
    const std::string module = name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
    LOCKSTEP_TRY_VOID(add_coded(canonical, module, form, place));
    if (found_.contains(canonical)) return ok();
  }
  const auto it = files_.tensors().find(name);
  if (it == files_.tensors().end()) return ok();
  const TensorType& stored = it->second.type;
  const GgufFormat* const blocks = stored.shape.rank() > 1 ? find_gguf_format(it->second.stored_dtype) : nullptr;
  if (form.outputs == Outputs::kAll && form.axes == Axes::kOutputInput && blocks == nullptr && !has_pairs(form)) {
    StoredTensor whole = as_it_is(name, it->second);
    whole.change = change_of(canonical);
    found_.emplace(canonical, std::move(whole));
    return ok();
  }
  const TensorEntry entry = blocks != nullptr ? as_bytes(it->second, *blocks) : it->second;
  place.is_bias = canonical.ends_with(".bias");
  LOCKSTEP_TRY(Strided tensor, matrix_of(name, entry, form, place));
  const size_t rank = tensor.dims.size();
  LOCKSTEP_TRY(TensorView view, view_of(name, entry, std::move(tensor), form));
  if (blocks != nullptr) return add_blocks(canonical, name, *blocks, form, std::move(view));
  TensorEntry seen = entry;
  seen.type.shape = rank == 2 ? Shape{view.rows, view.columns} : Shape{view.rows};
  seen.bytes = seen.type.bytes();
  StoredTensor found{name, std::move(seen), std::move(view)};
  found.change = change_of(canonical);
  if (form.axes == Axes::kOutputTiledInput) {
    LOCKSTEP_TRY(found.columns, tiled_heads(name, found.entry, spec_.delta_rule));
  }
  found_.emplace(canonical, std::move(found));
  return ok();
}

/// What the conversion of the family's files does to a tensor.
StoredChange Resolver::change_of(std::string_view canonical) const {
  const bool is_norm = canonical.ends_with(kWeight) && canonical.find("norm") != std::string::npos;
  if (family_.shifts_norms && is_norm && !canonical.ends_with("linear_attn.norm.weight"))
    return StoredChange::kOneAdded;
  const bool is_decay = family_.stores_decay && canonical.ends_with("linear_attn.a_log");
  return is_decay ? StoredChange::kNegatedPower : StoredChange::kNone;
}

/// Records a matrix in blocks, of which `view` has the bytes.
Result<void> Resolver::add_blocks(const std::string& canonical, const std::string& name, const GgufFormat& blocks,
                                  const StoredForm& form, TensorView view) {
  TensorEntry seen = files_.tensors().find(name)->second;
  if (view.column_stride != 1) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/checkpoint] cannot use tensor {} of {}: found {} in a matrix that is stored "
                             "transposed, expected F32, BF16 or F16; convert the model with a newer llama.cpp",
                             name, seen.file.string(), blocks.name)};
  }
  seen.type = {DType::kFloat32, Shape{view.rows, view.columns / blocks.bytes * blocks.block}};
  seen.bytes = view.rows * view.columns;
  seen.can_be_read = true;
  seen.format = blocks.format;
  coded_.emplace(canonical, MatrixFormat{.weights = blocks.format});
  std::shared_ptr<const CodedTensor> codes = std::make_shared<GgufTensor>(blocks, std::move(view));
  if (form.axes == Axes::kOutputTiledInput) {
    LOCKSTEP_TRY(const TiledHeads heads, tiled_heads(name, seen, spec_.delta_rule));
    LOCKSTEP_TRY(codes, with_tiled_columns(name, seen, std::move(codes), heads));
  }
  found_.emplace(canonical, StoredTensor{name, std::move(seen), {}, std::move(codes)});
  return ok();
}

Result<void> Resolver::add_mxfp4(const std::string& canonical, const std::string& name, const StoredForm& form,
                                 StackPlace place) {
  const auto blocks = files_.tensors().find(name + "_blocks"), scales = files_.tensors().find(name + "_scales");
  if (blocks == files_.tensors().end() && scales == files_.tensors().end()) return ok();
  const auto absent = files_.tensors().end();
  if (blocks == absent || scales == absent) {
    const auto& there = blocks == absent ? scales : blocks;
    return wrong_shape(there->first, there->second, "_blocks and _scales together");
  }
  LOCKSTEP_TRY(Strided nibbles, expert_of(blocks->first, blocks->second, 4, place));
  LOCKSTEP_TRY(Strided exponents, expert_of(scales->first, scales->second, 3, place));
  const std::vector<int64_t> dims = {exponents.dims[0], exponents.dims[1], kMxfp4BlockBytes};
  const auto is_dense_u8 = [](const TensorEntry& entry) { return entry.stored_dtype == "U8" && entry.strides.empty(); };
  if (nibbles.dims != dims || !is_dense_u8(blocks->second) || !is_dense_u8(scales->second)) {
    return wrong_shape(blocks->first, blocks->second,
                       fmt::format("U8 [experts, {}, {}, {}] as its scales have it", dims[0], dims[1], dims[2]));
  }
  nibbles.dims = {dims[0], dims[1] * dims[2]};
  nibbles.strides = {dims[1] * dims[2], 1};
  LOCKSTEP_TRY(TensorView view, view_of(blocks->first, blocks->second, std::move(nibbles), form));
  LOCKSTEP_TRY(TensorView scale_view, view_of(scales->first, scales->second, std::move(exponents), form));
  TensorEntry seen = blocks->second;
  seen.type = {DType::kBFloat16, Shape{view.rows, dims[1] * kMxfp4Block}};
  seen.bytes = view.rows * dims[1] * (kMxfp4BlockBytes + 1);
  seen.stored_dtype = "MXFP4";
  seen.can_be_read = true;
  auto codes = std::make_shared<Mxfp4Tensor>(std::move(view), std::move(scale_view));
  seen.format = codes->format();
  coded_.emplace(canonical, MatrixFormat{.weights = codes->format()});
  found_.emplace(canonical, StoredTensor{blocks->first, std::move(seen), {}, std::move(codes)});
  return ok();
}

/// The prefix of the file's first layer.
Result<std::string_view> find_prefix(const StoredFiles& files, const FamilyNames& family, const ModelSpec& spec) {
  std::vector<std::string> tried;
  for (const std::string_view prefix : family.prefixes) {
    const std::string first = fill_in(fmt::format("{{p}}{}", family.layer), {prefix, 0, 0, {}});
    const auto it = files.tensors().lower_bound(first);
    if (it != files.tensors().end() && it->first.starts_with(first)) return prefix;
    tried.push_back(first + "…");
  }
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[runtime/checkpoint] cannot use the weights of {} as those of a {}: found no tensor {} among "
                  "{}, expected its first layer; config and checkpoint do not belong together",
                  files.directory().string(), spec.model_type, fmt::join(tried, " or "), files.tensors().size())};
}

/// The names of tensors in a directory, or in a GGUF file.
FamilyNames names_in(const std::filesystem::path& directory, const ModelSpec& spec) {
  return gguf::is_gguf(directory) ? names_in_gguf(spec.model_type) : names_of_family(spec.model_type);
}

/// The tensors of a model directory.
struct ModelFiles {
  std::unique_ptr<StoredFiles> files;
  FamilyNames family;
  std::string_view prefix;
  StoredTensors tensors;
  WeightFormats formats;
};

Result<ModelFiles> open_model(const std::filesystem::path& directory, const ModelSpec& spec) {
  ModelFiles model;
  LOCKSTEP_TRY(model.files, StoredFiles::open(directory));
  model.family = names_in(directory, spec);
  LOCKSTEP_TRY(model.prefix, find_prefix(*model.files, model.family, spec));
  LOCKSTEP_TRY(const auto quantisation, read_quantisation_of(directory, spec.dtype));
  std::optional<ModuleRules> rules;
  if (quantisation) {
    LOCKSTEP_TRY(rules, ModuleRules::compile(quantisation->rules, quantisation->origin));
  }
  Resolver resolver(*model.files, spec, model.family, model.prefix, std::move(rules));
  LOCKSTEP_TRY(model.tensors, resolver.resolve_all());
  LOCKSTEP_TRY(model.formats, formats_of(model.tensors, resolver.coded()));
  return model;
}

}  // namespace

Result<StoredTensors> resolve_tensors(const StoredFiles& files, const ModelSpec& spec) {
  const FamilyNames family = names_in(files.directory(), spec);
  LOCKSTEP_TRY(const std::string_view prefix, find_prefix(files, family, spec));
  return Resolver(files, spec, family, prefix, /*rules=*/{}).resolve_all();
}

Result<std::unique_ptr<Checkpoint>> open_model_checkpoint(const std::filesystem::path& directory,
                                                          const ModelSpec& spec) {
  LOCKSTEP_TRY(ModelFiles model, open_model(directory, spec));
  const auto names_of = [family = std::move(model.family), prefix = model.prefix](std::string_view canonical) {
    const std::vector<std::string> names = possible_names(family, prefix, canonical);
    return names.empty() ? std::string("that this family could keep it in")
                         : fmt::format("{}", fmt::join(names, " or "));
  };
  return std::unique_ptr<Checkpoint>(
      std::make_unique<ViewCheckpoint>(std::move(model.files), std::move(model.tensors), names_of));
}

Result<WeightFormats> stored_weight_formats(const std::filesystem::path& directory, const ModelSpec& spec) {
  LOCKSTEP_TRY(ModelFiles model, open_model(directory, spec));
  return std::move(model.formats);
}

Result<bool> holds_own_head(const std::filesystem::path& directory, const ModelSpec& spec, Range rows) {
  LOCKSTEP_TRY(const auto checkpoint, open_model_checkpoint(directory, spec));
  if (!checkpoint->contains(kHead) || !checkpoint->contains(kEmbedding)) return false;
  LOCKSTEP_TRY(const bool equal, hold_equal_values(*checkpoint, kHead, kEmbedding, rows));
  return !equal;
}

}  // namespace lockstep::checkpoint
