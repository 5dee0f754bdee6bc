// Writes the text of a process's own ops and compares two such texts.
#include "net/wire/own_ops.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

#include "troupe/source.hpp"

namespace troupe {
namespace {

constexpr size_t kNamesSaid = 3;
constexpr size_t kNameSaid = 24;  // characters of one name: a refusal has room for 239 in all

uint64_t hash_of(const Op& op) {
  Registry alone;
  alone.add(op);
  return alone.fingerprint();
}

struct OwnOps {
  std::map<std::string, std::string> hashes;  // by name
  bool whole = true;
};

OwnOps parse(const std::string& text) {
  OwnOps out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t colon = word.find(':');
    if (colon == word.npos)
      out.whole = false;
    else
      out.hashes[word.substr(0, colon)] = word.substr(colon + 1);
  }
  return out;
}

// The ops of `some` that are not among `others`, although that list would show them.
std::vector<std::string> missing(const OwnOps& some, const OwnOps& others) {
  std::vector<std::string> out;
  for (const auto& [name, hash] : some.hashes) {
    const bool listed =
        others.whole || (!others.hashes.empty() && name < others.hashes.rbegin()->first);
    if (!others.hashes.count(name) && listed) out.push_back(name);
  }
  return out;
}

std::string said(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kNamesSaid); ++i)
    out += (i ? ", " : "") + names[i].substr(0, kNameSaid) +
           (names[i].size() > kNameSaid ? "..." : "");
  if (names.size() > kNamesSaid) out += detail::concat(" and ", names.size() - kNamesSaid, " more");
  return out;
}

}  // namespace

std::string own_ops(const Registry& registry) {
  std::map<std::string, uint64_t> own;  // hashes, by name
  for (const Op* op : registry.all()) {
    const Op* built_in = op->built_in && op->built_in->name == op->name ? op->built_in : nullptr;
    if (op == built_in) continue;
    const uint64_t hash = hash_of(*op);
    if (!built_in || hash_of(*built_in) != hash) own[op->name] = hash;
  }
  for (const SourceFunction* function : registry.functions()) own[function->name + "()"] = 0;
  std::string out;
  for (const auto& [name, hash] : own) {
    char hex[16];
    std::snprintf(hex, sizeof hex, "%08x", static_cast<unsigned>(hash ^ (hash >> 32)));
    const std::string word = (out.empty() ? "" : " ") + name + ":" + hex;
    if (out.size() + word.size() + 2 > kOwnOpsMax) return out + (out.empty() ? "+" : " +");
    out += word;
  }
  return out;
}

std::string ops_difference(const std::string& mine, const std::string& my_name,
                           const std::string& theirs, const std::string& their_name) {
  const OwnOps here = parse(mine), there = parse(theirs);
  if (const auto names = missing(here, there); !names.empty())
    return "only " + my_name + " has " + said(names);
  if (const auto names = missing(there, here); !names.empty())
    return "only " + their_name + " has " + said(names);
  std::vector<std::string> other;
  for (const auto& [name, hash] : here.hashes)
    if (const auto it = there.hashes.find(name); it != there.hashes.end() && it->second != hash)
      other.push_back(name);
  return other.empty() ? "" : "each has another " + said(other);
}

}  // namespace troupe
