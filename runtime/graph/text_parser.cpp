// The grammar, one function per rule:
//
//   graph      = "graph" name "tp=" int "rank=" int "rows=" int "slots=" int "{" { statement } "}"
//   statement  = "output" name "=" reference | "%" name "=" ( definition | call ) ":" type [ "as" format ] | call
//   definition = "input" | "state" | "constant" "[" floats "]" | "weight" ( slice | "concat" "(" slices ")" )
//   slice      = name "[" { int ":" int } "]"
//   call       = operation "(" references ")" { attribute "=" contents }
//   type       = dtype "[" ints "]"
//
// The table of operations determines the kind of an attribute's contents. The parser does not recurse, and it allocates
// only for text it has read, so memory is bounded by the length of the text.
#include <limits>
#include <unordered_map>

#include "runtime/graph/operations.h"
#include "runtime/graph/scanner.h"
#include "runtime/graph/text.h"
#include "runtime/graph/verifier.h"

namespace lockstep::graph {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : scan_(text) {}

  Result<Graph> run() {
    LOCKSTEP_TRY_VOID(header());
    while (!scan_.accept('}')) LOCKSTEP_TRY_VOID(statement());
    if (!scan_.at_end()) return scan_.unexpected("the end of the text");
    LOCKSTEP_TRY_VOID(verify(graph_));
    return std::move(graph_);
  }

 private:
  Result<int64_t> header_fact(std::string_view name, int64_t largest) {
    LOCKSTEP_TRY_VOID(scan_.expect_word(name));
    LOCKSTEP_TRY_VOID(scan_.expect('='));
    const size_t start = scan_.next();
    LOCKSTEP_TRY(const int64_t number, scan_.integer());
    if (number < 0 || number > largest) return scan_.unexpected(fmt::format("0 to {}", largest), start);
    return number;
  }

  Result<void> header() {
    LOCKSTEP_TRY_VOID(scan_.expect_word("graph"));
    LOCKSTEP_TRY(graph_.name, scan_.name());
    LOCKSTEP_TRY(const int64_t ranks, header_fact("tp", kMaxRanks));
    LOCKSTEP_TRY(const int64_t rank, header_fact("rank", kMaxRanks));
    LOCKSTEP_TRY(graph_.rows, header_fact("rows", kMaxSize));
    LOCKSTEP_TRY(graph_.slots, header_fact("slots", kMaxSize));
    graph_.ranks = static_cast<int>(ranks);
    graph_.rank = static_cast<int>(rank);
    return scan_.expect('{');
  }

  Result<void> statement() {
    if (scan_.accept('%')) return named_statement();
    const size_t start = scan_.next();
    LOCKSTEP_TRY(const std::string_view word, scan_.word("a value, an operation, output or \"}\""));
    if (word == "output" && !scan_.at('(')) return output();
    LOCKSTEP_TRY(Node node, call(word, start));
    if (!operation(node.op).result.empty()) return scan_.unexpected(fmt::format("\"%name = {}\"", word), start);
    graph_.nodes.push_back(std::move(node));
    return ok();
  }

  Result<void> output() {
    LOCKSTEP_TRY(std::string name, scan_.name());
    LOCKSTEP_TRY_VOID(scan_.expect('='));
    LOCKSTEP_TRY(const ValueId value, reference());
    graph_.outputs.push_back({std::move(name), value});
    return ok();
  }

  Result<void> named_statement() {
    Value value;
    const size_t name_start = scan_.next();
    LOCKSTEP_TRY(value.name, scan_.name());
    LOCKSTEP_TRY_VOID(scan_.expect('='));
    const size_t start = scan_.next();
    LOCKSTEP_TRY(const std::string_view word, scan_.word("input, weight, state, constant or an operation"));
    std::optional<Node> node;
    if (word == "input") {
      value.kind = ValueKind::kInput;
    } else if (word == "state") {
      value.kind = ValueKind::kState;
    } else if (word == "weight") {
      value.kind = ValueKind::kWeight;
      LOCKSTEP_TRY(value.slices, slices());
    } else if (word == "constant") {
      value.kind = ValueKind::kConstant;
      LOCKSTEP_TRY(value.constant, list<float>([this] { return scan_.float32(); }));
    } else {
      LOCKSTEP_TRY(node, call(word, start));
    }
    LOCKSTEP_TRY_VOID(scan_.expect(':'));
    LOCKSTEP_TRY(value.type, type());
    if (value.kind == ValueKind::kWeight) {
      LOCKSTEP_TRY(value.format, format());
    }
    return define(std::move(value), std::move(node), name_start);
  }

  Result<void> define(Value value, std::optional<Node> node, size_t name_start) {
    const ValueId id(static_cast<int32_t>(graph_.values.size()));
    if (!ids_.emplace(value.name, id).second) return scan_.unexpected("a name that is not taken", name_start);
    if (node) {
      node->result = id;
      graph_.nodes.push_back(std::move(*node));
    }
    graph_.values.push_back(std::move(value));
    return ok();
  }

  Result<ValueId> reference() {
    LOCKSTEP_TRY_VOID(scan_.expect('%'));
    const size_t start = scan_.next();
    LOCKSTEP_TRY(const std::string name, scan_.name());
    const auto found = ids_.find(name);
    if (found == ids_.end()) return scan_.unexpected("the name of a value above", start);
    return found->second;
  }

  Result<Node> call(std::string_view name, size_t start) {
    const std::optional<Op> op = op_from_name(name);
    if (!op) return scan_.unexpected("the name of an operation", start);
    Node node{*op, {}, {}, std::nullopt};
    LOCKSTEP_TRY_VOID(scan_.expect('('));
    while (!scan_.accept(')')) {
      if (!node.operands.empty()) LOCKSTEP_TRY_VOID(scan_.expect(','));
      LOCKSTEP_TRY(const ValueId operand, reference());
      node.operands.push_back(operand);
    }
    while (scan_.at_word()) {
      const Scanner before = scan_;
      LOCKSTEP_TRY(const std::string_view key, scan_.word("an attribute"));
      if (!scan_.accept('=')) {  // the next statement
        scan_ = before;
        break;
      }
      LOCKSTEP_TRY_VOID(attribute(node, key, before));
    }
    return node;
  }

  Result<void> attribute(Node& node, std::string_view key, Scanner before) {
    for (const AttributeRule& rule : operation(node.op).attributes) {
      if (rule.name != key) continue;
      LOCKSTEP_TRY(Attribute contents, attribute_contents(rule.kind));
      if (node.attributes.emplace(key, std::move(contents)).second) return ok();
      return before.unexpected("each attribute once");
    }
    return before.unexpected(fmt::format("an attribute of {}", to_string(node.op)));
  }

  Result<Attribute> attribute_contents(AttributeKind kind) {
    switch (kind) {
      case AttributeKind::kInteger: {
        LOCKSTEP_TRY(const int64_t contents, scan_.integer());
        return Attribute(contents);
      }
      case AttributeKind::kNumber: {
        LOCKSTEP_TRY(const double contents, scan_.number());
        return Attribute(contents);
      }
      case AttributeKind::kText: {
        LOCKSTEP_TRY(std::string contents, scan_.quoted_text());
        return Attribute(std::move(contents));
      }
      case AttributeKind::kIntegers: break;
    }
    LOCKSTEP_TRY(std::vector<int64_t> contents, list<int64_t>([this] { return scan_.integer(); }));
    return Attribute(std::move(contents));
  }

  Result<std::vector<WeightSlice>> slices() {
    std::vector<WeightSlice> found;
    const Scanner before = scan_;
    LOCKSTEP_TRY(const std::string tensor, scan_.name());
    const bool is_concat = tensor == "concat" && scan_.accept('(');
    if (!is_concat) {
      scan_ = before;
      LOCKSTEP_TRY(WeightSlice only, slice());
      found.push_back(std::move(only));
      return found;
    }
    while (!scan_.accept(')')) {
      if (!found.empty()) LOCKSTEP_TRY_VOID(scan_.expect(','));
      LOCKSTEP_TRY(WeightSlice next, slice());
      found.push_back(std::move(next));
    }
    return found;
  }

  Result<WeightSlice> slice() {
    WeightSlice found;
    LOCKSTEP_TRY(found.tensor, scan_.name());
    LOCKSTEP_TRY(found.range, list<Range>([this] { return range(); }));
    return found;
  }

  Result<Range> range() {
    LOCKSTEP_TRY(const int64_t begin, scan_.integer());
    LOCKSTEP_TRY_VOID(scan_.expect(':'));
    LOCKSTEP_TRY(const int64_t end, scan_.integer());
    return Range{begin, end};
  }

  Result<TensorType> type() {
    const size_t start = scan_.next();
    LOCKSTEP_TRY(const std::string_view word, scan_.word("a type"));
    const std::optional<DType> dtype = dtype_from_short_name(word);
    if (!dtype) return scan_.unexpected("f32, bf16, f16, i32 or u8", start);
    LOCKSTEP_TRY(std::vector<int64_t> dims, list<int64_t>([this] { return scan_.integer(); }));
    return TensorType{*dtype, Shape(std::move(dims))};
  }

  Result<std::optional<WeightFormat>> format() {
    const Scanner before = scan_;
    if (!scan_.at_word() || scan_.word("as").value() != "as") {
      scan_ = before;
      return std::optional<WeightFormat>();
    }
    const size_t start = scan_.next();
    LOCKSTEP_TRY(const std::string name, scan_.name());
    const std::optional<WeightFormat> found = weight_format_from_text(name);
    if (!found) return scan_.unexpected("a weight format, as q4g32", start);
    return found;
  }

  /// "[" items "]".
  template <typename T, typename ReadItem>
  Result<std::vector<T>> list(ReadItem read_item) {
    std::vector<T> items;
    LOCKSTEP_TRY_VOID(scan_.expect('['));
    while (!scan_.accept(']')) {
      if (!items.empty()) LOCKSTEP_TRY_VOID(scan_.expect(','));
      LOCKSTEP_TRY(T item, read_item());
      items.push_back(std::move(item));
    }
    return items;
  }

  Scanner scan_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

Result<Graph> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace lockstep::graph
