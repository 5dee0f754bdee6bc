// Cluster specs of include/troupe/cluster.hpp: parses, checks and prints them.
#include "troupe/cluster.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "net/wire/address.hpp"

namespace troupe {
namespace {

constexpr std::array<std::string_view, 5> kJobs = {"ps", "worker", "chief", "evaluator", "client"};
constexpr size_t kSpecBytesMax = 1 << 20;
constexpr int kTasksMax = 1024;  // of a job; the number that a mesh can hold

bool is_job(std::string_view job) {
  return std::find(kJobs.begin(), kJobs.end(), job) != kJobs.end();
}

std::string no_job(std::string_view job) {
  return detail::concat("\"", job,
                        "\" is no job; the jobs are ps, worker, chief, evaluator and client",
                        job == "workers" ? "; did you mean \"worker\"?" : "");
}

std::string_view trim(std::string_view s) {
  const auto first = s.find_first_not_of(" \t\r");
  if (first == s.npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

// Reads one spec; `name` is the source that error texts name, with the line.
class SpecReader {
 public:
  explicit SpecReader(std::string name) : name_(std::move(name)) {}

  ClusterSpec read(std::string_view text) {
    if (text.size() > kSpecBytesMax)
      throw error("is larger than ", kSpecBytesMax, " bytes; is it a cluster spec?");
    while (!text.empty()) {
      ++line_;
      const size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == text.npos ? std::string_view() : text.substr(end + 1);
      line = trim(line.substr(0, line.find('#')));
      if (!line.empty()) read_line(line);
    }
    return finish();
  }

 private:
  struct Task {
    std::string address;
    int line = 0;
  };

  template <class... Parts>
  Error error(const Parts&... parts) const {
    return Error(Errc::bad_configuration, name_,
                 line_ ? ":" + std::to_string(line_) : std::string(), ": ",
                 detail::concat(parts...));
  }

  void read_line(std::string_view line) {
    const size_t equals = line.find('=');
    if (equals == line.npos)
      throw error("\"", line, "\" has no '='; write  job = host:port, host:port");
    std::string_view job = trim(line.substr(0, equals));
    const std::string_view value = trim(line.substr(equals + 1));
    int index = -1;
    if (const size_t slash = job.find('/'); slash != job.npos) {
      const std::string_view digits = job.substr(slash + 1);
      const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
      if (digits.empty() || bad != std::errc() || end != digits.data() + digits.size() ||
          index < 0 || index >= kTasksMax)
        throw error("\"", digits, "\" is no task number; write a number from 0 to ", kTasksMax - 1);
      job = job.substr(0, slash);
    }
    if (!is_job(job)) throw error(no_job(job));
    auto& tasks = jobs_[std::string(job)];
    if (index < 0) {
      if (!tasks.empty())
        throw error("job ", job, " was given before, at line ", tasks.begin()->second.line);
      if (value.empty())
        throw error("job ", job, " has no tasks; give it addresses or leave the line out");
      int task = 0;
      for (size_t at = 0; at <= value.size();) {
        const size_t comma = std::min(value.find(',', at), value.size());
        add(tasks, std::string(job), task++, trim(value.substr(at, comma - at)));
        at = comma + 1;
      }
    } else {
      if (value.find(',') != value.npos)
        throw error("task ", index, " of job ", job, " has more than one address");
      add(tasks, std::string(job), index, value);
    }
  }

  void add(std::map<int, Task>& tasks, const std::string& job, int index,
           std::string_view address) {
    const std::string name = detail::concat("/job:", job, "/task:", index);
    if (index >= kTasksMax) throw error("job ", job, " has more than ", kTasksMax, " tasks");
    if (address.empty()) throw error(name, " has no address; is there a comma too many?");
    HostPort where;
    try {
      where = parse_address(address);
    } catch (const Error& e) {  // rethrown with the line number
      throw error(name, ": ", e.what());
    }
    if (where.port == 0)
      throw error(name, ": port 0 cannot be dialled; give the port it listens on");
    if (const auto it = tasks.find(index); it != tasks.end())
      throw error(name, " was given before, at line ", it->second.line);
    const std::string key = format_address(where.host, where.port);
    if (const auto [it, fresh] = owners_.emplace(key, std::pair{name, line_}); !fresh)
      throw error(name, " has the address ", key, ", which ", it->second.first, " has, too (line ",
                  it->second.second, "); every task wants its own");
    tasks[index] = {key, line_};
  }

  ClusterSpec finish() {
    ClusterSpec spec;
    spec.origin = name_;
    for (const auto& [job, tasks] : jobs_) {
      auto& out = spec.jobs[job];
      for (const auto& [index, task] : tasks) {
        line_ = task.line;
        if (index != static_cast<int>(out.size()))
          throw error("task ", out.size(), " of job ", job,
                      " is missing; tasks are numbered from 0 without a gap");
        out.push_back(task.address);
      }
    }
    line_ = 0;
    if (!spec.jobs.count("worker"))
      throw error("there is no worker; add a line  worker = host:port");
    return spec;
  }

  const std::string name_;
  int line_ = 0;
  std::map<std::string, std::map<int, Task>> jobs_;
  std::map<std::string, std::pair<std::string, int>> owners_;  // by address: task, line
};

}  // namespace

std::vector<std::string> ClusterSpec::tasks() const {
  std::vector<std::string> out;
  for (const auto& [job, list] : jobs)
    for (size_t i = 0; i < list.size(); ++i)
      out.push_back(detail::concat("/job:", job, "/task:", i));
  return out;
}

std::vector<std::string> ClusterSpec::addresses() const {
  std::vector<std::string> out;
  for (const auto& [job, list] : jobs) out.insert(out.end(), list.begin(), list.end());
  return out;
}

const std::string& ClusterSpec::address(const std::string& job, int task) const {
  const auto it = jobs.find(job);
  if (it == jobs.end() || task < 0 || task >= static_cast<int>(it->second.size())) {
    std::string known;
    for (const std::string& name : tasks()) known += (known.empty() ? "" : ", ") + name;
    throw Error(Errc::bad_configuration, origin, " has no /job:", job, "/task:", task, "; it has ",
                known);
  }
  return it->second[static_cast<size_t>(task)];
}

ClusterSpec parse_cluster_spec(const std::string& text, const std::string& name) {
  return SpecReader(name).read(text);
}

void check_job(const std::string& job) {
  if (!is_job(job)) throw Error(Errc::bad_configuration, no_job(job));
}

bool is_cluster_name(const std::string& name) { return is_good_name(name); }

ClusterSpec read_cluster_spec(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Errc::io, "cannot read the cluster spec ", path, ": ", std::strerror(errno));
  std::string text(kSpecBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad())
    throw Error(Errc::io, "cannot read the cluster spec ", path, ": ", std::strerror(errno));
  text.resize(static_cast<size_t>(in.gcount()));
  return parse_cluster_spec(text, path);
}

ClusterSpec local_cluster_spec(int ps, int workers, int first_port) {
  ClusterSpec spec;
  spec.origin = detail::concat("--ps ", ps, " --workers ", workers);
  if (workers < 1)
    throw Error(Errc::bad_configuration, spec.origin,
                ": a cluster wants at least one worker; say --workers 1");
  if (ps < 0 || ps > kTasksMax || workers > kTasksMax)
    throw Error(Errc::bad_configuration, spec.origin, ": a job has from 0 to ", kTasksMax,
                " tasks");
  const int last_first = 65536 - ps - workers;
  if (first_port < 0 || first_port > last_first)
    throw Error(Errc::bad_configuration, spec.origin, " --first-port ", first_port,
                ": the first port is from 1 to ", last_first, ", or 0 for any free ones");
  int port = first_port;
  const auto next = [&] {
    return format_address("127.0.0.1", static_cast<uint16_t>(first_port ? port++ : 0));
  };
  for (int i = 0; i < ps; ++i) spec.jobs["ps"].push_back(next());
  for (int i = 0; i < workers; ++i) spec.jobs["worker"].push_back(next());
  return spec;
}

std::string to_string(const ClusterSpec& spec) {
  std::ostringstream out;
  out << "# from " << spec.origin << "\n";
  for (const auto& [job, list] : spec.jobs) {
    out << job << " = ";
    for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
    out << "\n";
  }
  return out.str();
}

}  // namespace troupe
