// troupe: looks at the library and at the machine.
//
//   troupe ops [TEXT]    a table of all ops, or of those with TEXT in their name
//   troupe doctor        what this machine is, and what will be used of it
//
// Its verbs stand in apps/troupe/; here mistakes become exit codes.
#include <iostream>

#include "apps/console_log.hpp"
#include "apps/troupe/verbs.hpp"

namespace {

constexpr int kExitUsage = 64;

void usage(std::ostream& out) {
  out << "usage: troupe ops [TEXT]   a table of all ops, or of those with TEXT in their name\n"
         "       troupe doctor       what this machine is, and what will be used of it\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  const std::string verb = argc > 1 ? argv[1] : "";
  return exit_code_of(console_voice("text", "troupe " + verb), [&] {
    const auto flushed = [](int code) {
      std::cout.flush();
      if (!std::cout) throw troupe::Error(troupe::Errc::io, "standard output cannot be written to");
      return code;
    };
    if (verb == "help" || verb == "--help" || (!arguments.empty() && arguments[0] == "--help")) {
      usage(std::cout);
      return flushed(0);
    }
    if (verb == "ops") return flushed(ops(arguments));
    if (verb == "doctor") return flushed(doctor(arguments));
    if (!verb.empty()) std::cerr << "troupe: unknown verb \"" << verb << "\"\n";
    usage(std::cerr);
    return kExitUsage;
  });
}
