// troupe: looks at the library, at the machine, and at a running cluster, which it steers, too.
//
//   troupe ops [TEXT]    a table of all ops, or of those with TEXT in their name
//   troupe graph FILE    a graph as text, DOT or SVG; with --passes what the passes do
//   troupe trace FILE    where the time of a traced run went
//   troupe chaos PROGRAM a program on a local cluster that is struck by faults
//   troupe jobs          the trainings of a running cluster
//   troupe ledger        how the gradients of one have ended
//   troupe set           another rule or rate scale for it
//   troupe replay DIR -- PROGRAM  a recorded training in the same order of updates
//   troupe doctor        what this machine is, and what will be used of it
//
// Its verbs stand in apps/troupe/; here mistakes become exit codes.
#include <iostream>

#include "apps/console_log.hpp"
#include "apps/troupe/verbs.hpp"

namespace {

constexpr int kExitUsage = 64;

void usage(std::ostream& out) {
  out << "usage: troupe ops [TEXT]     a table of all ops, or of those with TEXT in their name\n"
         "       troupe graph FILE     a graph as text, DOT or SVG; with --passes what the passes "
         "do\n"
         "       troupe trace FILE     where the time of a traced run went, by op, node and step\n"
         "       troupe chaos PROGRAM  a program on a local cluster that is struck by faults\n"
         "       troupe jobs           the programs of a running cluster, and their trainings\n"
         "       troupe ledger         how the gradients of a running training have ended\n"
         "       troupe set            another rule or rate scale for a running training\n"
         "       troupe replay DIR -- PROGRAM\n"
         "                             a recorded training once more, in the same order of "
         "updates\n"
         "       troupe doctor         what this machine is, and what will be used of it\n"
         "       troupe VERB --help    the options; graph and trace also take -- PROGRAM "
         "[ARGS...]\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  const std::string verb = argc > 1 ? argv[1] : "";
  return exit_code_of(console_voice("text", "troupe " + verb), [&] {
    if (verb == "help" || verb == "--help") {
      usage(std::cout);
      return 0;
    }
    if (verb == "ops") return ops(arguments);
    if (verb == "graph") return graph(arguments);
    if (verb == "trace") return trace(arguments);
    if (verb == "chaos") return chaos(arguments);
    if (verb == "jobs") return jobs(arguments);
    if (verb == "ledger") return ledger(arguments);
    if (verb == "set") return set(arguments);
    if (verb == "replay") return replay(arguments);
    if (verb == "doctor") return doctor(arguments);
    if (!verb.empty()) std::cerr << "troupe: unknown verb \"" << verb << "\"\n";
    usage(std::cerr);
    return kExitUsage;
  });
}
