#include "quarry/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <type_traits>

#include "quarry/base/numbers.h"
#include "quarry/version.h"

namespace quarry::command_line {
namespace {

template <typename T>
struct ValueKind {
  using Scalar = T;
  static constexpr bool kList = false;
};
template <typename T>
struct ValueKind<std::optional<T>> : ValueKind<T> {};
template <typename T>
struct ValueKind<std::vector<T>> {
  using Scalar = T;
  static constexpr bool kList = true;
};

template <typename T>
const char* NameOfType() {
  if constexpr (std::is_floating_point_v<T>) return "FLOAT";
  if constexpr (std::is_unsigned_v<T>) return "UINT";
  if constexpr (std::is_integral_v<T>) return "INT";
  return "TEXT";
}

/// Not by CLI11, which takes the nearest number for one that does not fit, and 010 for 8.
template <typename T>
Result<T> ReadScalar(const std::string& text) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text;
  } else {
    return ParseNumber<T>(text);
  }
}

template <typename T>
bool ReadValue(const CLI::results_t& texts, T* value) {
  using Kind = ValueKind<T>;
  T read{};
  for (const std::string& text : texts) {
    Result<typename Kind::Scalar> scalar = ReadScalar<typename Kind::Scalar>(text);
    if (!scalar.ok()) return false;
    if constexpr (Kind::kList) {
      read.push_back(*std::move(scalar));
    } else {
      read = *std::move(scalar);
    }
  }
  *value = std::move(read);
  return true;
}

/// The end of parsing at a flag of AddHelp.
struct AskedForHelp {
  std::string text;
};

}  // namespace

Option& Option::Required() {
  option_->required();
  description_->required = true;
  return *this;
}

Option& Option::Environment(const std::string& variable) {
  option_->envname(variable);
  description_->environment = variable;
  return *this;
}

Option& Option::Needs(const std::string& other) {
  option_->needs(other);
  return *this;
}

Option& Option::Excludes(const std::string& other) {
  option_->excludes(other);
  return *this;
}

Option& Option::SeparatedBy(char separator) {
  option_->delimiter(separator)->allow_extra_args(false);
  return *this;
}

Option& Option::Repeatable() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::Exactly(int count) {
  option_->expected(count);
  return *this;
}

Option& Option::OneOf(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  description_->choices = words;
  return *this;
}

Option& Option::Between(double low, double high) {
  option_->check([=](const std::string& text) {
    const Result<double> value = ParseNumber<double>(text);
    const bool inside = value.ok() && *value >= low && *value <= high;
    return inside ? std::string() : fmt::format("{} is not between {} and {}", text, low, high);
  });
  option_->type_name(fmt::format("{} in [{} - {}]", description_->value, low, high));
  description_->limits = fmt::format("{} to {}", low, high);
  return *this;
}

Option& Option::Positive() {
  option_->check(CLI::PositiveNumber);
  description_->limits = "positive";
  return *this;
}

Option& Option::NonNegative() {
  option_->check(CLI::NonNegativeNumber);
  description_->limits = "not negative";
  return *this;
}

Option& Option::Path() {
  option_->type_name("PATH");
  description_->value = "PATH";
  return *this;
}

Parser::Parser(const std::string& program, const std::string& description)
    : Parser(new CLI::App(description, program), program, description) {
  owned_.reset(app_);
  app_->set_version_flag("--version", fmt::format("{} {}", program, kVersion));
  Remember("--version", "", "Display program version information and exit");
}

Parser::Parser(CLI::App* app, const std::string& name, const std::string& description) : app_(app) {
  description_.name = name;
  description_.description = description;
  helps_ = name + " --help";
  Remember("-h,--help", "", "Print this help message and exit");
}

Parser::~Parser() = default;

OptionDescription* Parser::Remember(const std::string& names, const std::string& value,
                                    const std::string& description) {
  OptionDescription& known = description_.options.emplace_back();
  known.names = CLI::detail::split(names, ',');
  for (std::string& name : known.names) {
    if (name.starts_with('!')) name.erase(0, 1);
  }
  known.value = value;
  known.description = description;
  return &known;
}

Option Parser::Declared(CLI::Option* option, OptionDescription* description) const {
  if (!heading_.empty()) option->group(heading_);
  description->group = heading_;
  return {option, description};
}

template <typename T>
Option Parser::AddOption(const std::string& names, T* value, const std::string& description) {
  using Kind = ValueKind<T>;
  const char* type = NameOfType<typename Kind::Scalar>();
  CLI::callback_t read = [value](const CLI::results_t& texts) { return ReadValue(texts, value); };
  CLI::Option* option = app_->add_option(names, std::move(read), description);
  option->type_name(type);
  // Runs before other checks, for the more exact message.
  option->check(
      [](const std::string& text) { return ReadScalar<typename Kind::Scalar>(text).status().message(); });
  if constexpr (Kind::kList) option->expected(CLI::detail::expected_max_vector_size);
  OptionDescription* known = Remember(names, type, description);
  known->repeated = Kind::kList;
  return Declared(option, known);
}

template Option Parser::AddOption(const std::string&, std::string*, const std::string&);
template Option Parser::AddOption(const std::string&, int*, const std::string&);
template Option Parser::AddOption(const std::string&, unsigned*, const std::string&);
template Option Parser::AddOption(const std::string&, std::int64_t*, const std::string&);
template Option Parser::AddOption(const std::string&, std::uint64_t*, const std::string&);
template Option Parser::AddOption(const std::string&, float*, const std::string&);
template Option Parser::AddOption(const std::string&, double*, const std::string&);
template Option Parser::AddOption(const std::string&, std::optional<int>*, const std::string&);
template Option Parser::AddOption(const std::string&, std::optional<std::int64_t>*, const std::string&);
template Option Parser::AddOption(const std::string&, std::optional<std::uint64_t>*, const std::string&);
template Option Parser::AddOption(const std::string&, std::optional<double>*, const std::string&);
template Option Parser::AddOption(const std::string&, std::vector<std::string>*, const std::string&);
template Option Parser::AddOption(const std::string&, std::vector<std::int64_t>*, const std::string&);
template Option Parser::AddOption(const std::string&, std::vector<double>*, const std::string&);

Option Parser::AddFlag(const std::string& names, bool* value, const std::string& description) {
  CLI::Option* option = app_->add_flag(names, *value, description);
  return Declared(option, Remember(names, "", description));
}

void Parser::AddHelp(const std::string& name, const std::string& heading, const std::string& description) {
  const std::vector<CLI::Option*> options =
      app_->get_options([&heading](const CLI::Option* known) { return known->get_group() == heading; });
  const auto print = [heading, options] {
    // Without the empty line before the heading.
    throw AskedForHelp{
        CLI::Formatter().make_group(heading, false, {options.begin(), options.end()}).substr(1)};
  };
  app_->add_flag_callback(name, print, description)->configurable(false);
  Remember(name, "", description);
  left_out_of_help_.insert(left_out_of_help_.end(), options.begin(), options.end());
  helps_ += " and " + name;
}

void Parser::LeaveOutOfHelp() {
  for (CLI::Option* option : left_out_of_help_) option->group("");
  for (const auto& command : commands_) command->LeaveOutOfHelp();
}

void Parser::AddConfigFile(const std::string& name, const std::string& description) {
  app_->set_config(name, "", description);
  Remember(name, "PATH", description);
  app_->allow_config_extras(CLI::config_extras_mode::error);
  config_option_ = name;
}

Parser* Parser::AddCommand(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  commands_.emplace_back(new Parser(app_->add_subcommand(name, description), name, description));
  return commands_.back().get();
}

void Parser::AddCommand(const std::string& name, const std::string& description,
                        Command (*declare)(Parser*)) {
  Parser* const command = AddCommand(name, description);
  command->run_ = declare(command);
}

bool Parser::chosen() const { return app_->parsed(); }

Result<int> Parser::RunChosen() const {
  for (const auto& command : commands_) {
    if (command->chosen()) return command->run_();
  }
  return InvalidArgument("give a command; run {} --help", program());
}

void Parser::SetFooter(const std::string& text) {
  app_->footer(text);
  description_.footer = text;
}

Result<std::optional<std::string>> Parser::Parse(int argc, const char* const* argv) {
  using Text = std::optional<std::string>;
  if (argc == 2 && std::string_view(argv[1]) == "--help-json") return Text(ToJson(Describe()));
  try {
    app_->parse(argc, argv);
    return Text();
  } catch (const AskedForHelp& help) {
    return Text(help.text);
  } catch (const CLI::Success& success) {  // --help, --version
    // Only now: CLI11 does not name options without a group in errors either.
    LeaveOutOfHelp();
    std::ostringstream text;
    app_->exit(success, text, text);
    return Text(text.str());
  } catch (const CLI::FileError& error) {
    return NotFound("{}: {}; give a file that exists, and that this user may read", config_option_,
                    error.what());
  } catch (const CLI::ConfigError& error) {
    return InvalidArgument("{}: {}; the names are those of {}, without --", config_option_, error.what(),
                           helps_);
  } catch (const CLI::ParseError& error) {
    return InvalidArgument("{}; run {} --help", error.what(), program());
  }
}

CommandDescription Parser::Describe() const {
  CommandDescription description = description_;
  for (const auto& command : commands_) description.commands.push_back(command->Describe());
  return description;
}

}  // namespace quarry::command_line
