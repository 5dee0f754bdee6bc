// CLI11 splits the words and writes --help; numbers are read here, as CLI11
// takes 010 for 8.
#include "apps/flags.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <sstream>

#include "troupe/error.hpp"

namespace {

using troupe::Errc;
using troupe::Error;

constexpr size_t kNameColumns = 28, kTextColumns = 52;  // of --help

struct Layout final : CLI::Formatter {
  Layout() { column_width(kNameColumns); }
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
};

// The words of `text` in lines of at most kTextColumns.
std::string in_lines(const std::string& text) {
  std::istringstream in(text);
  std::string out, word;
  for (size_t column = 0; in >> word; column += word.size() + 1) {
    const bool full = column + word.size() > kTextColumns;
    if (!out.empty()) out += full ? '\n' : ' ';
    if (full) column = 0;
    out += word;
  }
  return out;
}

template <class T>
constexpr const char* kTypeName = std::is_floating_point_v<T> ? "X" : "N";
template <>
constexpr const char* kTypeName<std::string> = "TEXT";

void read(const std::string&, const std::string& text, std::string& to) { to = text; }
template <class T>
void read(const std::string& name, const std::string& text, T& to) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, to);
  if (error == std::errc() && at == end) return;
  const std::string what =
      std::is_floating_point_v<T> ? "a number"
      : error == std::errc::result_out_of_range
          ? troupe::detail::concat("a whole number from ", std::numeric_limits<T>::min(), " to ",
                                   std::numeric_limits<T>::max())
          : "a whole number";
  throw Error(Errc::invalid_argument, name, " wants ", what, ", got \"", text, "\"");
}

template <class T>
std::string written(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// `read` takes the values that were given.
template <class Read>
CLI::Option* bound(CLI::App& app, const std::string& name, const Read& read) {
  return app.add_option(name, CLI::callback_t([read](const CLI::results_t& given) {
                          for (const std::string& text : given) read(text);
                          return true;
                        }));
}
CLI::Option* bound(CLI::App& app, const std::string& name, bool* to) {
  return app.add_flag(name, *to)->disable_flag_override();
}
template <class T>
CLI::Option* bound(CLI::App& app, const std::string& name, T* to) {
  return bound(app, name, [name, to](const std::string& text) { read(name, text, *to); })
      ->type_name(kTypeName<T>)
      ->default_str(written(*to));
}
template <class T>
CLI::Option* bound(CLI::App& app, const std::string& name, std::optional<T>* to) {
  return bound(app, name, [name, to](const std::string& text) { read(name, text, to->emplace()); })
      ->type_name(kTypeName<T>);
}
template <class T>
CLI::Option* bound(CLI::App& app, const std::string& name, std::vector<T>* to) {
  return bound(app, name,
               [name, to](const std::string& text) { read(name, text, to->emplace_back()); })
      ->type_name(kTypeName<T>)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

}  // namespace

Flags::Flags(std::string program, const std::string& summary)
    : program_(std::move(program)), app_(std::make_unique<CLI::App>(summary)) {
  app_->set_help_flag("--help", "print this");
  app_->formatter(std::make_shared<Layout>());
  app_->allow_extras();
}
Flags::~Flags() = default;

void Flags::add(const std::string& name, Target to, const std::string& text) {
  std::visit([&](auto* value) { bound(*app_, "--" + name, value)->description(in_lines(text)); },
             to);
}

void Flags::take_words() { takes_words_ = true; }
void Flags::end_at_word() { app_->prefix_command(); }

bool Flags::parse(std::vector<std::string> arguments) {
  const auto refuse = [this](const auto&... parts) {
    throw Error(Errc::invalid_argument, parts..., "; see ", program_, " --help");
  };
  for (const std::string& word : arguments) {  // CLI11 would take the next word for its value
    if (word == "--") break;
    if (word.ends_with('=') && app_->get_option_no_throw(word.substr(0, word.size() - 1)))
      refuse(word, " wants a value behind the sign");
  }
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    return false;
  } catch (const CLI::ParseError& e) {
    refuse(e.what());
  } catch (const Error& e) {
    refuse(e.what());
  }
  const std::vector<std::string> rest = app_->remaining();
  auto word = rest.begin();
  for (; word != rest.end() && *word != "--"; ++word) {
    if (is_option(*word)) refuse("there is no option ", *word);
    if (app_->get_prefix_command()) break;
    if (!takes_words_) refuse("it takes no argument, got ", *word);
    words.push_back(*word);
  }
  if (word != rest.end() && *word == "--") ++word;
  command.assign(word, rest.end());
  return true;
}
