#include <charconv>
#include <cstdlib>

#include "runtime/text/jinja/token_stream.h"

namespace lockstep::jinja {
namespace {

using Kind = Expression::Kind;
using Parsed = Result<ExpressionPtr>;

constexpr int kMaxDepth = 150;

ExpressionPtr make(Kind kind, int line, std::string name = {}) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  expression->name = std::move(name);
  return expression;
}

ExpressionPtr constant(int line, Value value) {
  auto expression = make(Kind::kConstant, line);
  expression->constant = std::move(value);
  return expression;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Parsed condition() {
    if (++nesting_ > kMaxDepth) return too_deep();
    LOCKSTEP_TRY(auto value, disjunction());
    while (tokens_.is_name("if")) {
      auto choice = make(Kind::kCondition, tokens_.take().line);
      LOCKSTEP_TRY_VOID(add(*choice, std::move(value)));
      LOCKSTEP_TRY(auto test, disjunction());
      LOCKSTEP_TRY_VOID(add(*choice, std::move(test)));
      if (tokens_.skip_name("else")) {
        LOCKSTEP_TRY(auto otherwise, condition());
        LOCKSTEP_TRY_VOID(add(*choice, std::move(otherwise)));
      } else {
        choice->children.push_back(nullptr);
      }
      value = std::move(choice);
    }
    --nesting_;
    return value;
  }

  Parsed disjunction() { return left_to_right({"or"}, &ExpressionParser::conjunction); }

  Parsed filters(ExpressionPtr value) {
    do {
      const int line = tokens_.line();
      LOCKSTEP_TRY(std::string name, tokens_.expect_name("the name of a filter"));
      auto filter = make(Kind::kFilter, line, std::move(name));
      LOCKSTEP_TRY_VOID(add(*filter, std::move(value)));
      if (tokens_.skip_operator("(")) LOCKSTEP_TRY_VOID(arguments(*filter));
      value = std::move(filter);
    } while (tokens_.skip_operator("|"));
    return value;
  }

 private:
  using Step = Parsed (ExpressionParser::*)();

  Error too_deep() const { return tokens_.fail(fmt::format("expressions are nested deeper than {}", kMaxDepth)); }

  Result<void> add(Expression& parent, ExpressionPtr child) {
    if (child) parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kMaxDepth) return too_deep();
    parent.children.push_back(std::move(child));
    return ok();
  }

  Parsed left_to_right(std::initializer_list<std::string_view> operators, Step step) {
    LOCKSTEP_TRY(auto left, (this->*step)());
    while (true) {
      const auto& token = tokens_.peek();
      const bool may_be = token.kind == Token::Kind::kOperator || token.kind == Token::Kind::kName;
      if (!may_be || std::find(operators.begin(), operators.end(), token.text) == operators.end()) return left;
      const Token op = tokens_.take();
      auto binary = make(Kind::kBinary, op.line, op.text);
      LOCKSTEP_TRY_VOID(add(*binary, std::move(left)));
      LOCKSTEP_TRY(auto right, (this->*step)());
      LOCKSTEP_TRY_VOID(add(*binary, std::move(right)));
      left = std::move(binary);
    }
  }

  Parsed conjunction() { return left_to_right({"and"}, &ExpressionParser::negation); }
  Parsed sum() { return left_to_right({"+", "-"}, &ExpressionParser::concatenation); }
  Parsed concatenation() { return left_to_right({"~"}, &ExpressionParser::product); }
  Parsed product() { return left_to_right({"*", "/", "//", "%"}, &ExpressionParser::power); }
  Parsed power() { return left_to_right({"**"}, &ExpressionParser::signed_value); }

  Parsed negation() {
    if (!tokens_.is_name("not")) return comparison();
    if (++nesting_ > kMaxDepth) return too_deep();
    auto negated = make(Kind::kUnary, tokens_.take().line, "not");
    LOCKSTEP_TRY(auto operand, negation());
    LOCKSTEP_TRY_VOID(add(*negated, std::move(operand)));
    --nesting_;
    return negated;
  }

  /// The comparison operator at the current position; empty when there is none.
  std::string comparison_operator() {
    for (const auto op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (tokens_.skip_operator(op)) return op;
    }
    if (tokens_.skip_name("in")) return "in";
    if (tokens_.is_name("not") && tokens_.peek_second().text == "in") {
      tokens_.take();
      tokens_.take();
      return "not in";
    }
    return "";
  }

  Parsed comparison() {
    const int line = tokens_.line();
    LOCKSTEP_TRY(auto left, sum());
    auto op = comparison_operator();
    if (op.empty()) return left;
    auto chain = make(Kind::kCompare, line);
    LOCKSTEP_TRY_VOID(add(*chain, std::move(left)));
    for (; !op.empty(); op = comparison_operator()) {
      chain->operators.push_back(op);
      LOCKSTEP_TRY(auto right, sum());
      LOCKSTEP_TRY_VOID(add(*chain, std::move(right)));
    }
    return chain;
  }

  Parsed signed_value() { return signed_value(/*with_filters=*/true); }

  Parsed signed_value(bool with_filters) {
    if (++nesting_ > kMaxDepth) return too_deep();
    ExpressionPtr value;
    if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
      const Token sign = tokens_.take();
      value = make(Kind::kUnary, sign.line, sign.text);
      LOCKSTEP_TRY(auto operand, signed_value(false));
      LOCKSTEP_TRY_VOID(add(*value, std::move(operand)));
    } else {
      LOCKSTEP_TRY(value, primary());
    }
    LOCKSTEP_TRY(value, postfix(std::move(value)));
    if (with_filters) {
      LOCKSTEP_TRY(value, filters_and_tests(std::move(value)));
    }
    --nesting_;
    return value;
  }

  Parsed primary() {
    const Token token = tokens_.peek();
    switch (token.kind) {
      case Token::Kind::kName: return name(tokens_.take());
      case Token::Kind::kString: return string();
      case Token::Kind::kInteger: {
        int64_t number = 0;
        const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
        if (error != std::errc()) return tokens_.fail("an integer is too large");
        tokens_.take();
        return constant(token.line, number);
      }
      case Token::Kind::kFloat: return constant(token.line, std::strtod(tokens_.take().text.c_str(), nullptr));
      case Token::Kind::kOperator:
        if (token.text == "(") return parenthesis();
        if (token.text == "[") return list();
        if (token.text == "{") return dictionary();
        [[fallthrough]];
      default: return tokens_.unexpected("an expression");
    }
  }

  static ExpressionPtr name(const Token& token) {
    if (token.text == "true" || token.text == "True") return constant(token.line, true);
    if (token.text == "false" || token.text == "False") return constant(token.line, false);
    if (token.text == "none" || token.text == "None") return constant(token.line, Value());
    return make(Kind::kName, token.line, token.text);
  }

  Parsed string() {
    const int line = tokens_.line();
    std::string text;
    while (tokens_.is(Token::Kind::kString)) text += tokens_.take().text;  // adjacent strings join, as in Python
    return constant(line, std::move(text));
  }

  Parsed parenthesis() {
    const int line = tokens_.take().line;
    if (tokens_.skip_operator(")")) return make(Kind::kTuple, line);
    LOCKSTEP_TRY(auto first, condition());
    if (!tokens_.is_operator(",")) {
      LOCKSTEP_TRY_VOID(tokens_.expect_operator(")"));
      return first;
    }
    auto tuple = make(Kind::kTuple, line);
    LOCKSTEP_TRY_VOID(add(*tuple, std::move(first)));
    tokens_.take();
    LOCKSTEP_TRY_VOID(elements(*tuple, ")"));
    return tuple;
  }

  Parsed list() {
    auto items = make(Kind::kList, tokens_.take().line);
    LOCKSTEP_TRY_VOID(elements(*items, "]"));
    return items;
  }

  Result<void> elements(Expression& items, std::string_view close) {
    while (!tokens_.skip_operator(close)) {
      LOCKSTEP_TRY(auto item, condition());
      LOCKSTEP_TRY_VOID(add(items, std::move(item)));
      if (!tokens_.is_operator(close)) LOCKSTEP_TRY_VOID(tokens_.expect_operator(","));
    }
    return ok();
  }

  Parsed dictionary() {
    auto items = make(Kind::kDict, tokens_.take().line);
    while (!tokens_.skip_operator("}")) {
      LOCKSTEP_TRY(auto key, condition());
      LOCKSTEP_TRY_VOID(add(*items, std::move(key)));
      LOCKSTEP_TRY_VOID(tokens_.expect_operator(":"));
      LOCKSTEP_TRY(auto value, condition());
      LOCKSTEP_TRY_VOID(add(*items, std::move(value)));
      if (!tokens_.is_operator("}")) LOCKSTEP_TRY_VOID(tokens_.expect_operator(","));
    }
    return items;
  }

  Parsed postfix(ExpressionPtr value) {
    while (true) {
      if (tokens_.is_operator(".")) {
        LOCKSTEP_TRY(value, attribute(std::move(value)));
      } else if (tokens_.is_operator("[")) {
        LOCKSTEP_TRY(value, subscript(std::move(value)));
      } else if (tokens_.is_operator("(")) {
        LOCKSTEP_TRY(value, call(std::move(value)));
      } else {
        return value;
      }
    }
  }

  Parsed attribute(ExpressionPtr value) {
    const int line = tokens_.take().line;
    if (tokens_.is(Token::Kind::kInteger)) {
      auto item = make(Kind::kItem, line);
      LOCKSTEP_TRY_VOID(add(*item, std::move(value)));
      LOCKSTEP_TRY(auto index, primary());
      LOCKSTEP_TRY_VOID(add(*item, std::move(index)));
      return item;
    }
    LOCKSTEP_TRY(std::string name, tokens_.expect_name("the name of an attribute"));
    auto access = make(Kind::kAttribute, line, std::move(name));
    LOCKSTEP_TRY_VOID(add(*access, std::move(value)));
    return access;
  }

  Parsed subscript(ExpressionPtr value) {
    auto access = make(Kind::kItem, tokens_.take().line);
    LOCKSTEP_TRY_VOID(add(*access, std::move(value)));
    while (!tokens_.skip_operator("]")) {
      if (tokens_.skip_operator(":")) {
        if (access->kind == Kind::kItem && access->children.size() == 1) access->children.push_back(nullptr);
        access->kind = Kind::kSlice;
        if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) continue;
        access->children.push_back(nullptr);
        continue;
      }
      LOCKSTEP_TRY(auto index, condition());
      LOCKSTEP_TRY_VOID(add(*access, std::move(index)));
      if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) return tokens_.unexpected("']'");
    }
    const size_t count = access->children.size();
    if (access->kind == Kind::kItem ? count != 2 : count > 4)
      return tokens_.fail("a subscript has a wrong number of parts");
    if (access->kind == Kind::kSlice) access->children.resize(4);
    return access;
  }

  Parsed call(ExpressionPtr value) {
    auto called = make(Kind::kCall, tokens_.take().line);
    LOCKSTEP_TRY_VOID(add(*called, std::move(value)));
    LOCKSTEP_TRY_VOID(arguments(*called));
    return called;
  }

  Result<void> arguments(Expression& target) {
    while (!tokens_.skip_operator(")")) {
      const auto& second = tokens_.peek_second();
      if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
        return tokens_.fail("found *arguments, expected single arguments", ErrorKind::kUnsupported);
      }
      if (tokens_.is(Token::Kind::kName) && second.kind == Token::Kind::kOperator && second.text == "=") {
        std::string name = tokens_.take().text;
        tokens_.take();
        LOCKSTEP_TRY(auto value, condition());
        target.depth = std::max(target.depth, value->depth + 1);
        target.named.emplace_back(std::move(name), std::move(value));
      } else {
        LOCKSTEP_TRY(auto value, condition());
        LOCKSTEP_TRY_VOID(add(target, std::move(value)));
      }
      if (!tokens_.is_operator(")")) LOCKSTEP_TRY_VOID(tokens_.expect_operator(","));
    }
    return ok();
  }

  Parsed filters_and_tests(ExpressionPtr value) {
    while (true) {
      if (tokens_.skip_operator("|")) {
        LOCKSTEP_TRY(value, filters(std::move(value)));
      } else if (tokens_.is_name("is")) {
        LOCKSTEP_TRY(value, test(std::move(value)));
      } else if (tokens_.is_operator("(")) {
        LOCKSTEP_TRY(value, call(std::move(value)));
      } else {
        return value;
      }
    }
  }

  Parsed test(ExpressionPtr value) {
    const int line = tokens_.take().line;
    const bool negated = tokens_.skip_name("not");
    LOCKSTEP_TRY(std::string name, tokens_.expect_name("the name of a test"));
    auto result = make(Kind::kTest, line, std::move(name));
    LOCKSTEP_TRY_VOID(add(*result, std::move(value)));
    if (tokens_.skip_operator("(")) {
      LOCKSTEP_TRY_VOID(arguments(*result));
    } else if (begins_argument()) {
      LOCKSTEP_TRY(auto argument, primary());
      LOCKSTEP_TRY(argument, postfix(std::move(argument)));
      LOCKSTEP_TRY_VOID(add(*result, std::move(argument)));
    }
    if (!negated) return result;
    auto inverse = make(Kind::kUnary, line, "not");
    LOCKSTEP_TRY_VOID(add(*inverse, std::move(result)));
    return inverse;
  }

  /// `is divisibleby 3`: whether the next token can start a test's argument.
  bool begins_argument() const {
    const Token& token = tokens_.peek();
    if (token.kind == Token::Kind::kName) {
      for (const auto word : {"else", "or", "and", "is", "if", "in", "not"}) {
        if (token.text == word) return false;
      }
      return true;
    }
    return token.kind == Token::Kind::kString || token.kind == Token::Kind::kInteger ||
           token.kind == Token::Kind::kFloat || tokens_.is_operator("[") || tokens_.is_operator("{");
  }

  TokenStream& tokens_;
  int nesting_ = 0;
};

}  // namespace

Parsed parse_expression(TokenStream& tokens) { return ExpressionParser(tokens).condition(); }

Parsed parse_without_condition(TokenStream& tokens) { return ExpressionParser(tokens).disjunction(); }

Parsed parse_filters(TokenStream& tokens) { return ExpressionParser(tokens).filters(nullptr); }

Parsed parse_tuple(TokenStream& tokens) {
  const int line = tokens.line();
  LOCKSTEP_TRY(auto first, parse_expression(tokens));
  if (!tokens.is_operator(",")) return first;
  auto tuple = make(Kind::kTuple, line);
  tuple->depth = first->depth + 1;
  tuple->children.push_back(std::move(first));
  while (tokens.skip_operator(",") && !tokens.is(Token::Kind::kBlockEnd) && !tokens.is(Token::Kind::kPrintEnd)) {
    LOCKSTEP_TRY(auto next, parse_expression(tokens));
    tuple->depth = std::max(tuple->depth, next->depth + 1);
    tuple->children.push_back(std::move(next));
  }
  return tuple;
}

}  // namespace lockstep::jinja
