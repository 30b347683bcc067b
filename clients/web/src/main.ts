/**
 * The page, made of its parts. It asks for the dataset of the link before the program that draws is there, which is most
 * of the bytes: the server answers meanwhile.
 */
import { askGrpcPort } from "./net/port";
import { keepToken, takeToken } from "./net/token";
import { askingAhead, createSource } from "./source";
import { parseLink } from "./state/index";
import "./ui/styles.css";

const token = takeToken(window);
const withToken = (value: string | null) => createSource(location.origin, { token: () => value });
const source = askingAhead(withToken(token), parseLink(location.hash).values.dataset ?? "");

// Without a top-level await: the program imports what it shares with this module, and would wait for it for ever.
void import("./ui/app").then(({ App }) => new App(document.body, {
  source,
  withToken,
  keepToken: (value) => keepToken(window, value),
  askGrpcPort: () => askGrpcPort(location.origin),
}));
