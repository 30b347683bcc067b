#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/base/status.h"

// CLI11 stays inside this room: including it costs ten seconds a file.
namespace CLI {
class App;
class Option;
}  // namespace CLI

/// The options of our programs: declared, read, explained by --help.
namespace quarry::command_line {

/// An option, for man pages and shell completion.
struct OptionDescription {
  std::vector<std::string> names;  ///< "-o", "--output"; one without dashes is a positional argument's
  std::string value;               ///< INT, UINT, FLOAT, TEXT or PATH; empty: a flag
  bool required = false;
  bool repeated = false;             ///< takes several values
  std::vector<std::string> choices;  ///< the only values allowed; empty: any
  std::string limits;                ///< "1 to 1000"; empty: none
  std::string environment;           ///< the variable that replaces it; empty: none
  std::string group;                 ///< heading; empty: none of its own
  std::string description;
};

/// A program or one of its subcommands.
struct CommandDescription {
  std::string name;
  std::string description;
  std::string footer;  ///< examples, exit codes
  std::deque<OptionDescription> options;
  std::vector<CommandDescription> commands;
};

/// A declared option, to add details to. Names of other options are those of the same command, declared
/// before.
class Option {
 public:
  Option& Required();
  /// An environment variable that is used when the option is not given.
  Option& Environment(const std::string& variable);
  Option& Needs(const std::string& other);
  Option& Excludes(const std::string& other);
  /// Several values in one argument, as "1,2,3".
  Option& SeparatedBy(char separator);
  /// One value each time that it is given.
  Option& Repeatable();
  /// Exactly this many values.
  Option& Exactly(int count);
  Option& OneOf(const std::vector<std::string>& words);
  /// Both ends included; NaN is outside.
  Option& Between(double low, double high);
  Option& Positive();
  Option& NonNegative();
  /// The value is a file or directory: the shell completes it, the code that opens it checks it.
  Option& Path();

 private:
  friend class Parser;
  Option(CLI::Option* option, OptionDescription* description) : option_(option), description_(description) {}

  CLI::Option* option_;
  OptionDescription* description_;
};

/// Runs a chosen subcommand: its exit code, or an error.
using Command = std::function<Result<int>()>;

/// The command line of a program, or of one of its subcommands. Every program has --help and --version, and
/// --help-json for the tools that make man pages and completions.
class Parser {
 public:
  Parser(const std::string& program, const std::string& description);
  ~Parser();
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  /// The heading under which --help lists the options declared from here on; empty: none of their own.
  void SetHeading(const std::string& heading) { heading_ = heading; }

  /// @param names  "--output", "-o,--output", or "FILE" for a positional argument
  /// @param value  where the value goes; stays as it is when the option is not given. Numbers are those of
  ///               ParseNumber: none overflows, and none is infinite or NaN. T: std::string, int,
  /// unsigned,
  ///               std::int64_t, std::uint64_t, float, double; std::optional of int, std::int64_t,
  ///               std::uint64_t or double; std::vector of std::string, std::int64_t or double
  template <typename T>
  Option AddOption(const std::string& names, T* value, const std::string& description);

  /// @param names  "--json"; "--verify,!--no-verify" has a name that sets false
  Option AddFlag(const std::string& names, bool* value, const std::string& description);

  /// Takes the options under `heading`, declared before, out of --help; the flag `name` prints them instead.
  /// --help has one line for them, the flag's, and --help-json, man pages and completions still list them
  /// all. For options that few users need. Example: AddHelp("--help-limits", "Limits", "print the limits")
  /// hides what stands under SetHeading("Limits").
  void AddHelp(const std::string& name, const std::string& heading, const std::string& description);

  /// An option for a TOML or INI file, with options by their names without dashes.
  void AddConfigFile(const std::string& name, const std::string& description);

  /// A subcommand; a program that has some requires one of them. Lives as long as this.
  Parser* AddCommand(const std::string& name, const std::string& description);
  /// A subcommand for RunChosen. @param declare  declares its options, and returns what it runs
  void AddCommand(const std::string& name, const std::string& description, Command (*declare)(Parser*));
  /// Whether this subcommand was given.
  bool chosen() const;
  /// Runs the subcommand that was given.
  Result<int> RunChosen() const;

  /// Examples and exit codes, below the options.
  void SetFooter(const std::string& text);

  /// @return the text requested instead of a run (--help, --version, a flag of AddHelp), or nothing: the
  /// program goes on
  /// @errors kInvalidArgument: wrong options; kNotFound: the config file
  Result<std::optional<std::string>> Parse(int argc, const char* const* argv);

  CommandDescription Describe() const;
  const std::string& program() const { return description_.name; }

 private:
  Parser(CLI::App* app, const std::string& name, const std::string& description);
  OptionDescription* Remember(const std::string& names, const std::string& value,
                              const std::string& description);
  Option Declared(CLI::Option* option, OptionDescription* description) const;
  void LeaveOutOfHelp();

  std::unique_ptr<CLI::App> owned_;  // app of a program; a subcommand's belongs to its program's
  CLI::App* app_;
  CommandDescription description_;
  std::vector<std::unique_ptr<Parser>> commands_;
  Command run_;  // null: the program runs this subcommand itself
  std::string heading_;
  std::string config_option_;
  std::vector<CLI::Option*> left_out_of_help_;  // options of AddHelp
  std::string helps_;                           // "program --help", and the flags of AddHelp
};

/// The end of every program: flushes standard output, and prints an error as one line, "PROGRAM: MESSAGE".
/// Failed output is an error. A closed pipe ends the program silently.
/// @param outcome  the exit code, or an error
/// @param speaks   false: prints no error, as the other ranks of a program with MPI
/// @return the exit code
int EndProgram(const std::string& program, const Result<int>& outcome, bool speaks = true);

/// Runs a program without MPI, from its arguments to its exit code: reads the options, prints the output of
/// --help and --version, runs, and ends it.
/// @param run            the exit code, or an error
/// @param out_of_memory  advice for the message: "ask for a smaller box"
int RunProgram(Parser* parser, int argc, const char* const* argv, const std::function<Result<int>()>& run,
               const std::string& out_of_memory = "");

/// The output of --help-json: one object, nested as the description is.
std::string ToJson(const CommandDescription& command);

}  // namespace quarry::command_line
