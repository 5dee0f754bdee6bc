// A reader of declarations: tokens, then scopes of namespaces and classes. Bodies of functions are
// only searched for static variables.
#include "tests/house/scan.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>

namespace troupe {
namespace {

struct Token {
  std::string text;
  int line;
};
using Tokens = std::vector<Token>;

bool is_word(const std::string& text) {
  return std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_';
}

// CAF_ALLOW_UNSAFE_MESSAGE_TYPE, TEST_CASE and the like.
bool is_macro(const std::string& text) {
  return text.find('_') != text.npos &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == text.npos;
}

// Drops directives, and of each `#if` all branches but the first.
std::string without_directives(const std::string& code) {
  std::string out;
  std::vector<bool> skipping;  // by open #if
  bool continued = false;
  for (const std::string& line : lines_of(code)) {
    const size_t first = line.find_first_not_of(' ');
    const bool directive = continued || (first != line.npos && line[first] == '#');
    if (directive && !continued) {
      const size_t word = line.find_first_not_of("# ", first);
      const std::string rest = word == line.npos ? "" : line.substr(word);
      if (rest.starts_with("if")) skipping.push_back(false);
      if (rest.starts_with("el") && !skipping.empty()) skipping.back() = true;
      if (rest.starts_with("endif") && !skipping.empty()) skipping.pop_back();
    }
    continued = directive && line.ends_with("\\");
    const bool skip = std::find(skipping.begin(), skipping.end(), true) != skipping.end();
    out += (directive || skip ? "" : line) + "\n";
  }
  return out;
}

Tokens tokens_of(const std::string& text) {
  const std::string code = without_directives(code_of(text));
  Tokens tokens;
  int line = 1;
  for (size_t i = 0; i < code.size();) {
    const auto in_word = [&](size_t at) {
      return at < code.size() &&
             (std::isalnum(static_cast<unsigned char>(code[at])) || code[at] == '_');
    };
    size_t end = i + 1;
    if (code[i] == '\n') {
      ++line;
    } else if (code[i] == '"' || code[i] == '\'') {
      const size_t close = code.find(code[i], i + 1);
      end = close == code.npos ? code.size() : close + 1;
      tokens.push_back({"\"", line});
      line += static_cast<int>(std::count(code.begin() + i, code.begin() + end, '\n'));
    } else if (in_word(i)) {
      while (in_word(end) || (end < code.size() && code[end] == '\'' && in_word(end + 1))) ++end;
      tokens.push_back({code.substr(i, end - i), line});
    } else if (code[i] != ' ') {
      for (const char* pair : {"::", "->"})
        if (code.compare(i, 2, pair) == 0) end = i + 2;
      tokens.push_back({code.substr(i, end - i), line});
    }
    i = end;
  }
  return tokens;
}

class Reader {
 public:
  explicit Reader(const std::string& text) : tokens_(tokens_of(text)) {}

  Scan read() {
    while (!at_end()) scope(-1, false);
    return std::move(out_);
  }

 private:
  // One declaration, from its first token to what ends it.
  struct Declaration {
    size_t begin = 0;
    size_t name_end = 0;  // one past the tokens of type and name
    size_t open = 0;      // the parenthesis of a function's parameters
    bool function = false, assigned = false, defaulted = false;
    int names = 1;
  };

  bool at_end() const { return i_ >= tokens_.size(); }
  const std::string& text(size_t at) const {
    static const std::string none = ";";
    return at < tokens_.size() ? tokens_[at].text : none;
  }
  bool is(size_t at, std::initializer_list<const char*> texts) const {
    return std::any_of(texts.begin(), texts.end(), [&](const char* t) { return text(at) == t; });
  }
  bool has(size_t begin, size_t end, const char* word) const {
    for (size_t k = begin; k < end; ++k)
      if (text(k) == word) return true;
    return false;
  }

  // One past the bracket that closes the one at `at`.
  size_t past(size_t at) const {
    int depth = 0;
    for (; at < tokens_.size(); ++at) {
      if (is(at, {"(", "[", "{"})) ++depth;
      if (is(at, {")", "]", "}"}) && --depth == 0) return at + 1;
    }
    return at;
  }
  // One past the `>` that closes the `<` at `at`; `at + 1` if it is no bracket.
  size_t past_angle(size_t at) const {
    int depth = 0;
    for (size_t k = at; k < tokens_.size();) {
      if (is(k, {"(", "[", "{"})) {
        k = past(k);
        continue;
      }
      if (is(k, {";", "}", ")"})) break;
      if (text(k) == "<") ++depth;
      if (text(k) == ">" && --depth == 0) return k + 1;
      ++k;
    }
    return at + 1;
  }
  void skip_statement() {  // to one past its semicolon
    while (!at_end() && text(i_) != ";" && text(i_) != "}")
      i_ = is(i_, {"(", "[", "{"}) ? past(i_) : i_ + 1;
    if (text(i_) == ";") ++i_;
  }

  // Declarations up to the `}` of the scope. `owner`: the class, by its place in out_.classes; -1:
  // a namespace.
  void scope(int owner, bool is_public) {
    while (!at_end()) {
      if (text(i_) == "}") {
        ++i_;
        return;
      }
      if (owner >= 0 && is(i_, {"public", "private", "protected"}) && text(i_ + 1) == ":") {
        is_public = text(i_) == "public";
        i_ += 2;
      } else {
        member(owner, is_public);
      }
    }
  }

  void member(int owner, bool is_public) {
    if (text(i_) == ";") {
      ++i_;
    } else if (text(i_) == "[" && text(i_ + 1) == "[") {
      i_ = past(i_);
    } else if (text(i_) == "namespace" || (text(i_) == "inline" && text(i_ + 1) == "namespace")) {
      while (!is(i_, {"{", ";"})) ++i_;
      if (text(i_++) == "{") scope(-1, false);
    } else if (text(i_) == "extern" && text(i_ + 1) == "\"" && text(i_ + 2) == "{") {
      i_ += 3;
      scope(-1, false);
    } else if (text(i_) == "template") {
      i_ = text(i_ + 1) == "<" ? past_angle(i_ + 1) : i_ + 1;
      if (text(i_) == "requires") skip_requires();
    } else if (is(i_, {"using", "typedef", "static_assert", "enum", "concept"})) {
      skip_statement();
    } else if (text(i_) == "friend") {
      friend_of(owner);
    } else if (is_macro(text(i_)) && text(i_ + 1) == "(") {
      macro();
    } else if (class_keyword() && class_definition(owner, is_public)) {
    } else {
      declaration(owner, is_public);
    }
  }

  // A use of a macro ends at its parenthesis, unless a body follows: a declaration after it is one
  // of its own.
  void macro() {
    i_ = past(i_ + 1);
    if (text(i_) != "{") return;
    const size_t begin = i_;
    i_ = past(i_);
    search_body(begin, i_);
  }

  void skip_requires() {
    ++i_;
    if (text(i_) == "(") {
      i_ = past(i_);
    } else {
      while (is_word(text(i_)) || text(i_) == "::") ++i_;
      if (text(i_) == "<") i_ = past_angle(i_);
    }
  }

  void friend_of(int owner) {
    bool function = false;
    for (; !at_end() && text(i_) != ";"; ++i_) {
      if (text(i_) == "(") {
        function = true;
        i_ = past(i_) - 1;
      } else if (text(i_) == "{") {
        i_ = past(i_);
        break;
      }
    }
    if (!function && owner >= 0) ++out_.classes[owner].friends;
  }

  bool class_keyword() const { return is(i_, {"class", "struct", "union"}); }

  // Reads the class whose keyword is here; false: a type of something else.
  bool class_definition(int owner, bool is_public) {
    const bool opens_public = text(i_) != "class";
    size_t k = i_ + 1;
    while (is(k, {"alignas", "["})) k = past(text(k) == "[" ? k : k + 1);
    std::string name;
    for (; is_word(text(k)) || is(k, {"::", "<"}); k = text(k) == "<" ? past_angle(k) : k + 1)
      if (text(k) != "final" && text(k) != "<") name += text(k);
    if (text(k) == ";") {  // declared, and defined elsewhere
      i_ = k + 1;
      return true;
    }
    if (!is(k, {"{", ":"})) return false;
    const int line = tokens_[i_].line;
    const std::string around = owner >= 0 ? out_.classes[owner].name + "::" : "";
    const int self = static_cast<int>(out_.classes.size());
    out_.classes.push_back({around + (name.empty() ? "unnamed" : name), line});
    for (; k < tokens_.size() && text(k) != "{"; k = text(k) == "<" ? past_angle(k) : k + 1)
      if (is_word(text(k)) && !is(k, {"public", "private", "protected", "virtual"}) &&
          text(k + 1) != "::")
        out_.classes[self].bases.push_back(text(k));
    i_ = k + 1;
    scope(self, opens_public);
    if (text(i_) != ";") declaration(owner, is_public);  // an object of it
    return true;
  }

  void declaration(int owner, bool is_public) {
    const Declaration d = read_declaration();
    if (i_ <= d.begin) i_ = d.begin + 1;  // passes over a token that it cannot read
    const bool fixed = has(d.begin, d.name_end, "static") || has(d.begin, d.name_end, "constexpr");
    if (d.function) {
      note_function(owner, d);
    } else if (owner >= 0 && !fixed) {
      ScannedClass& self = out_.classes[owner];
      self.data += d.names;
      if (!is_public) self.plain = false;
    } else {
      note_variable(d.begin, d.name_end);
    }
  }

  void note_function(int owner, const Declaration& d) {
    if (owner >= 0) {
      if (d.defaulted) return;
      ++out_.classes[owner].functions;
      out_.classes[owner].plain = false;
      return;
    }
    const std::string name = class_of_name(d);
    auto& defines = out_.defines;
    if (!name.empty() && text(i_ - 1) == "}" &&
        std::find(defines.begin(), defines.end(), name) == defines.end())
      defines.push_back(name);
  }

  // "A::B" of `void A::B::f(...)`; empty: the name is not qualified.
  std::string class_of_name(const Declaration& d) const {
    size_t k = d.open;
    const bool symbol = has(d.begin, d.open, "operator");
    do {  // back to the function's own name, or to `operator`
      if (k == d.begin) return "";
      --k;
    } while (symbol ? text(k) != "operator" : !is_word(text(k)));
    if (k > d.begin && text(k - 1) == "~") --k;
    std::string name;
    while (k > d.begin && text(k - 1) == "::") {
      k -= 2;
      if (text(k) == ">") {  // Pool<T>::
        while (k > d.begin && text(k) != "<") --k;
        --k;
      }
      name = text(k) + (name.empty() ? "" : "::" + name);
    }
    return name;
  }

  Declaration read_declaration() {
    Declaration d;
    d.begin = d.name_end = i_;
    bool initialisers = false;  // a constructor's have begun
    const auto name_ends = [&] {
      if (d.name_end == d.begin) d.name_end = i_;
    };
    while (!at_end()) {
      const std::string& t = text(i_);
      if (t == ";" || t == "}") {
        name_ends();
        if (t == ";") ++i_;
        return d;
      }
      if (t == "operator") {
        ++i_;
        if (text(i_) == "(") i_ += 2;
        while (text(i_) != "(") ++i_;
      } else if (t == "(") {
        parenthesis(d);
        if (!d.function) name_ends();
      } else if (t == "<" && i_ > d.begin && is_word(text(i_ - 1))) {
        i_ = past_angle(i_);
      } else if (t == "[") {
        if (i_ > d.begin) name_ends();
        i_ = past(i_);
      } else if (t == "=") {
        name_ends();
        d.assigned = true;
        d.defaulted |= d.function && is(i_ + 1, {"default", "delete"});
        ++i_;
      } else if (t == ":") {
        name_ends();
        initialisers = d.function;
        ++i_;
      } else if (t == ",") {
        name_ends();
        if (!d.function) ++d.names;
        ++i_;
      } else if (t == "{") {
        const bool value = !d.function || d.assigned ||
                           (initialisers && (is_word(text(i_ - 1)) || text(i_ - 1) == ">"));
        name_ends();
        const size_t begin = i_;
        i_ = past(i_);
        search_body(begin, i_);
        if (!value) return d;
      } else {
        ++i_;
      }
    }
    return d;
  }

  // Parameters of a function, or something that belongs to a type or a value.
  void parenthesis(Declaration& d) {
    const std::string& before = i_ > d.begin ? text(i_ - 1) : text(tokens_.size());
    const bool named = is_word(before) || has(d.begin, i_, "operator") || before == ">";
    const bool part = before == "alignas" || before == "decltype" || before == "__attribute__" ||
                      before == "explicit";
    if (named && !part && !d.assigned && !d.function && text(i_ + 1) != "*") {
      d.function = true;
      d.open = i_;
      d.name_end = i_;
    }
    i_ = past(i_);
  }

  // Static variables between two places of a body.
  void search_body(size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      if (!is(k, {"static", "thread_local"})) continue;
      size_t name_end = k;
      while (name_end < end && !is(name_end, {"=", "{", "(", ";", "["}))
        name_end = text(name_end) == "<" ? past_angle(name_end) : name_end + 1;
      const bool function = text(name_end) == "(" && !is(past(name_end), {";", ","});
      if (!function) note_variable(k, name_end);
      k = name_end;
    }
  }

  // Keeps the variable whose type and name are these tokens, if it can change or is a thread's own.
  void note_variable(size_t begin, size_t name_end) {
    if (name_end <= begin || !is_word(text(name_end - 1)) || name_end - begin < 2) return;
    if (text(name_end - 2) == "::") return;  // a member: its class has declared it
    if (has(begin, name_end, "extern") || has(begin, name_end, "return")) return;
    size_t star = begin;  // one past the last * or & outside of angles
    bool constant = false, constant_after_star = false, owning = false;
    for (size_t k = begin; k < name_end;) {
      if (text(k) == "<") {
        const size_t after = past_angle(k);
        if (owning && has(k, after, "const")) owning = false;
        k = after;
        continue;
      }
      owning |= is(k, {"unique_ptr", "shared_ptr"});
      if (is(k, {"*", "&"})) {
        star = k + 1;
        constant_after_star = text(k) == "&";
      }
      if (text(k) == "const") (star > begin ? constant_after_star : constant) = true;
      ++k;
    }
    const bool fixed = has(begin, name_end, "constexpr") ||
                       (constant && !owning && (star == begin || constant_after_star));
    if (!fixed || has(begin, name_end, "thread_local"))
      out_.mutables.push_back({text(name_end - 1), tokens_[name_end - 1].line});
  }

  Tokens tokens_;
  size_t i_ = 0;
  Scan out_;
};

}  // namespace

Scan scan(const Source& file) { return Reader(file.text).read(); }

}  // namespace troupe
