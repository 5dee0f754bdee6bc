// Flags: the options of a program, or of one of its verbs, each bound to a variable. CLI11 reads
// the words; only flags.cpp includes it.
//
// Owner: the function that reads a command line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
}

class Flags {
 public:
  // An option that is not given leaves its variable as it is. One bound to a list may be given
  // again and again.
  using Target =
      std::variant<bool*, int*, int64_t*, double*, std::string*, std::optional<int>*,
                   std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*,
                   std::vector<std::string>*, std::vector<double>*>;

  // `program` is the call that a person writes, as in "actor-node up"; `summary` heads its --help.
  Flags(std::string program, const std::string& summary);
  ~Flags();

  // Binds --name. --help shows `text` and the default, which is the value of the variable.
  void add(const std::string& name, Target to, const std::string& text);
  // Without this a word that belongs to no option is refused.
  void take_words();
  // The first word that belongs to no option begins `command`.
  void end_at_word();

  // Returns false if --help is among the arguments; it is printed then. Requires: the variables are
  // there. Throws: Error(invalid_argument) that names option and value, and says what is right.
  bool parse(std::vector<std::string> arguments);

  std::vector<std::string> words;    // that belong to no option
  std::vector<std::string> command;  // all behind "--"

 private:
  std::string program_;
  bool takes_words_ = false;
  std::unique_ptr<CLI::App> app_;
};
