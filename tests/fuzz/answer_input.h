#pragma once

#include "quarry/description.h"
#include "quarry/question.h"

namespace quarry::fuzz {

/// The dataset and the questions that the inputs of the target "answer" are answers to. An input has a byte
/// that selects the question, then messages, each after its size (u16).
inline DatasetDescription AnswerDataset() {
  DatasetDescription dataset;
  dataset.created_by = "fuzz";
  dataset.grids[0].dims = {20, 12, 6};
  dataset.grids[0].patch = {8, 8, 8};
  dataset.grids[0].levels = 3;
  dataset.fields = {{"p", DataType::kFloat32, "Pa", CoderId::kInterpolate, AbsoluteBound{0.25}},
                    {"q", DataType::kInt16, "", CoderId::kLossless, Lossless{}},
                    {"r", DataType::kFloat32, "Pa", CoderId::kInterpolate, AbsoluteBound{0.01}}};
  dataset.fields[2].rougher = {0.25};
  return dataset;
}

inline query::SeriesRequest AnswerRequest(unsigned choice) {
  query::SeriesRequest request;
  request.read.field = (choice & 1) != 0 ? "q" : "p";
  if ((choice & 2) != 0) request.read.box = Box{{3, 2, 1}, {15, 11, 5}};
  if ((choice & 4) != 0) request.read.first_level = 2;
  request.read.allow_damage = (choice & 8) == 0;
  if ((choice & 16) != 0) request.read.target = query::WithinError{0.5};
  if ((choice & 32) != 0) request.read.values = {0, 10};
  if ((choice & 64) != 0) {
    request.read.field.clear();
    request.fields = {"p", "q"};
    request.steps = query::StepRange{0, 10, 1};
  }
  if ((choice & 128) != 0) request.read.target = query::AtStride{{2, 4, 1}};
  // Both at once stand for the layers of "r", one after the other.
  if ((choice & 144) == 144 && (choice & 64) == 0) {
    request.read.field = "r";
    request.read.first_layer = 0;
    request.read.target = {};
  }
  return request;
}

}  // namespace quarry::fuzz
