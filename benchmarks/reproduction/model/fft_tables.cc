#include "benchmarks/reproduction/model/fft_tables.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "benchmarks/reproduction/model/fft_paper.h"
#include "quarry/base/output.h"

namespace quarry::reproduction {
namespace {

/// About the A that most of predictions 1 and 2 need.
constexpr double kNeededMemoryConstant = 75;

std::string_view Sign(Relation relation) {
  switch (relation) {
    case Relation::kBelow:
      return "<";
    case Relation::kAbove:
      return ">";
    case Relation::kEqual:
      break;
  }
  return "=";
}

std::vector<double> Columns(double memory_constant) {
  std::vector<double> columns = {kPrintedMemoryConstant, kNeededMemoryConstant};
  if (memory_constant != columns[0] && memory_constant != columns[1]) columns.push_back(memory_constant);
  return columns;
}

nlohmann::ordered_json ToJson(const PaperNumber& number, const std::vector<double>& columns) {
  nlohmann::ordered_json json;
  json["where"] = number.where;
  json["what"] = number.what;
  json["unit"] = number.unit;
  json["relation"] = Sign(number.relation);
  json["paper"] = number.paper;
  for (const double a : columns)
    json["model"].push_back({{"memory_constant", a}, {"value", number.model(a)}});
  const std::optional<double> needed = MemoryConstantOf(number);
  json["needed_memory_constant"] = needed ? nlohmann::ordered_json(*needed) : nlohmann::ordered_json();
  return json;
}

void PrintJson(double memory_constant) {
  nlohmann::ordered_json json;
  for (const PaperNumber& number : NumbersOfThePaper())
    json["numbers"].push_back(ToJson(number, Columns(memory_constant)));
  json["figure_memory_constant"] = memory_constant;
  for (const FftBar& bar : FigureFive(memory_constant)) {
    json["figure_5"].push_back({{"system", bar.name},
                                {"nodes", bar.nodes},
                                {"memory_s", bar.seconds.memory},
                                {"network_s", bar.seconds.network}});
  }
  for (const FftCurve& curve : FigureSix(memory_constant)) {
    json["figure_6"].push_back({{"topology", Name(curve.topology)},
                                {"years", curve.years},
                                {"memory_over_network", curve.memory_over_network}});
  }
  PrintOut("{}\n", json.dump());
}

/// "A needed" of a number: the limit with its sign where the paper states one.
std::string Needed(const PaperNumber& number) {
  const std::optional<double> needed = MemoryConstantOf(number);
  if (!needed) return "";
  return fmt::format("{}{:.1f}", number.relation == Relation::kEqual ? "" : "below ", *needed);
}

std::string Digits(double value) {
  return value >= 1e4 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

void PrintNumbers(const std::vector<double>& columns) {
  PrintOut("{:<12} {:<50} {:<5} {:>9}", "where", "what", "unit", "paper");
  for (const double a : columns) PrintOut(" {:>10}", fmt::format("A = {:.4g}", a));
  PrintOut("  {}\n", "A needed");
  for (const PaperNumber& number : NumbersOfThePaper()) {
    const std::string_view sign = number.relation == Relation::kEqual ? "" : Sign(number.relation);
    PrintOut("{:<12} {:<50} {:<5} {:>9}", number.where, number.what, number.unit,
             fmt::format("{}{}", sign, Digits(number.paper)));
    for (const double a : columns) PrintOut(" {:>10}", Digits(number.model(a)));
    PrintOut("  {}\n", Needed(number));
  }
}

void PrintFigures(double memory_constant) {
  PrintOut("\nfigure 5, A = {:.4g}\n{:<6} {:>9} {:>10} {:>10} {:>10}\n", memory_constant, "", "nodes",
           "memory s", "network s", "sum s");
  for (const FftBar& bar : FigureFive(memory_constant)) {
    PrintOut("{:<6} {:>9.0f} {:>10.4f} {:>10.4f} {:>10.4f}\n", bar.name, bar.nodes, bar.seconds.memory,
             bar.seconds.network, bar.seconds.memory + bar.seconds.network);
  }
  const std::vector<FftCurve> curves = FigureSix(memory_constant);
  PrintOut("\nfigure 6, memory over network time, A = {:.4g}\n{:<6}", memory_constant, "year");
  for (const FftCurve& curve : curves) PrintOut(" {:>13}", Name(curve.topology));
  for (std::size_t i = 0; i < curves.front().years.size(); ++i) {
    PrintOut("\n{:<6.0f}", curves.front().years[i]);
    for (const FftCurve& curve : curves) PrintOut(" {:>13.3f}", curve.memory_over_network[i]);
  }
  PrintOut("\n");
}

}  // namespace

Status PrintPaper(double memory_constant, bool json) {
  if (json) {
    PrintJson(memory_constant);
  } else {
    PrintNumbers(Columns(memory_constant));
    PrintFigures(memory_constant);
  }
  return Status::Ok();
}

}  // namespace quarry::reproduction
