#include "fmt/format.h"

#include <cmath>

namespace fmt {
namespace {

void AppendUnsigned(std::uint64_t value, unsigned base, std::string* out) {
  char digits[20];
  char* const end = digits + sizeof(digits);
  char* begin = end;
  do {
    *--begin = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  out->append(begin, end);
}

/// Six digits, such as -1.25000e-3. For people only: the last one may be wrong.
void AppendNumber(double value, std::string* out) {
  if (std::isnan(value)) {
    *out += "nan";
    return;
  }
  if (std::signbit(value)) *out += '-';
  value = std::abs(value);
  if (std::isinf(value) || value == 0) {
    *out += value == 0 ? "0" : "inf";
    return;
  }
  int exponent = 0;
  for (; value >= 10; value /= 10) ++exponent;
  for (; value < 1; value *= 10) --exponent;
  std::string digits;
  AppendUnsigned(static_cast<std::uint64_t>(value * 1e5), 10, &digits);
  *out += digits.substr(0, 1) + "." + digits.substr(1) + (exponent < 0 ? "e-" : "e");
  AppendUnsigned(static_cast<std::uint64_t>(std::abs(exponent)), 10, out);
}

void Append(const Argument& argument, bool hexadecimal, std::string* out) {
  if (argument.kind == Argument::Kind::kText) {
    *out += argument.text;
  } else if (argument.kind == Argument::Kind::kNumber) {
    AppendNumber(argument.number, out);
  } else if (hexadecimal) {
    *out += "0x";
    AppendUnsigned(argument.bits, 16, out);
  } else {
    const bool negative = argument.kind == Argument::Kind::kSigned && argument.bits >> 63 != 0;
    if (negative) *out += '-';
    AppendUnsigned(negative ? 0 - argument.bits : argument.bits, 10, out);
  }
}

}  // namespace

std::string Format(std::string_view form, const Argument* arguments) {
  std::string out;
  while (!form.empty()) {
    const std::size_t brace = form.find('{');
    out += form.substr(0, brace);
    if (brace == std::string_view::npos) break;
    form.remove_prefix(brace);
    Append(*arguments++, form.starts_with("{:"), &out);
    form.remove_prefix(form.find('}') + 1);
  }
  return out;
}

}  // namespace fmt
