// Adds rows up, and prints them.
#include "apps/program/ledger_table.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

using namespace troupe;

namespace {

int64_t ended_or_held(const PushCount& p) {
  int64_t out = p.applied + p.merged + p.late + p.duplicate + p.held;
  for (const auto& [reason, count] : p.refused) out += count;
  return out;
}

// `slice`: offset and replica mean something.
void print_row(const PushCount& p, int width, bool slice) {
  std::string refused;
  for (const auto& [reason, count] : p.refused)
    refused += detail::concat(refused.empty() ? "" : ", ", reason, " ", count);
  std::printf("  %-*s", width, p.parameter.empty() ? "(no slice)" : p.parameter.c_str());
  if (slice)
    std::printf(" %8lld %7lld", static_cast<long long>(p.offset),
                static_cast<long long>(p.replica));
  else
    std::printf(" %8s %7s", "", "");
  for (const auto& [columns, count] : {std::pair(9, p.received),
                                       {9, p.applied},
                                       {9, p.merged},
                                       {6, p.late},
                                       {9, p.duplicate},
                                       {6, p.held}})
    std::printf(" %*lld", columns, static_cast<long long>(count));
  std::printf("  %s\n", refused.empty() ? "none" : refused.c_str());
}

}  // namespace

PushCount total_of(const std::vector<PushCount>& pushes) {
  PushCount out;
  out.parameter = "total";
  for (const PushCount& p : pushes) {
    out.received += p.received;
    out.applied += p.applied;
    out.merged += p.merged;
    out.late += p.late;
    out.duplicate += p.duplicate;
    out.held += p.held;
    for (const auto& [reason, count] : p.refused) out.refused[reason] += count;
  }
  return out;
}

std::string ledger_fault(const std::vector<PushCount>& pushes) {
  for (const PushCount& p : pushes)
    if (p.received != ended_or_held(p))
      return detail::concat("the ledger of ", p.parameter, " from ", p.offset, " on ", p.task,
                            " does not add up: replica ", p.replica, " has ", p.received,
                            " gradients received, and ", ended_or_held(p), " ended or held");
  return "";
}

void print_ledger(const std::vector<PushCount>& pushes, const std::string& rule) {
  size_t width = 12;
  for (const PushCount& p : pushes) width = std::max(width, p.parameter.size());
  const int w = static_cast<int>(width);
  std::printf("\nHow the gradients ended, by parameter, first element and replica (%s)\n",
              rule.c_str());
  std::printf("  %-*s %8s %7s %9s %9s %9s %6s %9s %6s  %s\n", w, "parameter", "from", "replica",
              "received", "applied", "merged", "late", "duplicate", "held", "refused");
  for (const PushCount& p : pushes) print_row(p, w, true);
  print_row(total_of(pushes), w, false);
}
