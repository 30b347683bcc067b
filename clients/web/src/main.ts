/** The page, made of its parts. */
import { askGrpcPort } from "./net/port";
import { keepToken, takeToken } from "./net/token";
import { createSource } from "./source";
import { App } from "./ui/app";
import "./ui/styles.css";

new App(document.body, {
  source: (token) => createSource(location.origin, { token: () => token }),
  token: takeToken(window),
  keepToken: (token) => keepToken(window, token),
  askGrpcPort: () => askGrpcPort(location.origin),
});
