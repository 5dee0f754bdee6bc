// The rooms of the library as cmake/rooms.cmake lists them, from the ground up.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/house/source.hpp"

namespace troupe {

struct Room {
  std::string folder;                    // "actors/engine"
  std::set<std::string> sees = {};       // rooms whose headers it may include
  std::vector<std::string> parts = {};   // subfolders that belong to it: "support", ...
  std::set<std::string> libraries = {};  // packages whose headers it may include
  std::string archive() const;           // "libtroupe_actors_engine.a"
};

// The rooms of `cmake`, the text of cmake/rooms.cmake.
std::vector<Room> read_rooms(std::string_view cmake);

// Rooms that see what is not above them in the file, or that name a room twice; and what no room of
// actors/ may see: ops/.
std::vector<Violation> check_rooms(const std::vector<Room>& rooms);

// The room that the file or folder `path` stands in; null: none.
const Room* room_of(const std::vector<Room>& rooms, std::string_view path);

// The rooms that `room` sees, and those that these see.
std::set<std::string> seen_by(const std::vector<Room>& rooms, const Room& room);

// Symbols of an archive, and the objects that define or lack each. read_symbols() reads the output
// of `nm -A -g -P`, by file names of archives.
struct Symbols {
  std::map<std::string, std::set<std::string>> defined, undefined;
};
std::map<std::string, Symbols> read_symbols(std::string_view nm);

// Symbols that a room lacks and that only rooms define which it does not see, not even through
// others. One finding for each object and room, of the place "room -> room".
std::vector<Violation> check_links(const std::vector<Room>& rooms,
                                   const std::map<std::string, Symbols>& archives);

// Rooms that a room SEES though it includes none of their headers and lacks none of their symbols.
std::vector<Violation> check_needed(const std::vector<Room>& rooms, const std::vector<Source>& tree,
                                    const std::map<std::string, Symbols>& archives);

// Includes that the rooms do not allow. A file of the library may include public headers, its own
// room and the rooms that this one SEES, and the headers of its LIBRARIES.
std::vector<Violation> check_includes(const std::vector<Room>& rooms, const Source& file);

}  // namespace troupe
