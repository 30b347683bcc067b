#include "tools/plan/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace quarry::plan {
namespace {

// Okabe and Ito's colours, which people with any colour vision can tell apart.
constexpr std::array kColours = {"#999999", "#56b4e9", "#0072b2", "#e69f00",
                                 "#cc79a7", "#009e73", "#d55e00", "#f0e442"};
constexpr double kBarHeight = 22;
constexpr double kPitch = 34;  // from one bar to the next
constexpr double kPlotWidth = 620;
constexpr double kMargin = 24;
constexpr double kTop = 130;          // title, subtitle, legend
constexpr double kValueWidth = 90;    // the total beside a bar
constexpr double kLetterWidth = 7.2;  // of the labels, on average

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

double Total(const Bar& bar) { return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0); }

/// 1, 2 or 5 times a power of ten, so that about six of them reach `largest`.
double TickStep(double largest) {
  const double rough = largest / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::string Text(double x, double y, const std::string& attributes, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y, attributes.empty() ? "" : " ",
                     attributes, Escape(text));
}

std::string Rectangle(double x, double y, double width, double height, const char* colour,
                      const std::string& hint) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
      "fill=\"{}\"><title>{}</title></rect>\n",
      x, y, width, height, colour, Escape(hint));
}

}  // namespace

std::string ToSvg(const BarChart& chart) {
  std::size_t longest = chart.label_heading.size();
  double largest = 0;
  for (const Bar& bar : chart.bars) {
    longest = std::max(longest, bar.label.size());
    largest = std::max(largest, Total(bar));
  }
  if (!(largest > 0)) largest = 1;
  const double step = TickStep(largest);
  const double span = step * std::ceil(largest / step);
  const double left = kMargin + kLetterWidth * static_cast<double>(longest) + 12;
  const double bottom = kTop + kPitch * static_cast<double>(chart.bars.size()) + 4;
  const double width = left + kPlotWidth + kValueWidth + kMargin;
  const double height = bottom + 62;
  const auto x_of = [&](double value) { return left + kPlotWidth * value / span; };

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#222222\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height);
  svg += Text(kMargin, 34, "font-size=\"18\" font-weight=\"bold\"", chart.title);
  svg += Text(kMargin, 56, "fill=\"#555555\"", chart.subtitle);

  double legend = kMargin;
  for (std::size_t p = 0; p < chart.part_names.size(); ++p) {
    svg += Rectangle(legend, 74, 13, 13, kColours[p % kColours.size()], chart.part_names[p]);
    svg += Text(legend + 19, 85, "", chart.part_names[p]);
    legend += 19 + kLetterWidth * static_cast<double>(chart.part_names[p].size()) + 18;
  }

  for (int tick = 0; tick * step <= span * (1 + 1e-9); ++tick) {
    const double x = x_of(tick * step);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
        "stroke-width=\"1\"/>\n",
        x, kTop - 8, bottom, tick == 0 ? "#222222" : "#dddddd");
    svg += Text(x, bottom + 18, "text-anchor=\"middle\"", fmt::format("{:.6g}", tick * step));
  }
  svg += Text(left + kPlotWidth / 2, bottom + 42, "text-anchor=\"middle\"", chart.axis);
  svg += Text(left - 12, kTop - 14, "text-anchor=\"end\" fill=\"#555555\"", chart.label_heading);

  for (std::size_t b = 0; b < chart.bars.size(); ++b) {
    const Bar& bar = chart.bars[b];
    const double y = kTop + kPitch * static_cast<double>(b);
    double sum = 0;
    svg += Text(left - 12, y + 16, "text-anchor=\"end\"", bar.label);
    for (std::size_t p = 0; p < bar.parts.size(); ++p) {
      const double from = x_of(sum);
      sum += bar.parts[p];
      svg += Rectangle(from, y, x_of(sum) - from, kBarHeight, kColours[p % kColours.size()],
                       fmt::format("{}: {:.3g}", chart.part_names[p], bar.parts[p]));
    }
    const std::string total = sum < 1000 ? fmt::format("{:.3g}", sum) : fmt::format("{:.0f}", sum);
    svg += Text(x_of(sum) + 8, y + 16, "font-weight=\"bold\"", total);
  }
  return svg + "</svg>\n";
}

}  // namespace quarry::plan
