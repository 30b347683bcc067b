#include "quarry/base/natural_order.h"

namespace quarry {

bool NaturalLess(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const auto run = [&](const std::string& text, std::size_t* at) {
      while (*at < text.size() && text[*at] == '0') ++*at;
      const std::size_t begin = *at;
      while (*at < text.size() && digit(text[*at])) ++*at;
      return text.substr(begin, *at - begin);
    };
    const std::string x = run(a, &i);
    const std::string y = run(b, &j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  // "img01" and "img1" differ only in zeros.
  if (i == a.size() && j == b.size()) return a < b;
  return i == a.size();
}

std::string WithoutNumbers(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit || out.empty() || out.back() != '#') out += is_digit ? '#' : c;
  }
  return out;
}

}  // namespace quarry
