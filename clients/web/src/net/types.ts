/** Types of samples, and of the numbers of attributes. */
import { DataType } from "../../build/proto/quarry/v1/dataset_pb";
import type { SampleType } from "../model";
import { badAnswer } from "./errors";

const kTypes: ReadonlyMap<DataType, SampleType> = new Map([
  [DataType.FLOAT32, "float32"], [DataType.FLOAT64, "float64"], [DataType.INT8, "int8"], [DataType.UINT8, "uint8"],
  [DataType.INT16, "int16"], [DataType.UINT16, "uint16"], [DataType.INT32, "int32"], [DataType.UINT32, "uint32"],
  [DataType.INT64, "int64"], [DataType.UINT64, "uint64"],
]);

export function sampleType(type: DataType): SampleType {
  const found = kTypes.get(type);
  if (found === undefined) throw badAnswer(`sample type ${type} is unknown`);
  return found;
}
