// Reads cmake/rooms.cmake.
#include "tests/house/rooms.hpp"

#include <algorithm>
#include <sstream>

namespace troupe {
namespace {

const char* const kFile = "cmake/rooms.cmake";

std::string without_comments(std::string_view cmake) {
  std::string out;
  for (const std::string& line : lines_of(cmake)) out += line.substr(0, line.find('#')) + "\n";
  return out;
}

Room read_room(const std::string& arguments) {
  std::istringstream in(arguments);
  Room room;
  in >> room.folder;
  std::string word, list;
  while (in >> word) {
    if (word == "APART") continue;
    if (word == "SEES" || word == "FOLDERS" || word == "LIBRARIES") {
      list = word;
    } else if (list == "SEES") {
      room.sees.insert(word);
    } else if (list == "FOLDERS") {
      room.parts.push_back(word);
    } else {
      room.libraries.insert(word);
    }
  }
  return room;
}

bool is_in(std::string_view path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

}  // namespace

std::string Room::archive() const {
  std::string name = folder;
  std::replace(name.begin(), name.end(), '/', '_');
  return "libtroupe_" + name + ".a";
}

std::vector<Room> read_rooms(std::string_view cmake) {
  const std::string text = without_comments(cmake), call = "\ntroupe_room(";
  std::vector<Room> rooms;
  for (size_t at = text.find(call); at != text.npos; at = text.find(call, at + 1)) {
    const size_t begin = at + call.size();
    rooms.push_back(read_room(text.substr(begin, text.find(')', begin) - begin)));
  }
  return rooms;
}

std::vector<Violation> check_rooms(const std::vector<Room>& rooms) {
  std::vector<Violation> found;
  std::set<std::string> above;
  for (const Room& room : rooms) {
    for (const std::string& seen : room.sees) {
      if (!above.count(seen))
        found.push_back({kFile, 0, room.folder + " SEES " + seen + ", which is not above it"});
      if (top_of(room.folder) == "actors" && top_of(seen) == "ops")
        found.push_back({kFile, 0, room.folder + " SEES " + seen + "; the engine knows no op"});
    }
    if (!above.insert(room.folder).second)
      found.push_back({kFile, 0, room.folder + " is there twice"});
  }
  return found;
}

const Room* room_of(const std::vector<Room>& rooms, std::string_view path) {
  const Room* best = nullptr;
  for (const Room& room : rooms)
    if (is_in(path, room.folder) && (!best || room.folder.size() > best->folder.size()))
      best = &room;
  return best;
}

std::set<std::string> seen_by(const std::vector<Room>& rooms, const Room& room) {
  std::set<std::string> all = room.sees;
  // From the upper rooms to the lower ones: each adds what it sees itself.
  for (auto lower = rooms.rbegin(); lower != rooms.rend(); ++lower)
    if (all.count(lower->folder)) all.insert(lower->sees.begin(), lower->sees.end());
  return all;
}

}  // namespace troupe
