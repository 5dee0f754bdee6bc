// troupe ledger: how the gradients of a running training have ended, as a table or as JSON.
#include <cstdio>
#include <iostream>

#include "apps/program/ledger_table.hpp"
#include "apps/troupe/verbs.hpp"
#include "apps/troupe/visit.hpp"

using namespace troupe;

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string counts_json(const PushCount& p) {
  std::string refused;
  for (const auto& [reason, count] : p.refused)
    refused += detail::concat(refused.empty() ? "" : ", ", quoted(reason), ": ", count);
  return detail::concat("\"received\": ", p.received, ", \"applied\": ", p.applied,
                        ", \"merged\": ", p.merged, ", \"late\": ", p.late,
                        ", \"duplicate\": ", p.duplicate, ", \"held\": ", p.held,
                        ", \"refused\": {", refused, "}");
}

void print_json(const RunningProgram& program, const std::vector<PushCount>& rows,
                const std::string& left_out) {
  std::cout << "{\"program\": " << quoted(program.task)
            << ", \"executable\": " << quoted(program.name)
            << ", \"step\": " << program.progress.step
            << ", \"rule\": " << quoted(to_string(program.rule)) << ", \"rows\": [";
  for (size_t i = 0; i < rows.size(); ++i)
    std::cout << (i > 0 ? ",\n  {" : "\n  {") << "\"parameter\": " << quoted(rows[i].parameter)
              << ", \"from\": " << rows[i].offset << ", \"replica\": " << rows[i].replica
              << ", \"shard\": " << quoted(rows[i].task) << ", " << counts_json(rows[i]) << "}";
  std::cout << "\n], \"total\": {" << counts_json(total_of(rows))
            << "}, \"left_out\": " << quoted(left_out) << "}\n";
}

}  // namespace

int ledger(const std::vector<std::string>& arguments) {
  VisitFlags given;
  std::string parameters = "*";
  bool json = false;
  Flags flags("troupe ledger",
              "troupe ledger --join HOST:PORT: how the gradients of a running training have ended, "
              "by parameter slice and replica, since its shards were made. The exit code is 70 if "
              "the counts of a row do not add up to the gradients received, and 69 if a shard does "
              "not answer");
  add_visit_flags(flags, given, /*one=*/true);
  flags.add("parameter", &parameters, "pattern of names, in which * stands for any text");
  flags.add("json", &json, "as one JSON object");
  if (!flags.parse(arguments)) return 0;
  const std::unique_ptr<Visitor> visitor = visit(given);
  const RunningProgram program = choose_program(visitor->programs(), given.job);
  std::string left_out;
  const std::vector<PushCount> rows = visitor->ledger(program.task, parameters, left_out);
  if (rows.empty() && left_out.empty())
    throw Error(Errc::invalid_argument, "no parameter of ", name_of(program), " matches \"",
                parameters, "\", or none has got a gradient yet");
  if (json)
    print_json(program, rows, left_out);
  else
    print_ledger(rows, to_string(program.rule));
  if (const std::string fault = ledger_fault(rows); !fault.empty())
    throw Error(Errc::internal, fault);
  if (!left_out.empty()) throw Error(Errc::peer_lost, "rows are left out: ", left_out);
  return 0;
}
