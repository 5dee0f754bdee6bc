// CertifiedName: the name that a certificate gives to a process, as a URI among its alternative
// names:
//
//   troupe://CLUSTER/job/worker/task/3    /job:worker/task:3
//   troupe://CLUSTER/job/worker/task/*    any task of the job
//   troupe://CLUSTER/program/NAME         a program: any task of the job client
//   troupe://CLUSTER/authority            no process: it signs the others
//
// Owner: the code that builds it. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct x509_st;  // OpenSSL's X509

namespace troupe {

inline constexpr int32_t kAnyTask = -1;
inline constexpr const char* kProgramJob = "client";  // programs draw the numbers of their tasks

struct CertifiedName {
  std::string cluster;
  std::string job;          // empty: an authority
  int32_t task = kAnyTask;  // or any
  std::string program;      // empty: the name is a job's

  // Reads "/job:worker/task:3", "/job:worker/*" or the name of a program. Throws:
  // Error(invalid_argument).
  static CertifiedName parse(const std::string& cluster, const std::string& text);
  static CertifiedName authority(const std::string& cluster) { return {cluster, "", kAnyTask, ""}; }
  // The name in a certificate; nothing if it has none, or several.
  static std::optional<CertifiedName> of(const x509_st* certificate);

  bool is_authority() const { return job.empty(); }
  bool covers(std::string_view of_cluster, std::string_view of_job, int32_t of_task) const {
    return cluster == of_cluster && job == of_job && (task == kAnyTask || task == of_task);
  }
  std::string uri() const;
  std::string words() const;  // `/job:worker/* of cluster "troupe"`
  friend bool operator==(const CertifiedName&, const CertifiedName&) = default;
};

}  // namespace troupe
