// Sends graphs, parts, receivers and kernel replacements to the workers of other processes.
#include "actors/master/remote_parts.hpp"

#include "actors/async/ask.hpp"
#include "net/wire/graph_proto.hpp"

namespace troupe {
namespace {

std::pair<std::string, uint64_t> life_of(const Members::Present& member) {
  return {member.member.name(), member.member.incarnation};
}

InstallParts parts_of(const ExecutableState& executable) {
  InstallParts m;
  m.executable = executable.executable;
  m.call = executable.call;
  m.fetches = executable.fetches;
  m.feeds = executable.feeds;
  std::map<std::string, int32_t> index;
  for (const auto& [node, device] : executable.placement) {
    auto [it, fresh] = index.try_emplace(device, static_cast<int32_t>(m.devices.size()));
    if (fresh) m.devices.push_back(device);
    m.placed_nodes.push_back(node);
    m.placement.push_back(it->second);
  }
  return m;
}

RemoteParts::Receivers receivers_of(const PartsInstalled& m) {
  RemoteParts::Receivers out;
  for (size_t i = 0; i < m.edges.size(); ++i) out[m.edges[i]] = m.actors.at(i);
  return out;
}

}  // namespace

// The graph's bytes, or empty if that process has them.
std::string RemoteParts::not_sent_yet(const Members::Present& member, int64_t call, int64_t version,
                                      const Graph& graph) {
  std::lock_guard lock(mutex_);
  const auto life = life_of(member);
  std::erase_if(sent_, [&](const auto& entry) {  // earlier lives of the process
    return entry.first.first == life.first && entry.first.second < life.second;
  });
  int64_t& sent = sent_[life][call];
  if (sent == version) return {};
  std::string bytes = graph_to_proto(graph);
  sent = version;
  return bytes;
}

void RemoteParts::install(const Members::Present& member, const ExecutableState& executable,
                          const Graph& graph, int64_t version, const std::string& client_device,
                          Done done) {
  InstallParts parts = parts_of(executable);
  parts.session = session_;
  parts.version = version;
  parts.client_device = client_device;
  const auto failed = [this, life = life_of(member), call = executable.call, done](
                          Errc code, const std::string& text) {
    {
      std::lock_guard lock(mutex_);
      sent_[life].erase(call);  // the graph may not have arrived; a worker ignores one that it has
    }
    done(code, text, {});
  };
  const auto send_parts = [this, member, parts = std::move(parts), done, failed] {
    std::map<std::string, std::string> replaced;
    {
      std::lock_guard lock(mutex_);
      replaced = replaced_;
    }
    // These arrive before the parts. If a kernel does not fit there, the parts run the original
    // ones.
    for (const auto& [node, op] : replaced)
      become(member, node, op, [](Errc, const std::string&, const Became&) {});
    ask<PartsInstalled>(
        asker_, member.agent, kAgentTimeout, parts,
        [done, failed](Errc code, const std::string& text, const PartsInstalled& m) {
          if (code == Errc::ok)
            done(code, text, receivers_of(m));
          else
            failed(code, text);
        });
  };
  InstallGraph whole{session_, executable.call, version,
                     not_sent_yet(member, executable.call, version, graph)};
  if (whole.bytes.empty()) {
    send_parts();
    return;
  }
  ask<caf::unit_t>(asker_, member.agent, kAgentTimeout, std::move(whole),
                   [send_parts, failed](Errc code, const std::string& text, const caf::unit_t&) {
                     if (code == Errc::ok)
                       send_parts();
                     else
                       failed(code, text);
                   });
}

void RemoteParts::remember(const std::string& node, const std::string& op) {
  std::lock_guard lock(mutex_);
  replaced_[node] = op;
}

void RemoteParts::become(const Members::Present& member, const std::string& node,
                         const std::string& op, Replaced done) {
  ask<Became>(asker_, member.agent, kAgentTimeout, Become{session_, node, op}, std::move(done));
}

void RemoteParts::connect(const Members::Present& member, const ExecutableState& executable,
                          Done done) {
  ConnectParts m;
  m.session = session_;
  m.executable = executable.executable;
  for (const ExecutableEdge& edge : executable.edges) {
    if (edge.source_task != member.member.name()) continue;
    m.edges.push_back(edge.edge);
    m.tasks.push_back(edge.destination_task);
    m.actors.push_back(executable.receivers.at(edge.edge));
  }
  ask<caf::unit_t>(asker_, member.agent, kAgentTimeout, std::move(m),
                   [done = std::move(done)](Errc code, const std::string& text,
                                            const caf::unit_t&) { done(code, text, {}); });
}

void RemoteParts::uninstall(const Members::Present& member, int64_t executable, Counted done) {
  ask<EdgeCounts>(asker_, member.agent, kAgentTimeout, Uninstall{session_, executable},
                  std::move(done));
}

}  // namespace troupe
