// The parser's position in the tokens.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/lexer.h"

namespace lockstep::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  const Token& peek_second() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return peek().line; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }

  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text) const { return is(Token::Kind::kOperator) && peek().text == text; }
  bool is_name(std::string_view text) const { return is(Token::Kind::kName) && peek().text == text; }
  bool skip_operator(std::string_view text) { return is_operator(text) && (take(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (take(), true); }

  Result<void> expect_operator(std::string_view text) {
    if (skip_operator(text)) return ok();
    return unexpected(fmt::format("'{}'", text));
  }
  Result<void> expect(Token::Kind kind, std::string_view what) {
    if (!is(kind)) return unexpected(what);
    take();
    return ok();
  }
  Result<std::string> expect_name(std::string_view what) {
    if (!is(Token::Kind::kName)) return unexpected(what);
    return take().text;
  }

  Error fail(std::string_view what, ErrorKind kind = ErrorKind::kInvalidArgument) const {
    return template_error(kind, line(), what);
  }
  Error unexpected(std::string_view expected) const {
    return fail(fmt::format("found {}, expected {}", describe(peek()), expected));
  }

 private:
  static std::string describe(const Token& token) {
    switch (token.kind) {
      case Token::Kind::kEnd: return "the end of the template";
      case Token::Kind::kText: return "text";
      case Token::Kind::kPrintBegin: return "{{";
      case Token::Kind::kPrintEnd: return "}}";
      case Token::Kind::kBlockBegin: return "{%";
      case Token::Kind::kBlockEnd: return "%}";
      default: return "'" + token.text + "'";
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

/// Parses one expression. Fails beyond a maximum depth, so the recursion is bounded.
Result<ExpressionPtr> parse_expression(TokenStream& tokens);
/// Parses an expression without `if` at its end: the sequence of a loop.
Result<ExpressionPtr> parse_without_condition(TokenStream& tokens);
/// Parses `a, b` as a list.
Result<ExpressionPtr> parse_tuple(TokenStream& tokens);
/// Parses `name | name(…)` without a value in front.
Result<ExpressionPtr> parse_filters(TokenStream& tokens);

}  // namespace lockstep::jinja
