#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "quarry/base/output.h"
#include "quarry/base/utf8.h"
#include "quarry/client.h"
#include "quarry/command_line/command_line.h"

/// The subcommands of `quarry`. Each declares its options on an app and returns the function to run when it
/// is chosen.
namespace quarry::tools {

/// Exit code of a failed check: the one outcome that is not a Status.
inline constexpr int kCheckFailed = 1;

using command_line::Command;

Command DeclareLs(command_line::Parser* app);
Command DeclareInfo(command_line::Parser* app);
Command DeclareGet(command_line::Parser* app);
Command DeclarePlan(command_line::Parser* app);
Command DeclareStats(command_line::Parser* app);
Command DeclarePoints(command_line::Parser* app);
Command DeclareVerify(command_line::Parser* app);
Command DeclareWatch(command_line::Parser* app);
Command DeclareUpgrade(command_line::Parser* app);
Command DeclarePack(command_line::Parser* app);
Command DeclareCache(command_line::Parser* app);
Command DeclareCp(command_line::Parser* app);

/// The options for speaking to a server, shared by all commands that take a target.
struct ServerOptions {
  client::Security security;
  std::string token_file;
  bool allow_http = false;
  std::string cache;
  std::string cache_size;
  double timeout_seconds = 0;
  std::string encoding = "auto";
  std::string recode;

  void DeclareOn(command_line::Parser* app);
  /// The same without the cache.
  void DeclareConnectionOn(command_line::Parser* app);
  /// @errors kInvalidArgument: an impossible --recode; those of reading the token's file
  Result<client::Options> Resolve() const;
};

/// The options that describe a question, shared by get, plan and verify.
struct QuestionOptions {
  ServerOptions server;
  std::string target;
  std::string field;
  std::optional<std::uint64_t> step;
  std::string box;
  std::string region;
  std::optional<int> level;
  std::optional<int> layer;
  std::optional<double> max_error;
  std::string max_bytes;
  std::string stride;
  std::string focus;
  bool allow_damage = false;
  std::string values;
  std::vector<std::string> fields;
  std::string steps;

  /// Target, field and step alone.
  void DeclarePlaceOn(command_line::Parser* app);
  /// With box and level.
  void DeclareOn(command_line::Parser* app);
  void DeclareLayerOn(command_line::Parser* app);
  /// After DeclareOn, for commands that work without a level.
  void DeclareTargetsOn(command_line::Parser* app);
  /// For commands that answer for several fields and steps, can leave patches out, and have an order of them.
  void DeclareSeriesOn(command_line::Parser* app);
  /// For commands that get samples.
  void DeclareSamplesOn(command_line::Parser* app);

  Result<std::unique_ptr<client::Dataset>> Open() const;
  /// The same for a question that may not need the description of the dataset.
  Result<std::unique_ptr<client::Reader>> Reach() const;
  /// Whether the options say nothing without the description: positions, or one box on possibly several
  /// grids.
  bool needs_description() const { return !region.empty() || (!box.empty() && fields.size() > 1); }
  /// The question for a dataset that is not open, which completes field and box.
  /// @errors kInvalidArgument: the box is malformed; two targets; impossible steps or values
  Result<query::SeriesRequest> UnopenedSeries() const;
  /// @errors kInvalidArgument: the box is malformed or outside the grid; several fields and none chosen; two
  /// targets
  Result<query::ReadRequest> Resolve(const DatasetDescription& dataset) const;
  /// The level, error, number of bytes or stride.
  Result<query::Target> ResolveTarget() const;
  /// The grid on which a box of the fields lies.
  /// @errors kInvalidArgument: they are on several
  Result<std::size_t> GridFor(const DatasetDescription& dataset, const std::string& chosen) const;
  /// @errors besides: kInvalidArgument: impossible steps or values
  Result<query::SeriesRequest> ResolveSeries(const DatasetDescription& dataset) const;
  /// The question as far as it does not depend on the dataset.
  Result<query::ReadRequest> WithoutBox() const;
  /// A question with fields, steps and values.
  Result<query::SeriesRequest> SeriesOf(query::ReadRequest read) const;
};

/// "samples", "patches" or "coded".
std::string_view EncodingName(query::AnswerEncoding encoding);
/// Bytes and estimated seconds of an answer in each possible encoding, and the path that they are for.
std::string PricesText(const query::Cost& cost, const query::EncodingChoice& choice);

/// The form in which Print shows an argument: text from datasets and servers without control characters.
template <typename T>
using Shown = std::conditional_t<std::is_convertible_v<const T&, std::string_view>, std::string, T>;

template <typename T>
Shown<T> Show(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return Printable(value);
  } else {
    return value;
  }
}

/// Prints text for people to stdout, as fmt::print. JSON is escaped already and does not go through it.
template <typename... Args>
void Print(fmt::format_string<const Shown<Args>&...> text, const Args&... args) {
  PrintOut(text, static_cast<const Shown<Args>&>(Show(args))...);
}

/// "1,2.5,3": numbers between commas.
/// @param name   of the option, for the message
/// @param count  how many are required; 0: any number
/// @errors kInvalidArgument
Result<std::vector<double>> ParseNumbers(const std::string& text, const std::string& name, std::size_t count);

/// "BEGIN:END" or "BEGIN:END:STRIDE" of --steps. @errors kInvalidArgument
Result<query::StepRange> ParseSteps(const std::string& text);

/// "LOW:HIGH". @errors kInvalidArgument
Result<std::pair<double, double>> ParseRange(const std::string& text, const std::string& name);

/// "1.00 MiB from the cache, 2.00 MiB from the store" if a cache on disk was used, otherwise empty.
std::string CacheText();

/// ", 4096 samples left out" if there are any.
std::string LeftOutText(std::int64_t samples);

/// ", covers 97.5%" if a level cannot show every valid sample, otherwise empty.
std::string CoverageText(double coverage);

}  // namespace quarry::tools
