#pragma once

#include <string>
#include <vector>

namespace quarry::plan {

/// One bar, of parts in the order of the legend.
struct Bar {
  std::string label;
  std::vector<double> parts;  ///< each at least 0
};

/// Horizontal stacked bars over one axis that begins at 0.
struct BarChart {
  std::string title;
  std::string subtitle;
  std::string axis;                     ///< label of the axis, with its unit
  std::string label_heading;            ///< what the labels of the bars are
  std::vector<std::string> part_names;  ///< at most eight
  std::vector<Bar> bars;
};

/// The chart as an SVG document of its own: no scripts, no fonts to load, on a white ground.
std::string ToSvg(const BarChart& chart);

}  // namespace quarry::plan
