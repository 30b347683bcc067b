#include "tools/plan/fft_paper.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "quarry/base/output.h"
#include "writer/model/fft_paper.h"

namespace quarry::plan {
namespace {

/// About the A that most of predictions 1 and 2 need.
constexpr double kNeededMemoryConstant = 75;

std::string_view Sign(model::Relation relation) {
  switch (relation) {
    case model::Relation::kBelow:
      return "<";
    case model::Relation::kAbove:
      return ">";
    case model::Relation::kEqual:
      break;
  }
  return "=";
}

std::vector<double> Columns(double memory_constant) {
  std::vector<double> columns = {model::kPrintedMemoryConstant, kNeededMemoryConstant};
  if (memory_constant != columns[0] && memory_constant != columns[1]) columns.push_back(memory_constant);
  return columns;
}

nlohmann::ordered_json ToJson(const model::PaperNumber& number, const std::vector<double>& columns) {
  nlohmann::ordered_json json;
  json["where"] = number.where;
  json["what"] = number.what;
  json["unit"] = number.unit;
  json["relation"] = Sign(number.relation);
  json["paper"] = number.paper;
  for (const double a : columns)
    json["model"].push_back({{"memory_constant", a}, {"value", number.model(a)}});
  const std::optional<double> needed = model::MemoryConstantOf(number);
  json["needed_memory_constant"] = needed ? nlohmann::ordered_json(*needed) : nlohmann::ordered_json();
  return json;
}

void PrintJson(double memory_constant) {
  nlohmann::ordered_json json;
  for (const model::PaperNumber& number : model::NumbersOfThePaper())
    json["numbers"].push_back(ToJson(number, Columns(memory_constant)));
  json["figure_memory_constant"] = memory_constant;
  for (const model::FftBar& bar : model::FigureFive(memory_constant)) {
    json["figure_5"].push_back({{"system", bar.name},
                                {"nodes", bar.nodes},
                                {"memory_s", bar.seconds.memory},
                                {"network_s", bar.seconds.network}});
  }
  for (const model::FftCurve& curve : model::FigureSix(memory_constant)) {
    json["figure_6"].push_back({{"topology", Name(curve.topology)},
                                {"years", curve.years},
                                {"memory_over_network", curve.memory_over_network}});
  }
  PrintOut("{}\n", json.dump());
}

/// "A needed" of a number: the limit with its sign where the paper states one.
std::string Needed(const model::PaperNumber& number) {
  const std::optional<double> needed = model::MemoryConstantOf(number);
  if (!needed) return "";
  return fmt::format("{}{:.1f}", number.relation == model::Relation::kEqual ? "" : "below ", *needed);
}

std::string Digits(double value) {
  return value >= 1e4 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

void PrintNumbers(const std::vector<double>& columns) {
  PrintOut("{:<12} {:<50} {:<5} {:>9}", "where", "what", "unit", "paper");
  for (const double a : columns) PrintOut(" {:>10}", fmt::format("A = {:.4g}", a));
  PrintOut("  {}\n", "A needed");
  for (const model::PaperNumber& number : model::NumbersOfThePaper()) {
    const std::string_view sign = number.relation == model::Relation::kEqual ? "" : Sign(number.relation);
    PrintOut("{:<12} {:<50} {:<5} {:>9}", number.where, number.what, number.unit,
             fmt::format("{}{}", sign, Digits(number.paper)));
    for (const double a : columns) PrintOut(" {:>10}", Digits(number.model(a)));
    PrintOut("  {}\n", Needed(number));
  }
}

void PrintFigures(double memory_constant) {
  PrintOut("\nfigure 5, A = {:.4g}\n{:<6} {:>9} {:>10} {:>10} {:>10}\n", memory_constant, "", "nodes",
           "memory s", "network s", "sum s");
  for (const model::FftBar& bar : model::FigureFive(memory_constant)) {
    PrintOut("{:<6} {:>9.0f} {:>10.4f} {:>10.4f} {:>10.4f}\n", bar.name, bar.nodes, bar.seconds.memory,
             bar.seconds.network, bar.seconds.memory + bar.seconds.network);
  }
  const std::vector<model::FftCurve> curves = model::FigureSix(memory_constant);
  PrintOut("\nfigure 6, memory over network time, A = {:.4g}\n{:<6}", memory_constant, "year");
  for (const model::FftCurve& curve : curves) PrintOut(" {:>13}", Name(curve.topology));
  for (std::size_t i = 0; i < curves.front().years.size(); ++i) {
    PrintOut("\n{:<6.0f}", curves.front().years[i]);
    for (const model::FftCurve& curve : curves) PrintOut(" {:>13.3f}", curve.memory_over_network[i]);
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

}  // namespace quarry::plan
