import { askGrpcPort, createSource, takeToken } from "./net/index";
import { App } from "./ui/app";
import "./ui/styles.css";

new App(document.body, (token) => createSource(location.origin, { token: () => token }), takeToken(window), () => askGrpcPort(location.origin));
