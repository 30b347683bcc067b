#include "writer/intransit/protocol.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "writer/redistribute/mpi_status.h"
#include "writer/redistribute/quiet_wait.h"

namespace quarry::intransit::internal {
namespace {

using nlohmann::json;

// Numbers on the wire.
enum class Kind { kOpen = 1, kStep = 2, kClose = 3, kFinish = 4 };

json ToJson(const distribution::Ownership& owned) {
  json ranks = json::array();
  for (const std::vector<Box>& boxes : owned) {
    json corners = json::array();
    for (const Box& box : boxes) corners.push_back({box.begin, box.end});
    ranks.push_back(std::move(corners));
  }
  return ranks;
}

distribution::Ownership OwnershipFromJson(const json& ranks) {
  distribution::Ownership owned;
  for (const json& corners : ranks) {
    owned.emplace_back();
    for (const json& box : corners)
      owned.back().push_back({box.at(0).get<Index3>(), box.at(1).get<Index3>()});
  }
  return owned;
}

json ToJson(const OpenCommand& open) {
  return {{"kind", static_cast<int>(Kind::kOpen)},
          {"setup", open.setup},
          {"message_bytes", open.message_bytes},
          {"ranks", open.ranks},
          {"owned", ToJson(open.owned)}};
}

json ToJson(const StepCommand& step) {
  return {{"kind", static_cast<int>(Kind::kStep)},
          {"dataset", step.dataset},
          {"step", step.step},
          {"time", step.time ? json(*step.time) : json()},
          {"fields", step.fields}};
}

json ToJson(const CloseCommand& close) {
  return {{"kind", static_cast<int>(Kind::kClose)},
          {"dataset", close.dataset},
          {"waiting", close.waiting_seconds}};
}

json ToJson(const FinishCommand&) { return {{"kind", static_cast<int>(Kind::kFinish)}}; }

Command CommandFromJson(const json& j) {
  switch (static_cast<Kind>(j.at("kind").get<int>())) {
    case Kind::kOpen:
      return OpenCommand{j.at("setup"), j.at("message_bytes"), j.at("ranks").get<std::vector<int>>(),
                         OwnershipFromJson(j.at("owned"))};
    case Kind::kStep: {
      const json& time = j.at("time");
      return StepCommand{j.at("dataset"), j.at("step"),
                         time.is_null() ? std::nullopt : std::optional(time.get<double>()),
                         j.at("fields").get<std::vector<std::size_t>>()};
    }
    case Kind::kClose:
      return CloseCommand{j.at("dataset"), j.at("waiting")};
    case Kind::kFinish:
      break;
  }
  return FinishCommand{};
}

json ToJson(const Status& status) { return {static_cast<int>(status.code()), status.message()}; }

Status StatusFromJson(const json& j) {
  return {static_cast<StatusCode>(j.at(0).get<int>()), j.at(1).get<std::string>()};
}

// CBOR, unlike text, keeps NaN as a time and messages that are not UTF-8.
std::string ToText(const json& j) {
  std::string text;
  json::to_cbor(j, text);
  return text;
}

template <typename Value, typename FromJson>
Result<Value> FromText(const std::string& text, FromJson from_json) {
  try {
    return from_json(json::from_cbor(text));
  } catch (const json::exception& error) {
    return DataLoss("a message between simulation and writers arrived damaged: {}", error.what());
  }
}

}  // namespace

std::string Encode(const Command& command) {
  return ToText(std::visit([](const auto& c) { return ToJson(c); }, command));
}

Result<Command> DecodeCommand(const std::string& text) { return FromText<Command>(text, CommandFromJson); }

std::string Encode(const std::vector<Answer>& answers) {
  json list = json::array();
  for (const Answer& a : answers) {
    list.push_back({a.dataset, a.step ? json(*a.step) : json(), ToJson(a.status), ToJson(a.ended)});
  }
  return ToText(list);
}

Result<std::vector<Answer>> DecodeAnswers(const std::string& text) {
  return FromText<std::vector<Answer>>(text, [](const json& list) {
    std::vector<Answer> answers;
    for (const json& a : list) {
      answers.push_back({a.at(0).get<int>(),
                         a.at(1).is_null() ? std::nullopt : std::optional(a.at(1).get<std::uint64_t>()),
                         StatusFromJson(a.at(2)), StatusFromJson(a.at(3))});
    }
    return answers;
  });
}

Status SendText(MPI_Comm comm, int target, int tag, const std::string& text) {
  if (text.size() > std::numeric_limits<int>::max())
    return InternalError("{} bytes of boxes do not fit a message; give each rank fewer boxes", text.size());
  QUARRY_MPI(MPI_Send, text.data(), static_cast<int>(text.size()), MPI_BYTE, target, tag, comm);
  return Status::Ok();
}

Result<Received> ReceiveText(MPI_Comm comm, int source, int tag) {
  MPI_Status status;
  redistribute::WaitForMessage(source, tag, comm);
  QUARRY_MPI(MPI_Probe, source, tag, comm, &status);
  int bytes = 0;
  QUARRY_MPI(MPI_Get_count, &status, MPI_BYTE, &bytes);
  Received received{status.MPI_SOURCE, std::string(static_cast<std::size_t>(bytes), '\0')};
  QUARRY_MPI(MPI_Recv, received.text.data(), bytes, MPI_BYTE, received.source, tag, comm, MPI_STATUS_IGNORE);
  return received;
}

}  // namespace quarry::intransit::internal
