#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "clients/cpp/client.h"

/// The subcommands of `quarry`. Each declares its options on an app and returns what to run when it was
/// chosen.
namespace quarry::tools {

/// Exit code of a check that did not hold: the one outcome that is not a Status.
inline constexpr int kCheckFailed = 1;

/// Runs a chosen subcommand; returns its exit code (0 or kCheckFailed), or an error.
using Command = std::function<Result<int>()>;

Command DeclareLs(CLI::App* app);
Command DeclareInfo(CLI::App* app);
Command DeclareGet(CLI::App* app);
Command DeclarePlan(CLI::App* app);
Command DeclareStats(CLI::App* app);
Command DeclarePoints(CLI::App* app);
Command DeclareVerify(CLI::App* app);
Command DeclareWatch(CLI::App* app);

/// The options that say how to speak to a server, shared by all that take a target.
struct ServerOptions {
  client::Security security;
  std::string token_file;
  double timeout_seconds = 0;
  client::Encoding encoding = client::Encoding::kAuto;

  void DeclareOn(CLI::App* app);
  /// @errors those of reading the token's file
  Result<client::Options> Resolve() const;
};

/// The options that describe a question, shared by get, plan and verify.
struct QuestionOptions {
  ServerOptions server;
  std::string target;
  std::string field;
  std::optional<std::uint64_t> step;
  std::string box;
  int level = 0;
  std::optional<double> max_error;
  std::string max_bytes;
  std::string stride;
  std::string focus;
  bool strict = false;
  std::string values;
  std::vector<std::string> fields;
  std::string steps;

  /// Target, field and step alone.
  void DeclarePlaceOn(CLI::App* app);
  /// With box and level.
  void DeclareOn(CLI::App* app);
  /// After DeclareOn, for commands that can do without a level.
  void DeclareTargetsOn(CLI::App* app);
  /// For commands that show an order.
  void DeclareFocusOn(CLI::App* app);
  /// For commands that answer for several fields and steps, and can leave patches out.
  void DeclareSeriesOn(CLI::App* app);
  /// For commands that get samples.
  void DeclareSamplesOn(CLI::App* app);

  Result<std::unique_ptr<client::Dataset>> Open() const;
  /// @errors kInvalidArgument: the box is malformed or outside the grid; several fields and none chosen
  Result<query::ReadRequest> Resolve(const DatasetDescription& dataset) const;
  /// @errors besides: kInvalidArgument: steps or values that cannot be
  Result<query::SeriesRequest> ResolveSeries(const DatasetDescription& dataset) const;
};

/// The error of a reply in the field's unit: "0.25", or "0.25 m/s".
std::string WithUnits(double value, const std::string& units);

/// "1,2.5,3": numbers between commas.
/// @param name   of the option, for the message
/// @param count  how many there have to be; 0: any number
/// @errors kInvalidArgument
Result<std::vector<double>> ParseNumbers(const std::string& text, const std::string& name, std::size_t count);

/// "LOW:HIGH". @errors kInvalidArgument
Result<std::pair<double, double>> ParseRange(const std::string& text, const std::string& name);

/// ", 4096 samples left out" where there are any.
std::string LeftOutText(std::int64_t samples);

/// ", covers 97.5%" where a level cannot show every valid sample, and nothing where it can.
std::string CoverageText(double coverage);

}  // namespace quarry::tools
