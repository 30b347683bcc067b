#include "quarry/query/encoding_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "quarry/codec/tile.h"
#include "quarry/query/question_rules.h"
#include "quarry/query/tiles.h"

namespace quarry::query {
namespace {

/// [bytes] TCP's first window: ten segments.
constexpr double kFirstWindow = 14'600;
/// [s] The window of a shorter path grows at once.
constexpr double kNear = 1e-3;
/// [bytes] The usual product of a path's round trip and rate: 1.25 GB/s at 1 ms, 62 MB/s at 20 ms.
constexpr double kUsual = 1.25e6;
/// One in four unknown paths is taken to be so many times slower than usual.
constexpr double kSlower = 8;
constexpr double kOfSlow = 0.25;
/// [s] for each byte that a server decodes, beside its coder: the patch goes into fresh memory, and stays
/// there.
constexpr double kKeep = 0.2e-9;
/// [bytes] of samples or payload that are under way while the next ones are computed.
constexpr double kMessage = 1 << 20;
/// [bytes] of a tile beside its samples: its place, coder and checksum.
constexpr double kTile = 32;

/// The distance between neighbouring values of a type, where most samples of a range lie: near the geometric
/// mean of its ends, and near a sixteenth of the larger one in a range around 0.
double Resolution(DataType type, const Bounds& range) {
  if (!IsFloat(type)) return 1;
  const double high = std::max(std::abs(range.low), std::abs(range.high));
  const double low =
      range.low <= 0 && range.high >= 0 ? 0 : std::min(std::abs(range.low), std::abs(range.high));
  const double bits = type == DataType::kFloat32 ? 23.5 : 52.5;
  const double step = std::max(std::sqrt(low) * std::sqrt(high), high / 16) * std::exp2(-bits);
  return std::isfinite(step) ? std::max(step, std::numeric_limits<double>::min()) : 1;
}

/// Bits of a sample in steps of another size: one more for each half, none where nearly nothing is coded.
double BitsAt(double bits, double step, double other, double most) {
  const double at = std::log1p(std::expm1(bits * std::numbers::ln2) * step / other) / std::numbers::ln2;
  return at < most ? at : most;
}

double SecondsOf(double bytes, double ns) { return bytes * ns * 1e-9; }

/// The bytes of an encoding, and the work beside sending them.
struct Delivery {
  std::uint64_t bytes = 0;
  double work = 0;   ///< [s] of both ends
  double parts = 1;  ///< all but one are computed while others are on their way
};

double SecondsOf(const Delivery& delivery, const Path& path) {
  const double copying = static_cast<double>(delivery.bytes) / kFastest;
  const double waiting = TransferSeconds(delivery.bytes, path) - copying;
  const double beside = delivery.work * (1 - 1 / delivery.parts);
  return path.round_trip + delivery.work + copying + std::max(0.0, waiting - beside);
}

Path Slower(Path path) {
  path.rate /= kSlower;
  return path;
}

double MessagesOf(std::uint64_t bytes) { return 1 + static_cast<double>(bytes) / kMessage; }

}  // namespace

std::uint64_t CodedBytes(const ReadPlan& plan) {
  const std::vector<CodedError> errors = CodedErrors(plan, {});
  const double resolution = Resolution(plan.type, plan.recorded.all);
  const auto most = static_cast<double>(8 * SizeOf(plan.type));
  double payload = 0;
  double bytes = 0;
  for (std::size_t i = 0; i < plan.levels.size(); ++i) {
    const LevelExtent& level = plan.levels[i];
    payload += static_cast<double>(level.bytes);
    const auto samples = static_cast<double>(SampleCount(plan.query.box, plan.left_out, level.spacing));
    if (samples == 0) continue;
    const double stored = 2 * ErrorOfSamples(plan, level.layer) + resolution;
    const double bits = 8 * payload / plan.totals.levels[i].samples;
    bytes += samples / 8 * BitsAt(bits, stored, 2 * errors[i].coding + resolution, most) +
             kTile * std::ceil(samples / static_cast<double>(kMaxTileSamples));
  }
  return static_cast<std::uint64_t>(std::min(bytes, 0x1p63));
}

EncodingChoice ChooseEncoding(const ReadPlan& plan, const Ends& ends) {
  const Cost& cost = plan.cost;
  const CoderTraits& tile = TileCoder(plan.type, plan.coder, CodedErrors(plan, {}).back().coding).traits();
  const PatchCoder* const coder = FindCoder(plan.coder);
  const double decode_ns = coder != nullptr ? coder->traits().decode_ns : CoderTraits().decode_ns;
  const double decoded =
      plan.totals.levels.back().samples * static_cast<double>(SizeOf(plan.type)) * (plan.query.layer + 1);
  const auto samples = static_cast<double>(cost.reply_bytes);
  const double serving =
      (1 - ends.decoded) * (SecondsOf(decoded, decode_ns) + decoded * kKeep) / ends.threads;
  const double client = ends.path.threads;

  EncodingChoice choice;
  choice.path = WithRate(ends.path);
  const auto add = [&](AnswerEncoding encoding, const Delivery& delivery) {
    double seconds = SecondsOf(delivery, choice.path);
    if (ends.path.rate == 0) seconds += kOfSlow * (SecondsOf(delivery, Slower(choice.path)) - seconds);
    choice.prices.push_back({encoding, seconds, delivery.work});
  };
  add(AnswerEncoding::kSamples, {cost.reply_bytes, serving, MessagesOf(cost.reply_bytes)});
  if (ends.as_patches)
    add(AnswerEncoding::kPatches,
        {cost.bytes, SecondsOf(decoded, decode_ns) / client, MessagesOf(cost.bytes)});
  // Tiles keep the order of the grid. One after the other is coded.
  if (ends.as_tiles && !plan.query.focus)
    add(AnswerEncoding::kCoded,
        {cost.coded_bytes,
         serving + SecondsOf(samples, tile.encode_ns) + SecondsOf(samples, tile.decode_ns) / client,
         MessagesOf(cost.reply_bytes)});
  constexpr double kWorthIt = 0.95;
  // Near, the next reader is served at once from decoded patches: two milliseconds are worth that.
  constexpr double kNearGain = 2e-3;
  double best = kWorthIt * choice.prices.front().seconds;
  if (IsNear(choice.path)) best = std::min(best, choice.prices.front().seconds - kNearGain);
  for (const EncodingPrice& price : choice.prices) {
    if (price.encoding == AnswerEncoding::kSamples || price.seconds >= best) continue;
    best = price.seconds;
    choice.encoding = price.encoding;
  }
  return choice;
}

bool IsNear(const Path& path) { return path.round_trip < kNear; }

Path WithRate(Path path) {
  if (path.rate == 0) path.rate = kUsual / std::max(path.round_trip, 1e-6);
  path.rate = std::min(path.rate, kFastest);
  return path;
}

double TransferSeconds(std::uint64_t bytes, const Path& path) {
  const auto size = static_cast<double>(bytes);
  if (IsNear(path)) return size / path.rate;
  // Each window is twice the last one, until it takes a round trip to send it.
  const double longest = std::max(1.0, path.rate * path.round_trip / kFirstWindow);
  const double windows = std::log2(std::min(size / kFirstWindow + 1, longest));
  const double sent = kFirstWindow * (std::exp2(windows) - 1);
  return std::max(0.0, windows - 1) * path.round_trip + std::max(0.0, size - sent) / path.rate;
}

double RateAfter(const Path& path, std::uint64_t bytes, double elapsed, double waited, double work) {
  const Path known = WithRate(path);
  const double rate = std::max(known.rate, static_cast<double>(bytes) / std::max(elapsed, 1e-9));
  // The estimate of the work is good to a factor of two, and few bytes say little.
  const double sending = waited - 2 * work;
  const auto seconds_at = [&](double at) { return TransferSeconds(bytes, {known.round_trip, at, 1}); };
  if (static_cast<double>(bytes) < kMessage || seconds_at(rate) >= sending) return std::min(rate, kFastest);
  double slow = 1;
  double fast = rate;
  for (int i = 0; i < 40; ++i) {
    const double middle = std::sqrt(slow * fast);
    (seconds_at(middle) > sending ? slow : fast) = middle;
  }
  return fast;
}

}  // namespace quarry::query
