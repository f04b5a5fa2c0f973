// Lowering of a graph's nodes to launches; private to this folder. The lower_…s are in the lower_*.cpp files.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "runtime/backends/cuda/fusion_plan.h"
#include "runtime/backends/cuda/step_plan.h"
#include "runtime/device/first_fit.h"
#include "runtime/device/host_levels.h"
#include "runtime/device/hosts.h"
#include "runtime/graph/dataflow.h"

namespace lockstep::cuda {

/// The bytes that a value of `bytes` takes of the device's memory, where each begins at a multiple of 256.
inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// A tensor in device memory: [planes, rows, columns]. Strides are elements.
struct Tensor {
  uint64_t address = 0;
  DType dtype = DType::kFloat32;
  int64_t planes = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t stride = 0;
  int64_t plane = 0;
  bool is_token_rows = false;

  int64_t element_size() const { return static_cast<int64_t>(size_of(dtype)); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(address);
  }
  void* data() const { return as<void>(); }
};

/// Makes equal parameters equal bytes. Behind an array of structs that have padding GCC 12 takes members for padding,
/// so no member behind such an array may have any (CudaParameters in few_test.cpp).
template <typename Parameters>
void clear_padding(Parameters& parameters) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&parameters);
#else
  static_cast<void>(parameters);
#endif
}
/// A launch's blocks, where they are not as the kernel's row says.
struct BlockShape {
  std::optional<int> threads;
  std::optional<int64_t> shared_bytes;
  bool waits = false;  // for other blocks or ranks
};

/// Rows that take attention's tiles side by side.
constexpr int64_t kMostSplitRows = 32;

/// Used once.
class Lowering {
 public:
  Lowering(const graph::Graph& graph, const StoreLayout& layout, const Bases& bases, const StepOptions& options);

  Result<StepPlan> run();

 private:
  using Node = graph::Node;
  using ValueId = graph::ValueId;

  // Values
  void place_host_values();
  void place_outputs();
  Result<Tensor> place(ValueId id);
  Tensor dense(const TensorType& type, uint64_t address) const;
  Result<void> place_result(const Node& node);
  /// The node whose result a launch writes: the last of those that go on with its results.
  const Node& last_of_launch(const Node& node) const;
  void free_after(size_t node);
  bool host_reads(ValueId id) const { return host_reads_[static_cast<size_t>(id.value)]; }
  bool is_view(const Node& node) const;
  bool is_area_root(const Node& node) const;
  std::vector<size_t> last_uses() const;

  Result<void> lower(const Node& node);
  Result<void> lower_embedding(const Node& node);
  /// A product with results in `y`, without rows of x, bias and open sums.
  ProductParameters product_into(const Tensor& y, uint64_t weights, const FragmentPacking& matrix,
                                 std::span<const SumPart> parts);
  /// The same of the rows of `x`.
  ProductParameters product_of(const Tensor& x, const Tensor& y, uint64_t weights, const FragmentPacking& matrix,
                               std::span<const SumPart> parts);
  Result<void> lower_product(const Node& node);
  bool multiply_by_library(const Node& node, const std::vector<SumPart>& parts);
  Result<void> lower_few(const Node& node);
  Result<void> set_rows(const Node& node, ProductFewParameters& parameters);
  Result<void> set_gate(const Node& node, ProductFewParameters& parameters);
  void set_finishes(const Node& node, ProductFewParameters& parameters) const;
  Result<void> lower_head_linear(const Node& node);
  /// Rows of a product with codes, `rows_of_one` for each of `rows`.
  struct RowsOfX {
    const void* data = nullptr;
    DType dtype = DType::kFloat32;
    int64_t stride = 0;
    RowCount rows{};
    int64_t rows_of_one = 1;
  };
  CodedOperand coded_operand(const Node& node, uint64_t weights, const CodedPacking& packing, const RowsOfX& x);
  Result<void> lower_product_codes(const Node& node);
  Result<void> embed_codes(const Node& node, const EmbedParameters& embed, const WeightLayout& table);
  /// Rows that are rounded: `most_rows` · `rows_of_one`, of which `rows` · `rows_of_one` are in use.
  struct RoundedRows {
    const void* x;
    DType x_type;
    const float* scale = nullptr;  // of all; null: of each group its own
    float* y;
    int64_t x_stride;
    int64_t y_stride;
    RowCount rows;
    int64_t most_rows;
    int64_t rows_of_one = 1;
    int64_t columns;
    int64_t group;
    bool is_e4m3;
  };
  void emit_fake_quantise(const RoundedRows& rows);
  void lower_fake_quantise(const Node& node);
  ListExpertsParameters list_experts(const Node& node);
  Result<void> lower_experts_inner(const Node& node, const ListExpertsParameters& lists, void* values);
  Result<void> lower_experts(const Node& node);
  int64_t experts_of_row(const Node& node) const;
  void lower_route(const Node& node);
  void lower_rows(const Node& node);
  void lower_columns(const Node& node);
  void lower_join(const Node& node);
  void lower_join_heads(const Node& node);
  void lower_take_columns(const Node& node);
  void lower_map(const Node& node);
  void lower_scale_rows(const Node& node);
  void lower_rms_norm(const Node& node);
  void lower_layer_norm(const Node& node);
  void lower_stream(const Node& node);
  void lower_weighted_sum(const Node& node);
  void lower_rope(const Node& node);
  RunRows runs_of(const Tensor& result, const Tensor& slot, const Tensor& position) const;
  void lower_causal_conv(const Node& node);
  void lower_gated_delta_rule(const Node& node);
  Result<void> lower_append(const Node& node);
  Result<void> lower_attention(const Node& node);
  Result<void> prepare_heads(const Node& attention, const CacheLayout& cache);
  Result<HeadsPart> heads_part(const Node& node, size_t attention, int64_t head_dim);
  bool attend_tiles(const Node& node, const AttendParameters& attend, const CacheLayout& cache);
  bool attend_rows(const Node& node, const AttendParameters& attend, const CacheLayout& cache);
  Result<void> lower_all_reduce(const Node& node);
  /// The exchanges of a node between ranks.
  uint32_t exchanges_of(const Node& node) const;
  void lower_all_gather(const Node& node);
  void lower_owners(const Node& node);
  void sample_hidden(const Node& node);
  void finish_exchanges();

  // Ranks on several hosts
  class CarriedColumns;
  bool spans_hosts() const { return hosts_.count() > 1; }
  const std::vector<int>& ranks_of_host() const { return hosts_.of(graph_.rank).ranks; }
  std::optional<int> own_rail() const;
  int rank_of_rail(int rail) const { return ranks_of_host()[static_cast<size_t>(rail)]; }
  std::vector<int32_t> rail_bounds(int64_t columns) const;
  Range own_columns(int64_t columns) const;
  void gather_on_rail(uint64_t from, std::vector<int64_t> bytes);
  void sum_over_hosts(const TreeFinish& finish, const void* residual, const Tensor& y);
  void sum_of_host(const TreeFinish& finish, const device::HostLevels& levels, const Tensor& y, uint64_t sent);
  void sum_of_hosts(const TreeFinish& between, const void* residual, const Tensor& y);
  void gather_over_hosts(const Node& node);
  void emit_gather(GatherParameters parameters, const std::vector<GatherPiece>& pieces, const Tensor& y);
  std::vector<GatherPiece> pieces_for_rail(const CarriedColumns& carried, int64_t rows) const;
  std::vector<GatherPiece> pieces_of_rails(const CarriedColumns& carried, const Tensor& y) const;
  void owners_over_hosts(const Node& node);
  void owners_of_hosts(const Node& node);

  // Parts
  Meeting next_meeting();
  uint64_t area(int rank, uint32_t exchange) const;
  Turn turn_of(const Node& rope);
  Norm norm_of(const Node& norm) const;
  Finish elementwise(const Node& node) const;
  /// The slots of the token rows, negative for padding; null: not known.
  const int32_t* slot_of_padding() const;
  void copy_rows(const Tensor& from, const Tensor& to);
  /// Adds a launch; `name` with the suffix of a type.
  template <typename Parameters>
  void emit(const std::string& name, Parameters parameters, int64_t blocks, const BlockShape& shape = {}) {
    clear_padding(parameters);  // so that the same graph gives the same bytes
    emit_bytes(name, std::as_bytes(std::span(&parameters, 1)), blocks, shape);
  }
  void emit_bytes(const std::string& name, std::span<const std::byte> parameters, int64_t blocks,
                  const BlockShape& shape);
  /// Blocks that walk `units`, of which a multiprocessor holds so many.
  int64_t walking_blocks(int64_t units, int64_t of_multiprocessor) const;
  int waiting_blocks(int64_t wanted) const;
  static int64_t blocks_of(int64_t elements);
  static ElementType element_type(DType dtype);

  template <typename T>
  const T* table(std::span<const T> contents) {
    return reinterpret_cast<const T*>(add_table(std::as_bytes(contents)));
  }
  uint64_t add_table(std::span<const std::byte> contents);
  const int32_t* table_of(std::span<const int64_t> numbers);
  /// Workspace until the end of the current node.
  uint64_t scratch(int64_t bytes);

  RowCount rows_of(const Tensor& tensor) const;
  static std::string typed(std::string_view name, DType dtype);
  static std::string sized(std::string_view name, DType dtype);
  size_t index_of(const Node& node) const { return static_cast<size_t>(&node - graph_.nodes.data()); }
  const Tensor& tensor(ValueId id) const { return tensors_[static_cast<size_t>(id.value)]; }
  const Tensor& operand(const Node& node, size_t i) const { return tensor(node.operands.at(i)); }
  const Tensor& result(const Node& node) const { return tensor(*node.result); }
  Result<uint64_t> weight(const Node& node, size_t operand, const Packing& packing) const;
  Error invalid(std::string what) const;
  Error unsupported(std::string what) const;

  const graph::Graph& graph_;
  const StoreLayout& layout_;
  const Bases& bases_;
  const device::Hosts hosts_;
  const StepOptions& options_;
  const graph::Dataflow flow_;
  const std::vector<bool> token_rows_;
  StepPlan plan_;
  const FusionPlan fusion_;
  std::vector<bool> host_reads_;  // by value
  std::vector<Tensor> tensors_;   // by value
  std::vector<size_t> last_use_;  // by value: node
  device::FirstFit space_;
  std::vector<std::pair<int64_t, int64_t>> in_use_;  // by value: offset and bytes of its workspace, or −1
  std::vector<std::pair<int64_t, int64_t>> scratch_;
  std::map<std::tuple<std::vector<ValueId>, double>, std::pair<uint64_t, uint64_t>> turn_tables_;
  uint64_t arrivals_ = 0;  // of tiles, for each row and cache head of an attention
  std::optional<ValueId> slot_of_rows_;
  uint32_t exchange_ = 0;
};

}  // namespace lockstep::cuda
