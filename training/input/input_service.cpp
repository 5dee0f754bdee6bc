// The actor `input`, and the actors of the sources that it owns.
#include "training/input/input_service.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "actors/async/guard.hpp"
#include "data/source/source_steps.hpp"
#include "troupe/op.hpp"

namespace troupe {

InputReply::~InputReply() {
  give(Errc::peer_lost, "the actor that reads the source has ended; it is made anew", {});
}

void InputReply::give(Errc code, std::string text, std::vector<Tensor> record) {
  if (const InputPort::Reply reply = std::exchange(reply_, nullptr))
    reply(code, std::move(text), std::move(record));
}

std::string source_name(const SourceSpec& spec) {
  std::string name = spec.name;
  if (spec.stage != "read") return spec.of.empty() ? spec.stage : source_name(*spec.of[0]);
  for (const auto& [key, arg] : spec.args)
    if (const auto* text = std::get_if<std::string>(&arg)) return name + " " + *text;
  for (const auto& [key, arg] : spec.args)  // then a list, as it may be one of classes
    if (const auto* list = std::get_if<std::vector<std::string>>(&arg); list && !list->empty())
      return name + " " + list->front();
  return name;
}

void add_input_messages(caf::actor_system_config& config) {
  config.add_message_type<AskMoved>("AskMoved").add_message_type<SourceMoved>("SourceMoved");
}

void Readers::add(uint64_t session, std::shared_ptr<StepReader> reader, std::string name) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.reader->ended(); });
  entries_.push_back({session, std::move(reader), std::move(name)});
}

std::vector<Readers::Entry> Readers::entries() const {
  std::lock_guard lock(mutex_);
  return entries_;
}

std::string Readers::waiting() const {
  std::string out;
  for (const auto& [session, reader, name] : entries())
    if (reader->waits())
      out += detail::concat(out.empty() ? "" : "; ", "the source ", name, " ", reader->doing());
  return out;
}

SourceMoved Readers::moved(uint64_t session) const {
  SourceMoved out;
  const auto now = std::chrono::steady_clock::now();
  for (const Entry& entry : entries()) {
    if (entry.session != session || !entry.reader->waits()) continue;
    const auto since =
        std::chrono::duration_cast<std::chrono::milliseconds>(now - entry.reader->moved()).count();
    out.ms = out.ms < 0 ? std::max<int64_t>(since, 0) : std::clamp<int64_t>(since, 0, out.ms);
  }
  return out;
}

namespace {

// One source for one replica of a session.
struct SourceState {
  ~SourceState() {
    if (reader) reader->stop();  // Readers waits for its threads: this is a lane
  }
  const char* name = "source actor";
  std::shared_ptr<StepReader> reader;
};

// The text may be long, so keys hold it by reference, and differ in their numbers first.
struct SourceKey {
  uint64_t session;
  int64_t replica, replicas;
  std::shared_ptr<const std::string> source, seen;
  bool operator<(const SourceKey& other) const {
    return std::tie(session, replica, replicas, *source, *seen) <
           std::tie(other.session, other.replica, other.replicas, *other.source, *other.seen);
  }
};

SourceActor::behavior_type run_source(SourceActor::stateful_pointer<SourceState> self,
                                      std::shared_ptr<StepReader> reader) {
  self->set_exception_handler(to_error);
  self->state.reader = std::move(reader);
  return {[self](const ReadStep& m) {
    self->state.reader->read(m.request.step,
                             [reply = m.reply](Errc code, const std::string& text, Record record) {
                               reply->give(code, text, std::move(record));
                             });
  }};
}

struct InputState {
  const char* name = "input";
  std::map<SourceKey, SourceActor> sources;
  // By session and texts, of sources that are read.
  std::map<std::tuple<uint64_t, std::string, std::string>, std::weak_ptr<SharedStages>> stages;
};

std::shared_ptr<SharedStages> stages_of(InputState& state, const SourceKey& key,
                                        const std::shared_ptr<const Registry>& ops,
                                        const std::shared_ptr<const Files>& files) {
  std::erase_if(state.stages, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<SharedStages>& known = state.stages[{key.session, *key.source, *key.seen}];
  std::shared_ptr<SharedStages> stages = known.lock();
  if (!stages)
    known = stages = std::make_shared<SharedStages>(
        plan_source(with_seen(spec_from_text(*key.source), *key.seen)), functions_of(ops), files);
  return stages;
}

// The actors of sources are linked to `input`, so they end with it, however it ends.
InputService::behavior_type run_input(InputService::stateful_pointer<InputState> self,
                                      Process* process, std::shared_ptr<Readers> readers,
                                      std::shared_ptr<const Files> files) {
  self->set_exception_handler(to_error);
  self->set_exit_handler([self, process](const caf::exit_msg& m) {
    const auto ended =
        std::find_if(self->state.sources.begin(), self->state.sources.end(),
                     [&](const auto& source) { return source.second.address() == m.source; });
    if (ended == self->state.sources.end()) {
      self->quit(m.reason);
      return;
    }
    if (m.reason != caf::exit_reason::user_shutdown)
      process->log()->warn("a source died and is made anew: source={} replica={} reason={}",
                           source_name(*spec_from_text(*ended->first.source)), ended->first.replica,
                           from_caf(m.reason).second);
    self->state.sources.erase(ended);
  });
  return {[self, process, readers, files](const ReadStep& m) {
            const InputRequest& r = m.request;
            SourceKey key{m.session, r.replica, r.replicas, r.source, r.seen};
            auto known = self->state.sources.find(key);
            if (known == self->state.sources.end()) try {
                key.source = std::make_shared<const std::string>(*r.source);  // not of this step
                key.seen = std::make_shared<const std::string>(*r.seen);
                auto reader =
                    std::make_shared<StepReader>(stages_of(self->state, key, process->ops(), files),
                                                 r.replica, r.replicas, process->simulated());
                readers->add(key.session, reader, source_name(*spec_from_text(*key.source)));
                const SourceActor source = self->spawn<caf::linked>(run_source, std::move(reader));
                process->track(source);
                known = self->state.sources.emplace(std::move(key), source).first;
              } catch (const std::exception& e) {
                const auto [code, text] = from_caf(error_of(e));
                m.reply->give(code, text, {});
                return;
              }
            self->send(known->second, m);
          },
          [self](const ForgetSources& m) {
            for (const auto& [key, source] : self->state.sources)
              if (key.session == m.session)
                self->send_exit(source, caf::exit_reason::user_shutdown);
          },
          [readers](const AskMoved& m) { return readers->moved(m.session); }};
}

}  // namespace

void SessionInput::read(const InputRequest& request, Reply reply) {
  inputs_.read({session_, request, std::make_shared<InputReply>(std::move(reply))});
}

Inputs::Inputs(Process& process)
    : process_(process),
      files_(files_under(process.data_dirs())),
      readers_(std::make_shared<Readers>()) {}

InputPort* Inputs::port(uint64_t session) {
  std::lock_guard lock(mutex_);
  Port& port = ports_[session];
  if (!port.input) port.input = std::make_unique<SessionInput>(*this, session);
  return port.input.get();
}

// Sends under the lock, so that no request comes behind the message that forgets its session.
void Inputs::read(ReadStep step) {
  const std::shared_ptr<InputReply> reply = step.reply;
  const char* refused = nullptr;
  {
    std::lock_guard lock(mutex_);
    const bool lives = service_ && !caf::actor_cast<caf::monitorable_actor*>(service_)->getf(
                                       caf::abstract_actor::is_terminated_flag);
    if (stopped_) {
      refused = "the process is ending";
    } else if (ports_[step.session].ended) {
      refused = "the session has ended";
    } else {
      if (!lives) {
        service_ = process_.system().spawn(run_input, &process_, readers_, files_);
        process_.track(service_);
      }
      caf::anon_send(service_, std::move(step));
    }
  }
  if (refused) reply->give(Errc::cancelled, refused, {});
}

void Inputs::forget(uint64_t session) {
  std::lock_guard lock(mutex_);
  if (const auto port = ports_.find(session); port != ports_.end()) port->second.ended = true;
  if (service_) caf::anon_send(service_, ForgetSources{session});
}

void Inputs::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  if (service_) caf::anon_send_exit(service_, caf::exit_reason::user_shutdown);
  service_ = nullptr;
}

caf::actor Inputs::actor() const {
  std::lock_guard lock(mutex_);
  return caf::actor_cast<caf::actor>(service_);
}

}  // namespace troupe
