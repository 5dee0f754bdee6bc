// Rules about classes and about variables that outlive a function, on what scan() has read.
//
// A class has at most 15 data members, those of its bases counted, and 40 functions; the functions
// that are defined outside of it stand in one source. It names no friend class. A settings struct
// may have more members, as a caller fills it in: it has no functions, and stands in a public
// header or among messages, or is called ...Options.
#include <map>

#include "tests/house/rules.hpp"
#include "tests/house/scan.hpp"

namespace troupe {
namespace {

constexpr int kMembersMax = 15, kFunctionsMax = 40;

// Programs to compare with are written as others would write them.
bool is_looked_at(const std::string& path) {
  return is_code(path) && !path.ends_with(".proto") && !path.starts_with("bench/onednn/") &&
         !path.starts_with("bench/peers/");
}

bool is_filled_in(const std::string& path, const ScannedClass& c) {
  return c.plain &&
         (is_public_header(path) || path.ends_with("messages.hpp") || c.name.ends_with("Options"));
}

struct Place {
  const Source* file;
  const ScannedClass* c;
};
using Classes = std::multimap<std::string, Place>;

// The class `name` as the code of `path` means it: its own, else one of a header; null: none.
const Place* find(const Classes& classes, const std::string& name, const std::string& path) {
  const Place* best = nullptr;
  const auto [begin, end] = classes.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (it->second.file->path == path) return &it->second;
    if (is_header(it->second.file->path)) best = &it->second;
  }
  return best;
}

int members_of(const Classes& classes, const Place& place, int depth = 0) {
  int n = place.c->data;
  for (const std::string& base : place.c->bases) {
    const Place* found = find(classes, base, place.file->path);
    if (found && found->c != place.c && depth < 8) n += members_of(classes, *found, depth + 1);
  }
  return n;
}

Violation finding(const Place& place, const std::string& what, int size) {
  return {place.file->path, place.c->line, place.c->name + " " + what,
          place.file->path + " " + place.c->name, size};
}

}  // namespace

ClassFindings check_classes(const std::vector<Source>& tree) {
  std::vector<std::pair<const Source*, Scan>> scans;
  for (const Source& file : tree)
    if (is_looked_at(file.path)) scans.emplace_back(&file, scan(file));
  Classes classes;
  for (const auto& [file, scan] : scans)
    for (const ScannedClass& c : scan.classes) classes.emplace(c.name, Place{file, &c});

  ClassFindings found;
  for (const auto& [name, place] : classes) {
    const int members = members_of(classes, place);
    if (members > kMembersMax && !is_filled_in(place.file->path, *place.c))
      found.members.push_back(
          finding(place, "has " + std::to_string(members) + " data members, with bases; at most 15",
                  members));
    if (place.c->functions > kFunctionsMax)
      found.functions.push_back(
          finding(place, "has " + std::to_string(place.c->functions) + " functions; at most 40",
                  place.c->functions));
    if (place.c->friends > 0)
      found.friends.push_back(finding(place, "has a friend", place.c->friends));
  }

  std::map<const ScannedClass*, std::pair<Place, std::vector<std::string>>> sources;
  for (const auto& [file, scan] : scans) {
    if (is_header(file->path)) continue;
    for (const std::string& name : scan.defines)
      if (const Place* place = find(classes, name, file->path)) {
        sources[place->c].first = *place;
        sources[place->c].second.push_back(file->path);
      }
  }
  for (const auto& [c, list] : sources) {
    const int n = static_cast<int>(list.second.size());
    std::string names;
    for (const std::string& path : list.second) names += " " + path;
    if (n > 1)
      found.sliced.push_back(finding(list.first, "is defined in several sources:" + names, n));
  }
  return found;
}

std::vector<Violation> check_statics(const Source& file) {
  std::vector<Violation> found;
  const std::string top = top_of(file.path);
  if (!is_looked_at(file.path) || top == "tests" || top == "bench") return found;
  for (const ScannedVariable& v : scan(file).mutables)
    found.push_back({file.path, v.line,
                     v.name +
                         " lives as long as the process or a thread, and can change; state has "
                         "an owner",
                     file.path + " " + v.name});
  return found;
}

}  // namespace troupe
