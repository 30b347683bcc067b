#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "quarry/intransit.h"
#include "quarry/quarry_intransit.h"
#include "writer/insitu/c_object.h"
#include "writer/insitu/collective.h"
#include "writer/pipeline/phases.h"

namespace {

namespace insitu = quarry::insitu;
namespace intransit = quarry::intransit;
using quarry::FailedPrecondition;
using quarry::InvalidArgument;
using quarry::Result;
using quarry::Status;
using quarry::StatusCode;
using quarry::writer::Guarded;

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

struct quarry_intransit {
  std::optional<intransit::Roles> roles;
  intransit::Transport transport;
  std::string message;
  std::string failure;  ///< error text of a consumer

  int Report(const Status& status) {
    if (!status.ok()) message = status.message();
    return static_cast<int>(status.code());
  }
  Status CheckRoles() const {
    if (roles) return Status::Ok();
    return FailedPrecondition("quarry_intransit_split failed before");
  }
};

struct quarry_intransit_dataset {
  const insitu::Setup& setup;
  std::vector<intransit::Need> needs;
};

struct quarry_intransit_step {
  const intransit::ArrivedStep& step;
  quarry_intransit_dataset dataset;
};

namespace {

template <typename Split>
int MakeJob(quarry_intransit** out, Split split) {
  if (out == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  *out = new (std::nothrow) quarry_intransit;
  if (*out == nullptr) return QUARRY_INSITU_INTERNAL;
  quarry_intransit* job = *out;
  return job->Report(Guarded([&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(job->roles, split());
    return Status::Ok();
  }));
}

/// The code that a C function has returned, with its message.
Status StatusOf(int code, quarry_intransit* job) {
  const std::string said = std::exchange(job->failure, "");
  if (code == 0) return Status::Ok();
  const bool known = code >= static_cast<int>(StatusCode::kCancelled) &&
                     code <= static_cast<int>(StatusCode::kUnauthenticated);
  return {known ? static_cast<StatusCode>(code) : StatusCode::kInternal,
          said.empty() ? fmt::format("it has returned {}", code) : said};
}

intransit::Consumer ConsumerOf(quarry_intransit* job, const quarry_intransit_consumer& c) {
  intransit::Consumer consumer;
  if (c.needs != nullptr) {
    consumer.needs = [job, c](const insitu::Setup& setup) -> Result<std::vector<intransit::Need>> {
      quarry_intransit_dataset dataset{setup, {}};
      QUARRY_RETURN_IF_ERROR(StatusOf(c.needs(&dataset, c.user), job));
      return std::move(dataset.needs);
    };
  }
  if (c.consume != nullptr) {
    consumer.consume = [job, c](const intransit::ArrivedStep& arrived) {
      const quarry_intransit_step step{arrived, {arrived.setup, {}}};
      return StatusOf(c.consume(&step, c.user), job);
    };
  }
  return consumer;
}

}  // namespace

extern "C" {

int quarry_intransit_split(MPI_Comm world, int writers, quarry_intransit** out) {
  return MakeJob(out, [&] { return intransit::Roles::Split(world, writers); });
}

int quarry_intransit_split_by_role(MPI_Comm world, int writes, quarry_intransit** out) {
  return MakeJob(out, [&] { return intransit::Roles::SplitByRole(world, writes != 0); });
}

int quarry_intransit_writes(const quarry_intransit* job) {
  return job != nullptr && job->roles && job->roles->writes() ? 1 : 0;
}

MPI_Comm quarry_intransit_comm(const quarry_intransit* job) {
  return job != nullptr && job->roles ? job->roles->comm() : MPI_COMM_NULL;
}

int quarry_intransit_set_steps_in_flight(quarry_intransit* job, int steps) {
  if (job == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  job->transport.steps_in_flight = steps;  // checked on all ranks when a dataset is opened
  return QUARRY_INSITU_OK;
}

int quarry_intransit_open(quarry_intransit* job, MPI_Comm comm, const char* path, int mode,
                          quarry_insitu** out) {
  if (job == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  const Status known = job->CheckRoles();
  if (!known.ok()) {
    if (out != nullptr) *out = nullptr;
    return job->Report(known);
  }
  const auto open = [roles = *job->roles, transport = job->transport, comm](
                        const insitu::Setup& setup, const std::vector<insitu::OwnedBox>& boxes,
                        const Status& declared) -> Result<std::unique_ptr<insitu::AnyDataset>> {
    QUARRY_ASSIGN_OR_RETURN(std::unique_ptr<insitu::AnyDataset> dataset,
                            intransit::Dataset::Open(roles, comm, setup, boxes, transport, declared));
    return dataset;
  };
  return insitu::internal::MakeObject(open, path, mode, out);
}

int quarry_intransit_serve(quarry_intransit* job, int writes, const quarry_intransit_consumer* consumer) {
  if (job == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  return job->Report(Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(job->CheckRoles());
    intransit::ServeOptions options;
    options.writes = writes != 0;
    if (consumer != nullptr) options.consumer = ConsumerOf(job, *consumer);
    return quarry::internal::ToStatus(intransit::Serve(*job->roles, options));
  }));
}

const char* quarry_intransit_path(const quarry_intransit_dataset* dataset) {
  return dataset->setup.path.c_str();
}

void quarry_intransit_grid(const quarry_intransit_dataset* dataset, int64_t dims[3]) {
  std::copy_n(dataset->setup.declaration.dims.begin(), 3, dims);
}

int quarry_intransit_type(const quarry_intransit_dataset* dataset, const char* field) {
  const insitu::Declaration& declared = dataset->setup.declaration;
  const std::size_t number = insitu::FieldNumber(declared, TextOf(field));
  return number == declared.fields.size() ? 0 : static_cast<int>(declared.fields[number].type);
}

int quarry_intransit_need(quarry_intransit_dataset* dataset, const char* field, const int64_t begin[3],
                          const int64_t end[3]) {
  if (dataset == nullptr || field == nullptr || begin == nullptr || end == nullptr)
    return QUARRY_INSITU_INVALID_ARGUMENT;
  return static_cast<int>(
      Guarded([&] {
        intransit::Need* found = nullptr;
        for (intransit::Need& need : dataset->needs) {
          if (need.field == field) found = &need;
        }
        if (found == nullptr) found = &dataset->needs.emplace_back(intransit::Need{field, {}});
        found->boxes.push_back({{begin[0], begin[1], begin[2]}, {end[0], end[1], end[2]}});
        return Status::Ok();
      }).code());
}

const quarry_intransit_dataset* quarry_intransit_step_dataset(const quarry_intransit_step* step) {
  return &step->dataset;
}

int64_t quarry_intransit_step_number(const quarry_intransit_step* step) {
  return static_cast<std::int64_t>(step->step.number);
}

double quarry_intransit_step_time(const quarry_intransit_step* step) {
  return step->step.time.value_or(std::numeric_limits<double>::quiet_NaN());
}

const void* quarry_intransit_samples(const quarry_intransit_step* step, const char* field, int box) {
  const intransit::ArrivedField* found = step->step.Find(TextOf(field));
  if (found == nullptr || box < 0 || static_cast<std::size_t>(box) >= found->samples.size()) return nullptr;
  const std::span<const std::byte> samples = found->samples[static_cast<std::size_t>(box)];
  return samples.empty() ? nullptr : samples.data();
}

int quarry_intransit_fail(quarry_intransit* job, const char* message) {
  if (job != nullptr) job->failure = TextOf(message);
  return QUARRY_INSITU_INTERNAL;
}

const char* quarry_intransit_last_message(const quarry_intransit* job) {
  return job == nullptr ? "there is no job; quarry_intransit_split makes one" : job->message.c_str();
}

void quarry_intransit_free(quarry_intransit* job) { delete job; }

}  // extern "C"
