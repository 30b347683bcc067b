#include "quarry/picture/colormap.h"

#include <algorithm>
#include <cmath>

namespace quarry::picture {
namespace {

using Table = Colormap::Table;

// Every eighth colour of the 256 that matplotlib has under these names (dedicated to the public domain, CC0).
constexpr Table kViridis = {{{68, 1, 84},    {71, 13, 96},   {72, 24, 106},  {72, 35, 116},  {71, 45, 123},
                             {69, 55, 129},  {66, 64, 134},  {62, 73, 137},  {59, 82, 139},  {55, 91, 141},
                             {51, 99, 141},  {47, 107, 142}, {44, 114, 142}, {41, 122, 142}, {38, 130, 142},
                             {35, 137, 142}, {33, 145, 140}, {31, 152, 139}, {31, 160, 136}, {34, 167, 133},
                             {40, 174, 128}, {50, 182, 122}, {63, 188, 115}, {78, 195, 107}, {94, 201, 98},
                             {112, 207, 87}, {132, 212, 75}, {152, 216, 62}, {173, 220, 48}, {194, 223, 35},
                             {216, 226, 25}, {236, 229, 27}, {253, 231, 37}}};
constexpr Table kMagma = {
    {{0, 0, 4},       {3, 3, 18},      {10, 8, 34},     {19, 13, 52},    {29, 17, 71},    {41, 17, 90},
     {54, 16, 107},   {68, 15, 118},   {81, 18, 124},   {93, 23, 127},   {106, 28, 129},  {118, 33, 129},
     {131, 38, 129},  {144, 42, 129},  {156, 46, 127},  {170, 51, 125},  {183, 55, 121},  {196, 60, 117},
     {208, 65, 111},  {220, 72, 105},  {231, 82, 99},   {239, 93, 94},   {245, 107, 92},  {249, 121, 93},
     {252, 137, 97},  {253, 152, 105}, {254, 167, 114}, {254, 182, 124}, {254, 196, 136}, {254, 211, 149},
     {253, 226, 163}, {252, 240, 178}, {252, 253, 191}}};
constexpr Table kCividis = {
    {{0, 34, 78},     {0, 40, 91},     {0, 46, 106},    {5, 51, 113},    {26, 56, 111},   {39, 62, 110},
     {50, 67, 109},   {59, 73, 108},   {67, 78, 108},   {75, 84, 108},   {83, 90, 109},   {90, 95, 110},
     {97, 101, 111},  {104, 106, 113}, {111, 112, 115}, {118, 118, 118}, {125, 124, 120}, {132, 130, 121},
     {140, 136, 120}, {147, 142, 120}, {155, 148, 118}, {163, 154, 116}, {171, 160, 114}, {180, 167, 111},
     {188, 174, 108}, {196, 180, 104}, {205, 187, 99},  {213, 194, 94},  {222, 201, 88},  {231, 209, 80},
     {240, 216, 70},  {249, 224, 58},  {254, 232, 56}}};
constexpr Table kCoolwarm = {
    {{59, 76, 192},   {68, 90, 204},   {78, 104, 216},  {88, 117, 225},  {98, 130, 234},  {108, 143, 241},
     {119, 154, 247}, {130, 166, 251}, {141, 176, 254}, {152, 185, 255}, {163, 194, 254}, {174, 201, 252},
     {185, 208, 249}, {195, 213, 244}, {204, 217, 237}, {213, 219, 229}, {221, 220, 220}, {229, 216, 209},
     {236, 211, 197}, {241, 204, 184}, {245, 196, 172}, {247, 186, 159}, {247, 176, 147}, {246, 165, 134},
     {244, 152, 122}, {240, 139, 110}, {235, 125, 98},  {228, 110, 86},  {221, 95, 75},   {212, 78, 65},
     {202, 59, 55},   {190, 36, 46},   {180, 4, 38}}};

constexpr Table GrayTable() {
  Table table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto level = static_cast<std::uint8_t>(i * 255 / (table.size() - 1));
    table[i] = {level, level, level};
  }
  return table;
}
constexpr Table kGray = GrayTable();

}  // namespace

Result<Colormap> Colormap::Find(const std::string& name) {
  if (name == "viridis") return Colormap(kViridis);
  if (name == "magma") return Colormap(kMagma);
  if (name == "cividis") return Colormap(kCividis);
  if (name == "coolwarm") return Colormap(kCoolwarm);
  if (name == "gray") return Colormap(kGray);
  return InvalidArgument("unknown colour map \"{}\"; give viridis, magma, cividis, coolwarm or gray", name);
}

Rgb Colormap::At(double position) const {
  if (std::isnan(position)) return {0, 0, 0};
  const double scaled = std::fmin(std::fmax(position, 0.0), 1.0) * (kStops - 1);
  const auto stop = std::min(static_cast<std::size_t>(scaled), kStops - 2);
  const double fraction = scaled - static_cast<double>(stop);
  Rgb colour;
  for (std::size_t c = 0; c < 3; ++c) {
    colour[c] = static_cast<std::uint8_t>(
        std::lround((1 - fraction) * (*table_)[stop][c] + fraction * (*table_)[stop + 1][c]));
  }
  return colour;
}

}  // namespace quarry::picture
