// Takes debts and exceptions off the findings of a rule.
#include "tests/house/debts.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace troupe {
namespace {

const char* const kDebts = "tests/house/debts.txt";
const char* const kExceptions = "tests/house/exceptions.txt";

// Calls `heading(rule)` and `entry(rule, text, line)` for the lines of a list.
void read_list(std::string_view text, const std::function<void(const std::string&)>& heading,
               const std::function<void(const std::string&, const std::string&, int)>& entry) {
  std::string rule;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      rule = line.substr(1, line.find(']') - 1);
      heading(rule);
    } else {
      if (rule.empty()) throw std::runtime_error("an entry before the first [rule]: " + line);
      entry(rule, line, number);
    }
  }
}

const std::string& place_of(const Violation& v) { return v.place.empty() ? v.file : v.place; }

std::map<std::string, int> sizes_of(const std::vector<Violation>& found) {
  std::map<std::string, int> sizes;
  for (const Violation& v : found) sizes[place_of(v)] += v.size;
  return sizes;
}

int total(const std::map<std::string, Debt>& entries) {
  int sum = 0;
  for (const auto& [place, debt] : entries) sum += debt.size;
  return sum;
}

}  // namespace

Debts read_debts(std::string_view text) {
  Debts debts;
  const auto entry = [&](const std::string& rule, const std::string& line, int number) {
    const size_t space = line.find(' ');
    const std::string size = line.substr(0, space);
    const bool digits = !size.empty() && size.find_first_not_of("0123456789") == size.npos;
    if (!digits || size == "0" || space == line.npos)
      throw std::runtime_error("a debt is a line SIZE PLACE, got: " + line);
    if (!debts[rule].emplace(line.substr(space + 1), Debt{std::stoi(size), number}).second)
      throw std::runtime_error("a debt is there twice: " + line);
  };
  read_list(
      text, [&](const std::string& rule) { debts[rule]; }, entry);
  return debts;
}

std::vector<Violation> settle(const std::string& rule, const std::vector<Violation>& found,
                              const Debts& debts) {
  static const std::map<std::string, Debt> none;
  const auto list = debts.find(rule);
  const std::map<std::string, Debt>& owed = list == debts.end() ? none : list->second;
  std::map<std::string, int> sizes = sizes_of(found);
  std::vector<Violation> left;
  for (const Violation& v : found) {
    const auto debt = owed.find(place_of(v));
    const int allowed = debt == owed.end() ? 0 : debt->second.size;
    if (sizes[place_of(v)] <= allowed) continue;
    left.push_back(v);
    left.back().what += " [" + rule + ": " + std::to_string(sizes[place_of(v)]) + " in " +
                        place_of(v) + ", the debt is " + std::to_string(allowed) + "]";
  }
  for (const auto& [place, debt] : owed) {
    const int size = sizes[place];
    if (size == 0)
      left.push_back({kDebts, debt.line, "paid: remove \"" + place + "\" from [" + rule + "]"});
    else if (size < debt.size)
      left.push_back({kDebts, debt.line,
                      "paid in part: lower the entry of [" + rule + "] to \"" +
                          std::to_string(size) + " " + place + "\""});
  }
  return left;
}

std::string lowered(std::string_view text, const std::string& rule,
                    const std::vector<Violation>& found) {
  std::map<std::string, int> sizes = sizes_of(found);
  std::string out;
  bool ours = false;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("[")) ours = line.starts_with("[" + rule + "]");
    if (!ours || line.empty() || line[0] == '[' || line[0] == '#') {
      out += line + "\n";
      continue;
    }
    const std::string place = line.substr(line.find(' ') + 1);
    const int size = std::min(sizes[place], std::stoi(line));
    if (size > 0) out += std::to_string(size) + " " + place + "\n";
  }
  return out;
}

std::vector<Violation> check_shrinks(const Debts& before, const Debts& now) {
  std::vector<Violation> found;
  for (const auto& [rule, entries] : now) {
    const auto old = before.find(rule);
    if (old == before.end() || total(entries) <= total(old->second)) continue;
    found.push_back({kDebts, 0,
                     "the debts of [" + rule + "] grow from " + std::to_string(total(old->second)) +
                         " to " + std::to_string(total(entries)) + "; they may only shrink"});
  }
  return found;
}

Exceptions read_exceptions(std::string_view text) {
  Exceptions exceptions;
  const auto entry = [&](const std::string& rule, const std::string& line, int number) {
    const size_t colon = line.find(": ");
    if (colon == line.npos || line.size() < colon + 12)
      throw std::runtime_error("an exception is a line PLACE: REASON, got: " + line);
    exceptions[rule][line.substr(0, colon)] = {line.substr(colon + 2), number};
  };
  read_list(
      text, [&](const std::string& rule) { exceptions[rule]; }, entry);
  return exceptions;
}

std::vector<Violation> excuse(const std::string& rule, const std::vector<Violation>& found,
                              const Exceptions& exceptions) {
  const auto list = exceptions.find(rule);
  if (list == exceptions.end()) return found;
  std::vector<Violation> left;
  for (const Violation& v : found)
    if (!list->second.count(place_of(v))) left.push_back(v);
  for (const auto& [place, exception] : list->second) {
    const auto needs = [&, &place = place](const Violation& v) { return place_of(v) == place; };
    if (std::none_of(found.begin(), found.end(), needs))
      left.push_back({kExceptions, exception.line,
                      "nothing needs the exception of [" + rule + "] for " + place});
  }
  return left;
}

}  // namespace troupe
