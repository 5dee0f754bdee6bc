// einsum: sums of products in Einstein's notation, as a graph of Diagonal, ReduceSum, Transpose,
// Reshape, MatMul and Multiply. A step that is not needed adds no node: "ij,jk->ik" is one MatMul.
//
// Two operands are multiplied as matrices [batch..., left, shared] x [batch..., shared, right]:
// letters of both that are wanted later are the batch, letters of both that are not are shared.
// Differs from NumPy in one point: a dimension of size 1 is repeated only within "...".
#include <algorithm>
#include <cctype>
#include <map>

#include "ops/support/elementwise.hpp"
#include "ops/support/regroup.hpp"

namespace troupe {
namespace {

// A dimension's letter, or -1, -2, ... for the last, last but one, ... of "...".
using Label = int;
using Labels = std::vector<Label>;

struct Term {
  Output value;
  Labels labels;  // of its dimensions
};

bool has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int64_t size_of_label(const Term& term, Label label) {
  const auto at = std::find(term.labels.begin(), term.labels.end(), label);
  return term.value.shape()[static_cast<int>(at - term.labels.begin())];
}

Labels joined(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// ---- the equation ----

class Equation {
 public:
  Equation(std::string_view text, const std::vector<Output>& operands, Origin at)
      : text_(text), at_(at) {
    for (const Output& operand : operands)
      if (!operand.defined() || operand.graph != operands[0].graph)
        throw refused("an operand is undefined or of another graph; pass the results of ops");
    std::string rest;
    for (const char c : text)
      if (c != ' ') rest += c;
    const size_t arrow = rest.find("->");
    const std::string left = rest.substr(0, arrow);
    read_terms(left, operands);
    check_sizes();
    if (arrow == rest.npos)
      imply_output(left);
    else
      read_output(rest.substr(arrow + 2));
  }

  const std::vector<Term>& terms() const { return terms_; }
  const Labels& output() const { return output_; }

 private:
  template <class... Parts>
  Error refused(const Parts&... parts) const {
    return Error(Errc::invalid_argument, "einsum(\"", text_, "\") called at ", at_.file, ":",
                 at_.line, ": ", detail::concat(parts...));
  }

  // The labels of "ab...c" where "..." stands for `dots` dimensions.
  Labels labels_of(const std::string& part, int dots) const {
    Labels labels;
    for (size_t i = 0; i < part.size(); ++i) {
      if (std::isalpha(static_cast<unsigned char>(part[i]))) {
        labels.push_back(part[i]);
      } else {  // "...", as letter_count() has seen
        for (int d = dots; d > 0; --d) labels.push_back(-d);
        i += 2;
      }
    }
    return labels;
  }

  // Throws unless there are letters and at most one "...".
  int letter_count(const std::string& part) const {
    const size_t dots = part.find("...");
    std::string letters = part;
    if (dots != part.npos) letters.erase(dots, 3);
    for (const char c : letters)
      if (!std::isalpha(static_cast<unsigned char>(c)))
        throw refused("cannot read \"", part, "\"; write letters and at most one \"...\" for an ",
                      "operand, commas between them, and the result after \"->\"");
    return static_cast<int>(letters.size());
  }

  void read_terms(const std::string& left, const std::vector<Output>& operands) {
    std::vector<std::string> parts(1);
    for (const char c : left)
      if (c == ',')
        parts.emplace_back();
      else
        parts.back() += c;
    if (parts.size() != operands.size())
      throw refused("names ", parts.size(), " operands, got ", operands.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool dots = parts[i].find("...") != std::string::npos;
      const int ndim = operands[i].shape().ndim(), letters = letter_count(parts[i]);
      if (dots ? letters > ndim : letters != ndim)
        throw refused("operand ", i, " is ", operands[i].shape(), ", which are not the ", letters,
                      " dimensions of \"", parts[i], "\"");
      dots_ = std::max(dots_, dots ? ndim - letters : 0);
      terms_.push_back({operands[i], labels_of(parts[i], ndim - letters)});
    }
  }

  void check_sizes() const {
    std::map<Label, int64_t> sizes;
    for (const Term& term : terms_)
      for (size_t d = 0; d < term.labels.size(); ++d) {
        const Label label = term.labels[d];
        const int64_t size = term.value.shape()[static_cast<int>(d)];
        if (size < 0 || (label < 0 && size == 1)) continue;
        const int64_t other = sizes.emplace(label, size).first->second;
        if (other == size) continue;
        if (label < 0)
          throw refused("the dimensions of \"...\" do not broadcast: ", other, " and ", size);
        throw refused("the dimensions \"", static_cast<char>(label), "\" differ in size: ", other,
                      " and ", size);
      }
  }

  void imply_output(const std::string& left) {
    for (int d = dots_; d > 0; --d) output_.push_back(-d);
    for (Label letter = 'A'; letter <= 'z'; ++letter)
      if (std::isalpha(letter) &&
          std::count(left.begin(), left.end(), static_cast<char>(letter)) == 1)
        output_.push_back(letter);
  }

  void read_output(const std::string& part) {
    letter_count(part);
    const bool dots = part.find("...") != part.npos;
    if (dots_ > 0 && !dots)
      throw refused("the result has no \"...\", but an operand has; sum over letters instead");
    output_ = labels_of(part, dots_);
    for (const Label label : output_) {
      if (label < 0) continue;
      if (std::count(output_.begin(), output_.end(), label) > 1)
        throw refused("the result names \"", static_cast<char>(label), "\" twice; name it once");
      const auto knows = [&](const Term& term) { return has(term.labels, label); };
      if (std::none_of(terms_.begin(), terms_.end(), knows))
        throw refused("the result names \"", static_cast<char>(label), "\", which no operand has");
    }
  }

  std::string_view text_;
  Origin at_;
  std::vector<Term> terms_;
  Labels output_;
  int dots_ = 0;  // how many dimensions "..." stands for in the result
};

// ---- one operand ----

std::string name_of(Label label) {
  return label > 0 ? std::string(1, static_cast<char>(label)) : detail::concat("e", -label, "x");
}

std::string written(const Labels& labels) {
  std::string text;
  for (const Label label : labels) text += name_of(label) + " ";
  return text;
}

// The text of labels that are one dimension together.
std::string written_group(const Labels& group) {
  if (group.size() == 1) return written(group);
  return group.empty() ? "1 " : detail::concat("(", written(group), ") ");
}

Term in_order(const Term& term, const Labels& order) {
  if (term.labels == order) return term;
  std::vector<int64_t> permutation;
  for (const Label label : order)
    permutation.push_back(std::find(term.labels.begin(), term.labels.end(), label) -
                          term.labels.begin());
  return {transpose(term.value, permutation), order};
}

// Every letter stands once: diagonals of those that do not.
Term without_repeats(Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const Label label = term.labels[i];
    const auto next =
        std::find(term.labels.begin() + static_cast<int64_t>(i) + 1, term.labels.end(), label);
    if (next == term.labels.end()) continue;
    const std::string text = written(term.labels);
    const int64_t axis1 = static_cast<int64_t>(i), axis2 = next - term.labels.begin();
    const std::string same = detail::concat(text, "-> ", text);
    term.value =
        diagonal(regroup(term.value, same, {}, /*checked=*/true), {.axis1 = axis1, .axis2 = axis2});
    term.labels.erase(next);
    term.labels.erase(term.labels.begin() + axis1);
    term.labels.push_back(label);
    return without_repeats(term);
  }
  return term;
}

// Sums over the labels that are not in `wanted`.
Term summed(const Term& term, const Labels& wanted) {
  std::vector<int64_t> axes;
  Labels left;
  for (size_t d = 0; d < term.labels.size(); ++d)
    if (has(wanted, term.labels[d]))
      left.push_back(term.labels[d]);
    else
      axes.push_back(static_cast<int64_t>(d));
  return axes.empty() ? term : Term{reduce_sum(term.value, {.axes = axes}), left};
}

Term without(const Term& term, Label dropped) {
  std::string from;
  Labels left;
  for (const Label label : term.labels) {
    from += label == dropped ? "1 " : name_of(label) + " ";
    if (label != dropped) left.push_back(label);
  }
  return {regroup(term.value, from + "-> " + written(left)), left};
}

// ---- two operands ----

// Dimensions of "..." that both have become of one size, or stay in one of the two.
void broadcast_dots(Term& a, Term& b) {
  Labels open;  // only the step knows their sizes
  for (const Label label : Labels(a.labels)) {
    if (label > 0 || !has(b.labels, label)) continue;
    const int64_t m = size_of_label(a, label), n = size_of_label(b, label);
    if (m >= 0 && m == n) continue;
    if (m == 1)
      a = without(a, label);
    else if (n == 1)
      b = without(b, label);
    else
      open.push_back(label);
  }
  if (open.empty()) return;
  // A value of just these dimensions repeats both; which one it is makes no difference.
  const Output all =
      equal(in_order(summed(a, open), open).value, in_order(summed(b, open), open).value);
  for (Term* term : {&a, &b}) {
    Labels order;
    for (const Label label : term->labels)
      if (!has(open, label)) order.push_back(label);
    *term = in_order(*term, joined(order, open));
    term->value = where(all, term->value, term->value);
  }
}

// A term as a value whose dimensions are groups of labels; none of them make a 1.
Output grouped(const Term& term, const std::vector<Labels>& groups, const Term& other,
               bool checked) {
  Labels order;
  std::string to;
  for (const Labels& group : groups) {
    order = joined(order, group);
    to += written_group(group);
  }
  const Term turned = in_order(term, order);
  const std::string from = written(turned.labels);
  if (!checked) return regroup(turned.value, from + "-> " + to);
  return regroup(turned.value, from + ", " + written(other.labels) + "-> " + to, {other.value},
                 /*checked=*/true);
}

// The labels of two terms, by what becomes of them.
struct Roles {
  Labels batch, shared, left, right;
};

Roles roles_of(const Term& a, const Term& b, const Labels& wanted) {
  Roles roles;
  for (const Label label : a.labels)
    (!has(b.labels, label) ? roles.left
     : has(wanted, label)  ? roles.batch
                           : roles.shared)
        .push_back(label);
  for (const Label label : b.labels)
    if (!has(a.labels, label)) roles.right.push_back(label);
  return roles;
}

// Nothing is summed: an element-wise product that broadcasts.
Term multiplied(const Term& a, const Term& b, const Roles& roles, bool checked) {
  std::vector<Labels> of_a, of_b;
  const auto add_each = [](std::vector<Labels>& groups, const Labels& labels) {
    for (const Label label : labels) groups.push_back({label});
  };
  for (std::vector<Labels>* groups : {&of_a, &of_b}) add_each(*groups, roles.batch);
  add_each(of_a, roles.left);
  of_a.resize(of_a.size() + roles.right.size());
  of_b.resize(of_b.size() + roles.left.size());
  add_each(of_b, roles.right);
  return {multiply(grouped(a, of_a, b, false), grouped(b, of_b, a, checked)),
          joined(joined(roles.batch, roles.left), roles.right)};
}

Term contracted(Term a, Term b, const Labels& wanted) {
  broadcast_dots(a, b);
  a = summed(a, joined(wanted, b.labels));
  b = summed(b, joined(wanted, a.labels));
  const Roles roles = roles_of(a, b, wanted);
  // MatMul would not see sizes that differ within a group, or 1 beside another size.
  bool known = true;
  for (const Label label : joined(roles.batch, roles.shared))
    known = known && size_of_label(a, label) >= 0 && size_of_label(b, label) >= 0;
  if (roles.shared.empty()) return multiplied(a, b, roles, !known);
  const bool join_batch = roles.batch.size() + 2 > Shape::kNdimMax;
  const bool checked = !known && (join_batch || roles.shared.size() > 1);
  std::vector<Labels> batch;
  if (join_batch) batch.push_back(roles.batch);
  for (const Label label : roles.batch)
    if (!join_batch) batch.push_back({label});
  const auto side = [&](const Labels& second, const Labels& last) {
    std::vector<Labels> groups = batch;
    groups.push_back(second);
    groups.push_back(last);
    return groups;
  };
  const auto stands = [&](const Term& term, const Labels& second, const Labels& last) {
    return term.labels == joined(joined(roles.batch, second), last);
  };
  const bool turn_a = !roles.left.empty() && stands(a, roles.shared, roles.left);
  const bool turn_b = !roles.right.empty() && stands(b, roles.right, roles.shared);
  const Output product =
      matmul(grouped(a, turn_a ? side(roles.shared, roles.left) : side(roles.left, roles.shared), b,
                     false),
             grouped(b, turn_b ? side(roles.right, roles.shared) : side(roles.shared, roles.right),
                     a, checked),
             {.transpose_a = turn_a, .transpose_b = turn_b});
  // Back to one dimension for each label.
  const Labels all = joined(joined(roles.batch, roles.left), roles.right);
  std::string from;
  for (const Labels& group : side(roles.left, roles.right)) from += written_group(group);
  std::vector<Output> likes;
  if (join_batch || roles.left.size() > 1 || roles.right.size() > 1) {
    from += ", " + written(a.labels) + ", " + written(b.labels);
    likes = {a.value, b.value};
  }
  return {regroup(product, from + "-> " + written(all), likes), all};
}

}  // namespace

Output einsum(std::string_view equation, const std::vector<Output>& operands, Origin at) {
  const Equation parsed(equation, operands, at);
  const auto scope = operands[0].graph->scope({.origin = at});
  std::vector<Term> terms;
  for (const Term& term : parsed.terms()) terms.push_back(without_repeats(term));
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels wanted = parsed.output();
    for (size_t later = i + 1; later < terms.size(); ++later)
      wanted = joined(wanted, terms[later].labels);
    result = contracted(result, terms[i], wanted);
  }
  return in_order(summed(result, parsed.output()), parsed.output()).value;
}

}  // namespace troupe
