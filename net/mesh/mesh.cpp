// The mesh as its process sees it.
#include "net/mesh/mesh.hpp"

#include "net/mesh/mesh_core.hpp"

namespace troupe {

void say_waiting(spdlog::logger& log, const std::string& missing, std::chrono::nanoseconds since) {
  log.warn("waiting for the cluster, start what is missing: missing={} seconds={}", missing,
           std::chrono::round<std::chrono::seconds>(since).count());
}

Mesh::Mesh(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng, Doors& doors,
           MeshOptions options)
    : core_(std::make_shared<Core>(system, transport, clock, rng, doors, std::move(options))) {}
Mesh::~Mesh() { stop(); }
std::string Mesh::start(const caf::actor& agent, MeshListener* listener) {
  return core_->start(agent, listener);
}
void Mesh::stop() { core_->stop(); }
std::vector<std::string> Mesh::waiting_for(const std::vector<std::string>& tasks) const {
  std::vector<std::string> out;
  for (const std::string& task : tasks)
    if (!core_->members().is_up(task)) out.push_back(task);
  return out;
}
std::vector<std::string> Mesh::heard_of() const { return core_->members().heard_of(); }
caf::strong_actor_ptr Mesh::proxy(const std::string& task, uint64_t actor_id) {
  return core_->members().proxy(task, actor_id);
}
std::map<std::string, PeerStats> Mesh::stats() const { return core_->members().stats(); }
int64_t Mesh::dropped() const { return core_->members().dropped(); }

}  // namespace troupe
