/** The page over computed fields: for tests alone, never a part of the real page. Options are in the address' query. */
import { App } from "../../../src/ui/app";
import "../../../src/ui/styles.css";
import { kFakes } from "../../fake/datasets";
import { fakeSource } from "../../fake/source";
import type { ViewState } from "../../../src/model";

const query = new URLSearchParams(location.search);
const source = fakeSource(kFakes, { delay: Number(query.get("delay") ?? 0), stopAt: Number(query.get("stop") ?? 0), token: query.has("token") });

const app = new App(document.body, {
  source: (token) => Object.assign(source, { token }),
  readLink: () => JSON.parse(decodeURIComponent(location.hash.slice(1) || "{}")) as Partial<ViewState>,
  writeLink: (state) => {
    const link = `#${encodeURIComponent(JSON.stringify(state))}`;
    if (location.hash !== link) history.replaceState(null, "", link);
  },
  onLink: (changed) => { addEventListener("hashchange", changed); },
  command: (state, _opened, kind) => `${kind} ${state.dataset}`,
});
Object.assign(window, { app, fake: source });
