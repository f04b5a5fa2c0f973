#include "runtime/text/jinja/parser.h"

#include <algorithm>

#include "runtime/text/jinja/token_stream.h"

namespace lockstep::jinja {
namespace {

using Kind = Statement::Kind;

constexpr int kMaxDepth = 100;  // nesting depth of blocks

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Body> run() {
    LOCKSTEP_TRY(Body body, statements({}));
    if (!tokens_.is(Token::Kind::kEnd)) return tokens_.unexpected("the end of the template");
    return body;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  /// Reads statements up to the end or to a block that starts with one of `ends`, which becomes the next token.
  Result<Body> statements(Words ends) {
    if (++depth_ > kMaxDepth) return tokens_.fail(fmt::format("blocks are nested deeper than {}", kMaxDepth));
    Body body;
    while (!tokens_.is(Token::Kind::kEnd)) {
      const Token token = tokens_.take();
      if (token.kind == Token::Kind::kText) {
        body.push_back(make(Kind::kText, token.line, token.text));
      } else if (token.kind == Token::Kind::kPrintBegin) {
        Statement print = make(Kind::kPrint, token.line);
        LOCKSTEP_TRY(print.expression, parse_tuple(tokens_));
        LOCKSTEP_TRY_VOID(tokens_.expect(Token::Kind::kPrintEnd, "}}"));
        body.push_back(std::move(print));
      } else {
        if (tokens_.is(Token::Kind::kName) && std::find(ends.begin(), ends.end(), tokens_.peek().text) != ends.end()) {
          --depth_;
          return body;
        }
        LOCKSTEP_TRY(Statement statement, block());
        body.push_back(std::move(statement));
      }
    }
    if (ends.size() > 0) return tokens_.unexpected(fmt::format("{{% {} %}}", *(ends.end() - 1)));
    --depth_;
    return body;
  }

  static Statement make(Kind kind, int line, std::string text = {}) {
    Statement statement;
    statement.kind = kind;
    statement.line = line;
    statement.text = std::move(text);
    return statement;
  }

  Result<void> end_of_block() { return tokens_.expect(Token::Kind::kBlockEnd, "%}"); }

  /// Reads the body up to `end`, and consumes that block.
  Result<Body> body_until(std::string_view end) {
    LOCKSTEP_TRY_VOID(end_of_block());
    LOCKSTEP_TRY(Body body, statements({end}));
    tokens_.take();
    if (end == "endmacro" || end == "endcall") {
      if (tokens_.is(Token::Kind::kName)) tokens_.take();  // {% endmacro name %}
    }
    LOCKSTEP_TRY_VOID(end_of_block());
    return body;
  }

  Result<Statement> block() {
    const int line = tokens_.line();
    LOCKSTEP_TRY(const std::string word, tokens_.expect_name("the name of a statement"));
    if (word == "if") return if_block(line);
    if (word == "for") return for_block(line);
    if (word == "set") return set_block(line);
    if (word == "macro") return macro_block(line);
    if (word == "call") return call_block(line);
    if (word == "filter") return filter_block(line);
    if (word == "with") return with_block(line);
    if (word == "generation") {
      Statement scope = make(Kind::kScope, line);
      LOCKSTEP_TRY(scope.body, body_until("endgeneration"));
      return scope;
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0) return tokens_.fail(fmt::format("found {} outside of a loop", word));
      LOCKSTEP_TRY_VOID(end_of_block());
      return make(word == "break" ? Kind::kBreak : Kind::kContinue, line);
    }
    if (word.starts_with("end") || word == "else" || word == "elif") {
      return template_error(ErrorKind::kInvalidArgument, line, fmt::format("found {}, which ends nothing", word));
    }
    return template_error(ErrorKind::kUnsupported, line,
                          fmt::format("found the statement {}, expected one of break, call, continue, filter, for, "
                                      "generation, if, macro, raw, set, with",
                                      word));
  }

  Result<Statement> if_block(int line) {
    Statement statement = make(Kind::kIf, line);
    for (bool more = true; more;) {
      Statement::Branch branch;
      LOCKSTEP_TRY(branch.condition, parse_tuple(tokens_));
      LOCKSTEP_TRY_VOID(end_of_block());
      LOCKSTEP_TRY(branch.body, statements({"elif", "else", "endif"}));
      statement.branches.push_back(std::move(branch));
      more = tokens_.skip_name("elif");
    }
    if (tokens_.skip_name("else")) {
      LOCKSTEP_TRY_VOID(end_of_block());
      Statement::Branch branch;
      LOCKSTEP_TRY(branch.body, statements({"endif"}));
      statement.branches.push_back(std::move(branch));
    }
    tokens_.take();
    LOCKSTEP_TRY_VOID(end_of_block());
    return statement;
  }

  Result<Statement> for_block(int line) {
    Statement loop = make(Kind::kFor, line);
    LOCKSTEP_TRY(loop.targets, targets());
    if (!tokens_.skip_name("in")) return tokens_.unexpected("in");
    LOCKSTEP_TRY(loop.expression, parse_without_condition(tokens_));
    if (tokens_.skip_name("if")) {
      LOCKSTEP_TRY(loop.condition, parse_expression(tokens_));
    }
    if (tokens_.is_name("recursive")) return tokens_.fail("found a recursive loop", ErrorKind::kUnsupported);
    LOCKSTEP_TRY_VOID(end_of_block());
    ++loops_;
    LOCKSTEP_TRY(loop.body, statements({"else", "endfor"}));
    --loops_;
    if (tokens_.skip_name("else")) {
      LOCKSTEP_TRY_VOID(end_of_block());
      LOCKSTEP_TRY(loop.otherwise, statements({"endfor"}));
    }
    tokens_.take();
    LOCKSTEP_TRY_VOID(end_of_block());
    return loop;
  }

  /// `a`, or `a, b`, also in parentheses.
  Result<std::vector<std::string>> targets() {
    const bool in_parentheses = tokens_.skip_operator("(");
    std::vector<std::string> names;
    do {
      LOCKSTEP_TRY(std::string name, tokens_.expect_name("the name of a variable"));
      names.push_back(std::move(name));
    } while (tokens_.skip_operator(",") && tokens_.is(Token::Kind::kName));
    if (in_parentheses) LOCKSTEP_TRY_VOID(tokens_.expect_operator(")"));
    return names;
  }

  Result<Statement> set_block(int line) {
    Statement set = make(Kind::kSet, line);
    LOCKSTEP_TRY(set.targets, targets());
    if (set.targets.size() == 1 && tokens_.skip_operator(".")) {
      set.text = set.targets[0];
      LOCKSTEP_TRY(set.targets[0], tokens_.expect_name("the name of a namespace's member"));
    }
    if (tokens_.skip_operator("=")) {
      LOCKSTEP_TRY(set.expression, parse_tuple(tokens_));
      LOCKSTEP_TRY_VOID(end_of_block());
      return set;
    }
    if (set.targets.size() != 1) return tokens_.unexpected("'='");
    set.kind = Kind::kSetBlock;
    if (tokens_.skip_operator("|")) {
      LOCKSTEP_TRY(set.expression, parse_filters(tokens_));
    }
    LOCKSTEP_TRY(set.body, body_until("endset"));
    return set;
  }

  Result<std::vector<Parameter>> parameters() {
    std::vector<Parameter> list;
    LOCKSTEP_TRY_VOID(tokens_.expect_operator("("));
    while (!tokens_.skip_operator(")")) {
      Parameter parameter;
      LOCKSTEP_TRY(parameter.name, tokens_.expect_name("the name of a parameter"));
      if (tokens_.skip_operator("=")) {
        LOCKSTEP_TRY(parameter.fallback, parse_expression(tokens_));
      }
      list.push_back(std::move(parameter));
      if (!tokens_.is_operator(")")) LOCKSTEP_TRY_VOID(tokens_.expect_operator(","));
    }
    return list;
  }

  /// A separate body: `break` in it cannot leave an enclosing loop.
  Result<Body> separate_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    LOCKSTEP_TRY(Body body, body_until(end));
    loops_ = loops;
    return body;
  }

  Result<Statement> macro_block(int line) {
    Statement macro = make(Kind::kMacro, line);
    LOCKSTEP_TRY(macro.text, tokens_.expect_name("the name of a macro"));
    LOCKSTEP_TRY(macro.parameters, parameters());
    LOCKSTEP_TRY(macro.body, separate_body("endmacro"));
    return macro;
  }

  Result<Statement> call_block(int line) {
    Statement call = make(Kind::kCall, line);
    if (tokens_.is_operator("(")) {
      LOCKSTEP_TRY(call.parameters, parameters());
    }
    LOCKSTEP_TRY(call.expression, parse_expression(tokens_));
    if (call.expression->kind != Expression::Kind::kCall) return tokens_.fail("a call block calls nothing");
    LOCKSTEP_TRY(call.body, separate_body("endcall"));
    return call;
  }

  Result<Statement> filter_block(int line) {
    Statement filter = make(Kind::kFilter, line);
    LOCKSTEP_TRY(filter.expression, parse_filters(tokens_));
    LOCKSTEP_TRY(filter.body, separate_body("endfilter"));
    return filter;
  }

  Result<Statement> with_block(int line) {
    Statement with = make(Kind::kWith, line);
    while (!tokens_.is(Token::Kind::kBlockEnd)) {
      Parameter assignment;
      LOCKSTEP_TRY(assignment.name, tokens_.expect_name("the name of a variable"));
      LOCKSTEP_TRY_VOID(tokens_.expect_operator("="));
      LOCKSTEP_TRY(assignment.fallback, parse_expression(tokens_));
      with.parameters.push_back(std::move(assignment));
      if (!tokens_.is(Token::Kind::kBlockEnd)) LOCKSTEP_TRY_VOID(tokens_.expect_operator(","));
    }
    LOCKSTEP_TRY(with.body, body_until("endwith"));
    return with;
  }

  TokenStream tokens_;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Result<Body> parse(std::string_view source) {
  LOCKSTEP_TRY(auto tokens, tokenize(source));
  return StatementParser(std::move(tokens)).run();
}

}  // namespace lockstep::jinja
