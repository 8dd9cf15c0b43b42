// Preloaded into a server that would listen on every interface: `node --require loopback.cjs main.js`.
// Every TCP port that it opens is opened on 127.0.0.1; pipes and sockets handed over are left alone.
"use strict";

const net = require("node:net");

const LOOPBACK = "127.0.0.1";
const listen = net.Server.prototype.listen;

const isPort = (value) =>
  typeof value === "number" || (typeof value === "string" && /^\d+$/.test(value));

net.Server.prototype.listen = function (first, ...rest) {
  // listen(options, callback)
  if (first !== null && typeof first === "object") {
    return listen.call(this, isPort(first.port) ? { ...first, host: LOOPBACK } : first, ...rest);
  }
  // listen(path, ..)
  if (typeof first === "string" && !isPort(first)) {
    return listen.call(this, first, ...rest);
  }
  // listen(port, host, backlog, callback), each but the first left out at will; listen(callback): any port
  const options = { port: isPort(first) ? Number(first) : 0, host: LOOPBACK };
  const backlog = rest.find((value) => typeof value === "number");
  if (backlog !== undefined) options.backlog = backlog;
  const callback = [first, ...rest].find((value) => typeof value === "function");
  return listen.call(this, options, callback);
};
