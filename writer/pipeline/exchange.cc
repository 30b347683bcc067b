#include "writer/pipeline/exchange.h"

#include <algorithm>
#include <utility>

#include "writer/pipeline/comm.h"
#include "writer/pipeline/phases.h"
#include "writer/redistribute/copy_part.h"
#include "writer/redistribute/schedules.h"

namespace quarry::writer {

PatchGathering::PatchGathering(const PatchGrid& grid, DataType type, redistribute::PatchSchedule schedule,
                               bool lasting, Owner owner)
    : grid_(grid),
      sample_bytes_(SizeOf(type)),
      lasting_(lasting),
      owner_(std::move(owner)),
      schedule_(std::move(schedule.schedule)) {
  targets_.reserve(schedule.patches.size());
  for (std::size_t t = 0; t < schedule.patches.size(); ++t)
    targets_.push_back({{schedule.patches[t], Bytes(), 0}, schedule_.needed[t], 0, false});
  for (const redistribute::Part& part : schedule_.copies)
    targets_[part.needed_box].missing += part.box.volume();
  for (const redistribute::Part& part : schedule_.receives) targets_[part.needed_box].shared = true;
  // The targets have what these say.
  schedule_.copies = {};
  schedule_.needed = {};
  if (lasting_) {
    lasting_views_.resize(schedule_.owned.size());
    return;
  }
  outgoing_.resize(schedule_.sends.size());
  for (std::size_t s = 0; s < schedule_.sends.size(); ++s) {
    const redistribute::Part& part = schedule_.sends[s];
    sends_.push_back({part.owned_box, static_cast<std::int64_t>(part.needed_box), s});
  }
  std::ranges::sort(sends_);
}

PatchGathering::Target* PatchGathering::FindTarget(std::int64_t patch) {
  const auto index = [](const Target& target) { return target.patch.patch_index; };
  const auto found = std::ranges::lower_bound(targets_, patch, {}, index);
  return found != targets_.end() && index(*found) == patch ? &*found : nullptr;
}

bool PatchGathering::Encodes(std::int64_t patch) const {
  const auto index = [](const Target& target) { return target.patch.patch_index; };
  return std::ranges::binary_search(targets_, patch, {}, index);
}

void PatchGathering::Allocate(Target* target) {
  if (!target->patch.samples.empty()) return;
  const std::size_t bytes = static_cast<std::size_t>(target->box.volume()) * sample_bytes_;
  owner_.reserve(bytes);
  target->patch.samples.resize(bytes);
}

void PatchGathering::AddToPatch(Target* target, const Box& piece, const BoxView& samples) {
  Allocate(target);
  const Box part = Intersect(piece, target->box);
  const auto whole =
      redistribute::MutableBoxView::Dense(target->patch.samples.data(), target->box, sample_bytes_);
  redistribute::CopyPart(samples, piece, whole, target->box, part, sample_bytes_);
  target->missing -= part.volume();
  if (target->missing == 0 && !target->shared) owner_.take(std::move(target->patch));
}

void PatchGathering::Add(std::size_t box, const Box& piece, const BoxView& samples) {
  if (lasting_) lasting_views_[box] = samples;
  distribution::ForEachPatch(grid_, piece, [&](std::int64_t patch) {
    if (Target* target = FindTarget(patch)) {
      AddToPatch(target, piece, samples);
    } else if (!lasting_) {
      AddToSend(std::ranges::lower_bound(sends_, Send{box, patch, 0})->number, piece, samples);
    }
  });
}

void PatchGathering::AddToSend(std::size_t send, const Box& piece, const BoxView& samples) {
  const Box& box = schedule_.sends[send].box;
  Bytes& bytes = outgoing_[send];
  bytes.resize(static_cast<std::size_t>(box.volume()) * sample_bytes_);
  redistribute::CopyPart(samples, piece,
                         redistribute::MutableBoxView::Dense(bytes.data(), box, sample_bytes_), box,
                         Intersect(piece, box), sample_bytes_);
}

redistribute::RankSchedule PatchGathering::TakeMessages() {
  redistribute::RankSchedule messages = std::move(schedule_);
  std::vector<std::size_t> number(targets_.size());
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (!targets_[t].shared) continue;
    number[t] = messages.needed.size();
    messages.needed.push_back(targets_[t].box);
  }
  for (redistribute::Part& part : messages.receives) part.needed_box = number[part.needed_box];
  if (lasting_) return messages;
  // The sent samples have been copied to arrays of their own.
  messages.owned.clear();
  for (redistribute::Part& part : messages.sends) {
    part.owned_box = messages.owned.size();
    messages.owned.push_back(part.box);
  }
  return messages;
}

Status PatchGathering::Exchange(MPI_Comm comm, redistribute::Redistribution* redistribution) {
  std::vector<BoxView> sent = lasting_views_;
  std::vector<redistribute::MutableBoxView> received;
  QUARRY_RETURN_IF_ERROR(OnEveryRank(comm, [&] {
    for (std::size_t s = 0; s < outgoing_.size(); ++s)
      sent.push_back(BoxView::Dense(outgoing_[s].data(), schedule_.sends[s].box, sample_bytes_));
    for (Target& target : targets_) {
      if (!target.shared) continue;
      Allocate(&target);
      received.push_back(
          redistribute::MutableBoxView::Dense(target.patch.samples.data(), target.box, sample_bytes_));
    }
    redistribute::Schedules::Use(TakeMessages(), redistribution);
    return Status::Ok();
  }));
  const Status exchanged = redistribution->Exchange(sent, received);
  // Many small parts have as many datatypes: these do not wait for the next chunk.
  redistribute::Schedules::Use({}, redistribution);
  QUARRY_RETURN_IF_ERROR(exchanged);
  for (Target& target : targets_) {
    if (target.shared) owner_.take(std::move(target.patch));
  }
  return Status::Ok();
}

}  // namespace quarry::writer
