// Reads and writes the names of processes in certificates.
#include "net/certificates/certified_name.hpp"

#include <charconv>

#include "net/certificates/openssl.hpp"
#include "net/wire/address.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr std::string_view kScheme = "troupe://";

// Removes `begin` from the front of `text`.
bool eat(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

// Removes a good name, which ends at `end` or with the text; empty if there is none.
std::string eat_name(std::string_view& text, char end) {
  const std::string_view name = text.substr(0, text.find(end));
  if (!is_good_name(name)) return "";
  text.remove_prefix(name.size());
  return std::string(name);
}

// A task number or *, to the end of the text.
std::optional<int32_t> task_in(std::string_view text) {
  if (text == "*") return kAnyTask;
  int32_t out = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0) return std::nullopt;
  return out;
}

std::optional<CertifiedName> from_uri(std::string_view text) {
  CertifiedName out;
  if (!eat(text, kScheme) || (out.cluster = eat_name(text, '/')).empty()) return std::nullopt;
  if (text == "/authority") return out;
  if (eat(text, "/program/")) {
    out.job = kProgramJob;
    out.program = eat_name(text, '/');
    return out.program.empty() || !text.empty() ? std::nullopt : std::optional(out);
  }
  if (!eat(text, "/job/") || (out.job = eat_name(text, '/')).empty() || !eat(text, "/task/"))
    return std::nullopt;
  const auto task = task_in(text);
  if (!task) return std::nullopt;
  out.task = *task;
  return out;
}

}  // namespace

CertifiedName CertifiedName::parse(const std::string& cluster, const std::string& text) {
  CertifiedName out{cluster, "", kAnyTask, ""};
  std::string_view rest = text;
  if (is_good_name(text) && text != "." && text != "..") {  // it names a folder, too
    out.job = kProgramJob;
    out.program = text;
    return out;
  }
  if (eat(rest, "/job:") && !(out.job = eat_name(rest, '/')).empty()) {
    if (rest == "/*") return out;
    const auto task = eat(rest, "/task:") ? task_in(rest) : std::nullopt;
    if (task) {
      out.task = *task;
      return out;
    }
  }
  throw Error(Errc::invalid_argument, "\"", text,
              "\" is no name for a certificate; write /job:worker/task:3, /job:worker/* for all "
              "tasks of a job, or the name of a program: 1 to ",
              kNameMax, " letters, digits, _ - and .");
}

std::optional<CertifiedName> CertifiedName::of(const X509* certificate) {
  const Owned<GENERAL_NAMES, GENERAL_NAMES_free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<CertifiedName> out;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<size_t>(ASN1_STRING_length(uri)));
    if (!text.starts_with(kScheme)) continue;
    if (out) return std::nullopt;
    out = from_uri(text);
    if (!out) return std::nullopt;
  }
  return out;
}

std::string CertifiedName::uri() const {
  const std::string begin = detail::concat(kScheme, cluster);
  if (is_authority()) return begin + "/authority";
  if (!program.empty()) return begin + "/program/" + program;
  return detail::concat(begin, "/job/", job, "/task/", task == kAnyTask ? "*" : "",
                        task == kAnyTask ? "" : std::to_string(task));
}

std::string CertifiedName::words() const {
  const std::string end = detail::concat(" of cluster \"", cluster, "\"");
  if (is_authority()) return "the authority" + end;
  if (!program.empty()) return detail::concat("the program ", program, end);
  if (task == kAnyTask) return detail::concat("/job:", job, "/*", end);
  return detail::concat("/job:", job, "/task:", task, end);
}

}  // namespace troupe
