// The command line of a verb of troupe: options, and words without dashes.
#pragma once

#include <boost/program_options.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "troupe/error.hpp"

struct Line {
  boost::program_options::variables_map given;
  std::vector<std::string> words;
  bool help = false;  // was asked for, and printed
};

// Throws: Error(invalid_argument) for what `what` does not know. Requires: an option "help".
inline Line parse(const std::string& verb, const boost::program_options::options_description& what,
                  const std::vector<std::string>& arguments) {
  namespace options = boost::program_options;
  Line out;
  options::options_description all;
  all.add(what).add_options()("words", options::value<std::vector<std::string>>());
  options::positional_options_description anywhere;
  anywhere.add("words", -1);
  try {
    options::store(options::command_line_parser(arguments).options(all).positional(anywhere).run(),
                   out.given);
    options::notify(out.given);
  } catch (const options::error& e) {
    throw troupe::Error(troupe::Errc::invalid_argument, e.what(), "; see troupe ", verb, " --help");
  }
  if (out.given.count("help")) {
    std::cout << what;
    out.help = true;
  }
  if (out.given.count("words")) out.words = out.given["words"].as<std::vector<std::string>>();
  return out;
}
