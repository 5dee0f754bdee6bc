// Links: undefined symbols of a room's archive against the rooms that it sees.
#include <algorithm>

#include "tests/house/rooms.hpp"

namespace troupe {
namespace {

// The rooms that define a symbol, by symbol.
std::map<std::string, std::set<std::string>> definers(
    const std::vector<Room>& rooms, const std::map<std::string, Symbols>& archives) {
  std::map<std::string, std::set<std::string>> out;
  for (const Room& room : rooms) {
    const auto archive = archives.find(room.archive());
    if (archive == archives.end()) continue;
    for (const auto& [symbol, objects] : archive->second.defined) out[symbol].insert(room.folder);
  }
  return out;
}

// The rooms whose headers the files of `room` include.
std::set<std::string> included_by(const std::vector<Room>& rooms, const Room& room,
                                  const std::vector<Source>& tree) {
  static const std::string directive = "#include \"";
  std::set<std::string> out;
  for (const Source& file : tree) {
    if (room_of(rooms, file.path) != &room) continue;
    for (size_t at = 0; (at = file.text.find(directive, at)) != file.text.npos;) {
      at += directive.size();
      const Room* to = room_of(rooms, file.text.substr(at, file.text.find('"', at) - at));
      if (to) out.insert(to->folder);
    }
  }
  return out;
}

}  // namespace

std::map<std::string, Symbols> read_symbols(std::string_view nm) {
  std::map<std::string, Symbols> archives;
  for (const std::string& line : lines_of(nm)) {  // "a/libx.a[object.o]: symbol T 0 8"
    const size_t open = line.find(".a["), close = line.find("]: ", open);
    if (open == line.npos || close == line.npos) continue;
    const size_t name = line.rfind('/', open) + 1, symbol = close + 3,
                 kind = line.find(' ', symbol);
    if (kind == line.npos || kind + 1 == line.size()) continue;
    Symbols& archive = archives[line.substr(name, open + 2 - name)];
    const char letter = line[kind + 1];
    if (letter == 'w' || letter == 'v') continue;  // may stay undefined
    auto& list = letter == 'U' ? archive.undefined : archive.defined;
    list[line.substr(symbol, kind - symbol)].insert(line.substr(open + 3, close - open - 3));
  }
  return archives;
}

std::vector<Violation> check_links(const std::vector<Room>& rooms,
                                   const std::map<std::string, Symbols>& archives) {
  const auto homes = definers(rooms, archives);
  std::vector<Violation> found;
  for (const Room& room : rooms) {
    const auto archive = archives.find(room.archive());
    if (archive == archives.end()) continue;
    const std::set<std::string> seen = seen_by(rooms, room);
    const auto allowed = [&](const std::string& home) {
      return home == room.folder || seen.count(home) > 0;
    };
    // By object and room, one of the symbols.
    std::map<std::pair<std::string, std::string>, std::string> uphill;
    for (const auto& [symbol, objects] : archive->second.undefined) {
      const auto home = homes.find(symbol);
      if (home == homes.end()) continue;  // a library's
      if (std::any_of(home->second.begin(), home->second.end(), allowed)) continue;
      for (const std::string& object : objects) uphill[{object, *home->second.begin()}] = symbol;
    }
    for (const auto& [arrow, symbol] : uphill)
      found.push_back({room.folder + "/" + arrow.first, 0,
                       room.folder + " may not link " + arrow.second + ", which defines " + symbol,
                       room.folder + " -> " + arrow.second});
  }
  return found;
}

std::vector<Violation> check_needed(const std::vector<Room>& rooms, const std::vector<Source>& tree,
                                    const std::map<std::string, Symbols>& archives) {
  const auto homes = definers(rooms, archives);
  std::vector<Violation> found;
  for (const Room& room : rooms) {
    std::set<std::string> needed = included_by(rooms, room, tree);
    if (const auto archive = archives.find(room.archive()); archive != archives.end())
      for (const auto& [symbol, objects] : archive->second.undefined)
        if (const auto home = homes.find(symbol); home != homes.end())
          needed.insert(home->second.begin(), home->second.end());
    for (const std::string& seen : room.sees)
      if (!needed.count(seen))
        found.push_back({"cmake/rooms.cmake", 0,
                         room.folder + " SEES " + seen + ", which it does not need",
                         room.folder + " -> " + seen});
  }
  return found;
}

}  // namespace troupe
