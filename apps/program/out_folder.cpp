// Claims the folder, writes its files, and says where checkpoints are when a signal comes.
#include "apps/program/out_folder.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "apps/program/write_aside.hpp"

using namespace troupe;

namespace {

// For the handler: what comes after the signal's name.
char stopped_text[4600];
bool stdout_is_terminal = false;

// A handler must not wait for a reader.
void write_if_room(const char* text) {
  pollfd room{STDOUT_FILENO, POLLOUT, 0};
  if (poll(&room, 1, 0) == 1) [[maybe_unused]]
    const ssize_t n = write(STDOUT_FILENO, text, std::strlen(text));
}

// A last line, and then what the signal would have done without us.
void on_stop(int number) {
  static volatile sig_atomic_t said = 0;
  if (!said) {
    said = 1;
    const char* const name = number == SIGINT   ? "\nstopped by SIGINT"
                             : number == SIGHUP ? "\nstopped by SIGHUP"
                                                : "\nstopped by SIGTERM";
    const int skipped = stdout_is_terminal ? 0 : 1;  // only there a line may have been begun
    write_if_room(name + skipped);
    write_if_room(stopped_text);
  }
  signal(number, SIG_DFL);
  ::kill(getpid(), number);
}

void say_when_stopped(const std::filesystem::path& out, bool resumes) {
  stdout_is_terminal = isatty(1) == 1;
  if (resumes)
    std::snprintf(stopped_text, sizeof stopped_text,
                  "; checkpoints, if there are any yet, are in %s; go on with the same command and "
                  "--resume\n",
                  out.c_str());
  else
    std::snprintf(stopped_text, sizeof stopped_text, "; begin again with the same command\n");
  struct sigaction action = {};
  action.sa_handler = on_stop;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, number);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

std::filesystem::path made(const std::string& folder) {
  const std::filesystem::path out = std::filesystem::absolute(folder).lexically_normal();
  std::filesystem::create_directories(out);
  return out;
}

}  // namespace

OutFolder::OutFolder(const std::string& folder, bool resumes)
    : path_(made(folder)), claim_(path_, "--out") {
  say_when_stopped(path_, resumes);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow: its writer gets an error
}

std::string write_extra(const std::filesystem::path& path, const std::string& text,
                        const LogSink& say) {
  const std::error_code error = write_aside(path, text);
  if (!error) return path.string();
  say(LogLevel::warn, detail::concat("warning: cannot write ", path.string(), ": ", error.message(),
                                     "; going on without it"));
  return "not written";
}
