/** The page over computed fields: for tests alone, never a part of the real page. Options are in the address' query. */
import { App } from "../../../src/ui/app";
import "../../../src/ui/styles.css";
import { kFakes } from "../../fake/datasets";
import { fakeSource } from "../../fake/source";

const query = new URLSearchParams(location.search);
const source = fakeSource(kFakes, {
  delay: Number(query.get("delay") ?? 0),
  stopAt: Number(query.get("stop") ?? 0),
  token: query.has("token"),
  ...(query.has("mixed") ? { stopFor: (patch) => patch % 3 } : {}),
});

const app = new App(document.body, {
  source: Object.assign(source, { token: null }),
  withToken: (token) => Object.assign(source, { token }),
  keepToken: () => true,
  askGrpcPort: () => Promise.resolve(null),
});
Object.assign(window, { app, fake: source });
