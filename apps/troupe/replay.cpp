// troupe replay: a program once more, in the recorded order of its updates.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "apps/flags.hpp"
#include "apps/troupe/program.hpp"
#include "apps/troupe/verbs.hpp"

using namespace troupe;

namespace {

// The text after `"name":`, up to the next comma or brace, without quotes.
std::string field_of(const std::string& json, const std::string& name) {
  const size_t at = json.find("\"" + name + "\":");
  if (at == json.npos) return "";
  const size_t begin = at + name.size() + 3;
  std::string out = json.substr(begin, json.find_first_of(",}", begin) - begin);
  std::erase(out, '"');
  return out;
}

// Says how each training of the record has ended. Throws: Error(invalid_argument) if none has: a
// replay would have nothing to be compared with.
void show_ends(const std::string& folder) {
  bool any = false;
  std::error_code none;
  for (const auto& training : std::filesystem::directory_iterator(folder, none)) {
    const std::filesystem::path end = training.path() / "end.json";
    if (!std::filesystem::exists(end, none)) continue;
    const std::string text = read_file(end.string(), "record that --record has written");
    std::cout << "recorded in " << training.path().string() << ": " << field_of(text, "steps")
              << " steps, weights sha256 " << field_of(text, "weights_sha256") << std::endl;
    any = true;
  }
  if (!any)
    throw Error(Errc::invalid_argument, folder,
                " has no record of a training that has ended; name ",
                "the folder that --record named, and resume that training if it was cut off");
}

}  // namespace

int replay(const std::vector<std::string>& arguments) {
  Flags flags("troupe replay",
              "troupe replay DIR -- PROGRAM [ARGS...]\n"
              "runs PROGRAM with ARGS and --replay DIR: the training that --record DIR has "
              "recorded, in the same order of updates. PROGRAM fails unless it ends with the "
              "weights of the record, and its exit code is that of troupe replay");
  flags.take_words();
  if (!flags.parse(arguments)) return 0;
  std::vector<std::string> command = flags.command;
  if (flags.words.size() != 1 || command.empty())
    throw Error(Errc::invalid_argument,
                "replay wants one DIR, then -- and a PROGRAM; see troupe replay --help");
  show_ends(flags.words[0]);
  command.insert(command.end(), {"--replay", flags.words[0]});
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw Error(Errc::invalid_argument, "cannot run ", command[0], ": ", std::strerror(errno));
}
