// Finds the nodes of a tower that read sources, and compares texts.
#include "training/loop/sources.hpp"

#include <algorithm>

#include "data/source/spec.hpp"
#include "graph/base/fnv.hpp"
#include "graph/op_properties.hpp"
#include "graph/prune.hpp"

namespace troupe {
namespace {

constexpr size_t kTextMax = 64 << 10;  // of a source in a manifest, which has a limit of its own
constexpr size_t kBefore = 40, kShown = 120;  // characters of a text, around a difference

std::string excerpt(const std::string& text, size_t at) {
  const size_t begin = at > kBefore ? at - kBefore : 0;
  return detail::concat(begin > 0 ? "..." : "", text.substr(begin, kShown),
                        begin + kShown < text.size() ? "..." : "");
}

std::string joined(const std::vector<std::string>& sources) {
  std::string out;
  for (const std::string& source : sources) out += (out.empty() ? "" : ", and ") + source;
  return out.empty() ? "none" : out;
}

std::string text_of(const Node& node, const InputUse& use) {
  std::string text =
      detail::concat(use.replicas(node), use.replicas(node) == 1 ? " replica: " : " replicas: ",
                     spec_to_text(*plan_source(spec_from_text(use.source(node))).stages));
  if (text.size() > kTextMax)
    text = detail::concat(text.substr(0, kTextMax), "... of ", text.size(), " bytes, hash ",
                          fnv1a64(text));
  return text;
}

}  // namespace

SourceUse sources_of(const std::vector<const Tower*>& towers) {
  SourceUse out;
  for (const Tower* tower : towers) {
    const Graph& graph = *tower->loss.graph;
    for (const int32_t id : prune(graph, {tower->loss, tower->update}, tower->feeds)) {
      const Node& node = graph.node(id);
      const InputUse& use = properties_of(node).input;
      if (!use.source) continue;
      out.ends |= use.ends(node);
      std::string text = text_of(node, use);
      if (std::find(out.texts.begin(), out.texts.end(), text) == out.texts.end())
        out.texts.push_back(std::move(text));
    }
  }
  return out;
}

std::string source_change(const std::vector<std::string>& before,
                          const std::vector<std::string>& now) {
  const std::string old_text = joined(before), new_text = joined(now);
  if (before.empty() || old_text == new_text) return "";
  const auto differs = static_cast<size_t>(
      std::mismatch(old_text.begin(), old_text.end(), new_text.begin(), new_text.end()).first -
      old_text.begin());
  return detail::concat("the checkpoint was trained on another source, ",
                        excerpt(old_text, differs), ", than this one, ", excerpt(new_text, differs),
                        "; training goes on at the same step of the new one. If that is not meant, "
                        "give it the old one, or begin anew in another folder");
}

}  // namespace troupe
