#include "writer/distribution/incoming_file.h"

#include <algorithm>
#include <tuple>

namespace quarry::distribution {
namespace {

constexpr int kUnannounced = -1;

}  // namespace

IncomingFile::IncomingFile(std::uint64_t begin, std::uint64_t end)
    : begin_(begin), encoder_(end - begin, kUnannounced), sizes_(end - begin, 0), window_begin_{begin} {}

bool IncomingFile::Announce(int encoder, std::uint64_t curve_position, std::uint64_t bytes) {
  if (curve_position < begin_ || curve_position >= end()) return false;
  int& known = encoder_[curve_position - begin_];
  if (known != kUnannounced) return false;
  known = encoder;
  sizes_[curve_position - begin_] = bytes;
  bytes_ += bytes;
  ++announced_;
  return true;
}

void IncomingFile::CutWindows(std::uint64_t most_bytes) {
  window_begin_ = {begin_};
  std::uint64_t bytes = 0;
  for (std::uint64_t p = begin_; p < end(); ++p) {
    const std::uint64_t size = sizes_[p - begin_];
    if (p > window_begin_.back() && bytes + size > most_bytes) {
      window_begin_.push_back(p);
      bytes = 0;
    }
    bytes += size;
  }
  window_begin_.push_back(end());
  sizes_ = {};
}

std::vector<int> IncomingFile::EncodersIn(std::size_t window) const {
  const auto at = [&](std::uint64_t p) { return encoder_.begin() + static_cast<std::ptrdiff_t>(p - begin_); };
  std::vector<int> encoders;
  for (auto e = at(WindowBegin(window)); e != at(WindowBegin(window + 1)); ++e) {
    if (encoders.empty() || encoders.back() != *e) encoders.push_back(*e);
  }
  std::ranges::sort(encoders);
  encoders.erase(std::unique(encoders.begin(), encoders.end()), encoders.end());
  return encoders;
}

std::map<int, std::vector<WindowShare>> IncomingFile::Shares() const {
  std::map<int, std::vector<WindowShare>> all;
  for (std::size_t w = 0; w < windows(); ++w) {
    for (std::uint64_t p = WindowBegin(w); p < WindowBegin(w + 1); ++p) {
      std::vector<WindowShare>& shares = all[EncoderOf(p)];
      if (shares.empty() || shares.back().window != w) shares.push_back({static_cast<std::uint32_t>(w), 0});
      ++shares.back().patches;
    }
  }
  return all;
}

void AddShipments(std::size_t file, std::size_t first, std::size_t runs, std::uint64_t windows,
                  std::span<const WindowShare> shares, std::vector<Shipment>* shipments) {
  for (std::size_t run = 0; run < runs; ++run) {
    std::size_t next = first;
    for (const WindowShare& share : shares) {
      shipments->push_back({run * windows + share.window, file, run, next, share.patches});
      next += share.patches;
    }
  }
}

void SortShipments(std::vector<Shipment>* shipments) {
  std::ranges::sort(*shipments, [](const Shipment& a, const Shipment& b) {
    return std::tie(a.round, a.file) < std::tie(b.round, b.file);
  });
}

}  // namespace quarry::distribution
